"""The router: what is read first, how many blocks, and the same lists however it computes."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention import (
    AttentionError,
    Grid,
    Layout,
    Selection,
    TopK,
    Window,
    make_proxies,
    router,
    select,
)
from attention.layout import OWN, TEXT, block_centres, block_sizes, priorities
from attention.patterns import Score
from attention.reference import attend_reference, reference_weights
from attention.selection import select_all
from tests.attention.tensors import tokens

GRID = Grid(4, 8, 12)  # 384 tokens
LAYOUT = Layout(GRID, query_block=32, key_block=16)  # 12 x 24 blocks
SCORES: list[Score] = ["mean", "subblock", "mass"]


def sets(selection: Selection, head: int = 0) -> list[set[int]]:
    """Return the blocks that each row of one head reads."""
    return [set(row[row >= 0].tolist()) for row in selection.blocks_bhqs[0, head]]


@pytest.mark.parametrize("score", SCORES)
def test_blocks_with_more_of_the_mass_are_found(score: Score) -> None:
    """Keys of one far block point where all queries point: every row must read it."""
    q, k, _ = tokens((1, 2, 384, 32), seed=3)
    q += 1
    k[:, :, 16 * 20 : 16 * 21] += 1
    selection = select(q, k, LAYOUT, TopK(density=0.25, score=score))
    assert all(20 in row for head in (0, 1) for row in sets(selection, head))


def test_own_and_neighbouring_blocks_come_first() -> None:
    q, k, _ = tokens((1, 1, 384, 32))
    row = sets(select(q, k, LAYOUT, TopK(density=4 / 24)))[5]
    assert row == {9, 10, 11, 12}  # its own two, one on each side
    assert {10, 11} <= sets(select(q, k, LAYOUT, TopK(density=2 / 24)))[5]
    free = select(q, k, LAYOUT, TopK(density=4 / 24, neighbours=0))
    assert any(row != {2 * i - 1, 2 * i, 2 * i + 1, 2 * i + 2} for i, row in enumerate(sets(free)))


def test_sink_frames_are_read_by_every_row() -> None:
    layout = Layout(GRID, 32, 16, sink_frames=1)
    q, k, _ = tokens((1, 1, 384, 32))
    for index, row in enumerate(sets(select(q, k, layout, TopK(density=0.5)))):
        assert set(range(6)) | {2 * index, 2 * index + 1} <= row
        assert len(row) == 12


def test_text_is_read_by_all_and_reads_all() -> None:
    layout = Layout(GRID, 32, 16, text_tokens=20)
    q, k, v = tokens((1, 2, 404, 32))
    selection = select(q, k, layout, TopK(density=0.25))
    rows = sets(selection)
    assert all({24, 25} <= row for row in rows)
    assert rows[-1] == set(range(26))
    assert [len(row) for row in rows[:-1]] == [7] * 12
    dense = scaled_dot_product_attention(q, k, v)
    out = attend_reference(q, k, v, selection, make_proxies(k, v, 16, "mean"))
    assert torch.allclose(out[:, :, 384:], dense[:, :, 384:], atol=1e-6)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("blocks", [(32, 16), (16, 32), (48, 16), (24, 40), (128, 64)])
@pytest.mark.parametrize("text", [0, 7])
def test_scores_against_a_loop_over_blocks(
    score: Score, blocks: tuple[int, int], text: int
) -> None:
    layout = Layout(Grid(3, 5, 7), *blocks, text_tokens=text)
    q, k, _ = tokens((1, 2, layout.tokens, 8))
    pattern = TopK(score=score, sub_block=8)
    found = router.block_scores(q, k, layout, pattern, scale=0.5)
    parts = [8, 8]
    if score == "mean":
        parts = list(blocks)
    queries = [part.mean(2) for part in q.split(parts[0], 2)]
    keys = [part.mean(2) for part in k.split(parts[1], 2)]
    log_sizes = block_sizes(layout.tokens, parts[1]).log()
    fine = torch.stack([0.5 * (torch.stack(keys, 2) * x[:, :, None]).sum(-1) for x in queries], 2)
    if score != "mean":
        fine = fine + log_sizes
    if score == "mass":
        fine = fine.log_softmax(-1)
    over_keys = [part.logsumexp(-1) for part in fine.split(blocks[1] // parts[1], -1)]
    over_both = [
        part.logsumexp(2) for part in torch.stack(over_keys, -1).split(blocks[0] // parts[0], 2)
    ]
    assert torch.allclose(found, torch.stack(over_both, 2), atol=1e-5)


@pytest.mark.parametrize("score", SCORES)
def test_a_few_heads_at_a_time_give_the_same(score: Score, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, _ = tokens((2, 3, 384, 32))
    pattern = TopK(score=score)
    whole = router.block_scores(q, k, LAYOUT, pattern)
    monkeypatch.setitem(router._CHUNK_BYTES, "cpu", 1)
    assert torch.allclose(router.block_scores(q, k, LAYOUT, pattern), whole, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_reruns_are_bit_identical_and_scores_are_float32(dtype: torch.dtype) -> None:
    q, k, _ = tokens((1, 2, 384, 32), dtype)
    first, second = (select(q, k, LAYOUT, TopK()) for _ in range(2))
    assert torch.equal(first.blocks_bhqs, second.blocks_bhqs)
    assert router.block_scores(q, k, LAYOUT, TopK()).dtype == torch.float32


def test_equal_scores_take_the_left_blocks() -> None:
    q, k = torch.zeros(1, 1, 384, 32), torch.zeros(1, 1, 384, 32)
    rows = sets(select(q, k, LAYOUT, TopK(density=6 / 24, neighbours=0)))
    assert rows[11] == {0, 1, 2, 3, 22, 23}


@pytest.mark.parametrize("top_p", [0.01, 0.3, 0.6, 0.999])
def test_top_p_stays_within_half_and_one_and_a_half(top_p: float) -> None:
    q, k, _ = tokens((1, 2, 384, 32), spread=4.0)
    counts = select(q, k, LAYOUT, TopK(density=0.25, top_p=top_p)).counts_bhq
    assert int(counts.min()) >= 3
    assert int(counts.max()) <= 9
    if top_p == 0.01:
        assert set(counts.flatten().tolist()) == {3}
    if top_p == 0.999:
        assert set(counts.flatten().tolist()) == {9}


def test_top_p_reads_more_where_the_mass_is_spread() -> None:
    q, k, _ = tokens((1, 1, 384, 32), spread=0.01)
    q[:, :, :32] = 40 * k[:, :, 5:6]
    counts = select(q, k, LAYOUT, TopK(density=0.25, top_p=0.5)).counts_bhq[0, 0]
    assert int(counts[0]) < int(counts[1:].min())


def test_budgets_give_each_head_its_own_density() -> None:
    q, k, _ = tokens((1, 3, 384, 32))
    pattern = TopK(budgets=((0.125, 0.125, 0.125), (0.125, 0.25, 0.5)))
    counts = select(q, k, LAYOUT, pattern, layer=1).counts_bhq
    assert [set(head.tolist()) for head in counts[0]] == [{3}, {6}, {12}]
    with pytest.raises(AttentionError, match="budgets"):
        select(q, k, LAYOUT, pattern, layer=2)


def test_another_sequence_is_refused() -> None:
    q, k, _ = tokens((1, 1, 383, 32))
    with pytest.raises(AttentionError, match="383 queries and 383 keys do not fit"):
        select(q, k, LAYOUT, TopK())


def test_given_priorities_are_the_same_as_made_ones() -> None:
    q, k, _ = tokens((1, 1, 384, 32))
    given = select(q, k, LAYOUT, TopK(), first_kept=priorities(LAYOUT, 1))
    assert torch.equal(given.blocks_bhqs, select(q, k, LAYOUT, TopK()).blocks_bhqs)


@pytest.mark.parametrize("frame_cells", [0.25, 1.0, 4.0])
def test_a_window_is_static_and_takes_the_nearest(frame_cells: float) -> None:
    pattern = Window(density=0.25, frame_cells=frame_cells)
    q, k, _ = tokens((1, 2, 384, 32))
    selection = select(q, k, LAYOUT, pattern)
    assert selection.blocks_bhqs.shape == (1, 1, 12, 6)
    other = select(-q, 3 * k, LAYOUT, pattern)
    assert torch.equal(selection.blocks_bhqs, other.blocks_bhqs)
    stretch = torch.tensor([frame_cells, 1.0, 1.0])
    centres = [block_centres(LAYOUT, block) * stretch for block in (32, 16)]
    own = priorities(LAYOUT, 0) == OWN
    for row, reads in enumerate(sets(selection)):
        away = (centres[0][row] - centres[1]).norm(dim=1).masked_fill(own[row], -1)
        assert len(reads) == 6
        assert float(away[list(reads)].max()) <= float(away.sort().values[5]) + 1e-6


def test_a_window_keeps_text() -> None:
    layout = Layout(GRID, 32, 16, text_tokens=16)
    rows = sets(router.window(layout, Window(density=0.125)))
    text = (priorities(layout, 0) == TEXT).any(0).nonzero()[:, 0].tolist()
    assert all(set(text) <= row for row in rows)
    assert rows[-1] == set(range(layout.key_blocks))


def test_the_router_finds_more_mass_than_chance() -> None:
    """On keys that differ by place, the lists hold far more of the softmax than random ones."""
    q, k, _ = tokens((1, 1, 384, 32), seed=5)
    place = torch.linspace(0, 12, 384)[:, None] * torch.linspace(0.1, 1, 32)
    wave = 1.2 * torch.sin(place)
    q, k = q + wave, k + wave
    selection = select(q, k, LAYOUT, TopK(density=0.25, neighbours=0))
    everything = reference_weights(q, k, select_all(384, 384, 32, 16)).keys_bhnm
    read = selection.mask_bhqk().repeat_interleave(32, 2).repeat_interleave(16, 3)
    assert float((everything * read).sum(-1).mean()) > 0.6
