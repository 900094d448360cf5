"""Selection: the lists say which blocks are read, whatever their scores look like."""

import pytest
import torch

from attention.selection import Selection, select_all, select_highest
from tests.attention.tensors import lists


def chosen(scores: list[float], count: int) -> list[int]:
    blocks, _ = select_highest(torch.tensor(scores)[None, None, None], torch.tensor(count), count)
    found: list[int] = blocks[0, 0, 0].tolist()
    return found


def test_the_highest_are_taken_and_listed_in_order() -> None:
    assert chosen([0.1, 3.0, -2.0, 2.0, 5.0], 3) == [1, 3, 4]


def test_ties_go_left() -> None:
    assert chosen([1.0] * 8, 3) == [0, 1, 2]
    assert chosen([0.0, 2.0, 2.0, 2.0, 1.0], 2) == [1, 2]
    assert chosen([-1.0, -1.0, -3.0, -1.0], 2) == [0, 1]


def test_minus_infinity_comes_last_and_negative_scores_sort_right() -> None:
    assert chosen([-torch.inf, -5.0, -1e30, 1e30, -0.5], 4) == [1, 2, 3, 4]
    assert chosen([-torch.inf] * 4, 2) == [0, 1]


def test_rows_of_different_lengths_are_filled_up() -> None:
    scores = torch.arange(5.0).expand(1, 1, 3, 5)
    blocks, counts = select_highest(scores, torch.tensor([1, 3, 2])[None, None], 3)
    assert blocks[0, 0].tolist() == [[4, -1, -1], [2, 3, 4], [3, 4, -1]]
    assert counts[0, 0].tolist() == [1, 3, 2]
    assert blocks.dtype == counts.dtype == torch.int32


def test_against_a_stable_sort_with_many_ties() -> None:
    scores = torch.randint(0, 4, (2, 3, 7, 40), generator=torch.Generator().manual_seed(0)).float()
    blocks, _ = select_highest(scores, torch.tensor(11), 11)
    expected = scores.sort(dim=-1, descending=True, stable=True).indices[..., :11].sort().values
    assert torch.equal(blocks.long(), expected)


def test_reruns_are_bit_identical() -> None:
    scores = torch.randn(1, 2, 5, 33).half().float()
    first, second = (select_highest(scores, torch.tensor(9), 9)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_the_mask_shows_the_lists() -> None:
    selection = lists((2, 3), 100, 90, (16, 8), most=5, least=1)
    mask = selection.mask_bhqk()
    assert mask.shape == (2, 3, 7, 12)
    for row, blocks, count in zip(
        mask.flatten(0, 2), selection.blocks_bhqs.flatten(0, 2), selection.counts_bhq.flatten(),
        strict=True,
    ):  # fmt: skip
        assert row.nonzero()[:, 0].tolist() == blocks[: int(count)].tolist()


def test_pairs_and_density_count_short_blocks_as_short() -> None:
    everything = select_all(50, 70, 16, 16)
    assert everything.pairs_bh().tolist() == [[50 * 70]]
    assert float(everything.density()) == 1.0
    last = torch.tensor([[[[4]] * 4]], dtype=torch.int32)
    short = Selection(last, torch.ones(1, 1, 4, dtype=torch.int32), 16, 16, 50, 70)
    assert short.pairs_bh().tolist() == [[50 * 6]]


@pytest.mark.parametrize("sizes", [(4, 2, 0, 3), (1, 4, 4, 4)])
def test_padding_inside_blocks_is_not_real(sizes: tuple[int, ...]) -> None:
    everything = select_all(16, 16, 8, 4)
    padded = Selection(
        everything.blocks_bhqs, everything.counts_bhq, 8, 4, 16, 16, torch.tensor(sizes)
    )
    assert padded.real_m().view(4, 4).sum(dim=1).tolist() == list(sizes)
    assert padded.pairs_bh().tolist() == [[16 * sum(sizes)]]
