"""VSA against its published formula, written out token by token."""

import pytest
import torch
from torch import Tensor

from attention import AttentionError, Grid, executor, inverse_order
from attention.trained import Vsa, attend_vsa, prepare, select_vsa, vsa_layout
from tests.attention.naive import attend_one, best, boxes_of, mean, shares, some

GRIDS = [Grid(5, 6, 7), Grid(1, 3, 9), Grid(4, 4, 8)]
CUBE = (4, 4, 4)


def published(x: list[Tensor], grid: Grid, kept: int) -> Tensor:
    """Return VSA of one head in raster order: queries, keys, values, gates [n, d]."""
    q, k, v, gate = x
    boxes = boxes_of((grid.frames, grid.rows, grid.columns), CUBE)
    means = [[mean(y, box) for box in boxes] for y in (q, k, v)]
    out = torch.zeros_like(q)
    for index, box in enumerate(boxes):
        scores = [float(means[0][index] @ key) / q.shape[1] ** 0.5 for key in means[1]]
        parts = zip(shares(scores), means[2], strict=True)
        coarse = sum((share * value for share, value in parts), torch.zeros_like(q[0]))
        tokens = [token for place in best(scores, kept) for token in boxes[place]]
        for token in box:
            out[token] = coarse * gate[token] + attend_one(q[token], k, v, tokens)
    return out


def run(x: list[Tensor], grid: Grid, pattern: Vsa, backend: str = "reference") -> Tensor:
    layout = vsa_layout(grid)
    ordered = [y[None, None, layout.order_n] for y in x]
    out = attend_vsa(*ordered, layout, pattern, executor(backend)).out
    return out[0, 0, inverse_order(layout.order_n)]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_equals_the_published_formula(grid: Grid, backend: str) -> None:
    x = [some(grid.tokens, 8, seed=seed) for seed in range(4)]
    pattern = Vsa(sparsity=0.7)
    kept = pattern.kept(len(vsa_layout(grid).sizes_t))
    torch.testing.assert_close(run(x, grid, pattern, backend), published(x, grid, kept))


@pytest.mark.parametrize("gate", [0.0, 1.0])
def test_a_gate_opens_and_closes_the_coarse_branch(gate: float) -> None:
    grid = Grid(5, 4, 6)
    x = [some(grid.tokens, 8, seed=seed) for seed in range(3)]
    gates = torch.full_like(x[0], gate)
    out = run([*x, gates], grid, Vsa(sparsity=0.5))
    torch.testing.assert_close(out, published([*x, gates], grid, 2))


def test_nothing_left_out_is_dense_attention_plus_the_gated_coarse_branch() -> None:
    grid = Grid(5, 3, 6)
    q, k, v, gate = x = [some(grid.tokens, 8, seed=seed) for seed in range(4)]
    dense = torch.stack([attend_one(row, k, v, list(range(grid.tokens))) for row in q])
    closed = run([q, k, v, torch.zeros_like(gate)], grid, Vsa(sparsity=0.0))
    torch.testing.assert_close(closed, dense)
    opened = run([q, k, v, torch.ones_like(gate)], grid, Vsa(sparsity=0.0))
    torch.testing.assert_close(run(x, grid, Vsa(sparsity=0.0)), dense + (opened - dense) * gate)


@pytest.mark.parametrize(
    ("sparsity", "blocks", "kept"),
    [(0.8, 4, 1), (0.8, 5, 1), (0.8, 6, 2), (0.9, 11, 2), (0.0, 7, 7), (1.0, 7, 1), (0.875, 8, 1)],
)
def test_the_count_is_rounded_up(sparsity: float, blocks: int, kept: int) -> None:
    assert Vsa(sparsity).kept(blocks) == kept


def test_equal_scores_are_taken_from_the_left() -> None:
    layout = vsa_layout(Grid(4, 4, 16))
    same = torch.ones(1, 1, 256, 8)
    assert select_vsa(same, same, layout, Vsa(0.5)).blocks_bhqs.tolist() == [[[[0, 1]] * 4]]


def test_padding_is_zero_and_never_read() -> None:
    """Whatever keys and values the executor finds in padding, the result is the same."""
    grid = Grid(5, 6, 7)
    layout = vsa_layout(grid)
    x = [some(grid.tokens, 8, seed=seed)[None, None, layout.order_n] for seed in range(4)]
    padding = torch.ones(len(layout.sizes_t) * 64, dtype=torch.bool)
    padding[layout.places_n] = False
    seen = []

    def spoiled(q, k, v, selection, proxies=None, *, scale=None):  # type: ignore[no-untyped-def]
        assert all(y[:, :, padding].abs().max() == 0 for y in (q, k, v))
        k, v = (torch.where(padding[:, None], 1e4, y) for y in (k, v))
        seen.append(selection)
        return executor("reference")(q, k, v, selection, proxies, scale=scale)

    plain = attend_vsa(*x, layout, Vsa(0.5), executor("reference"))
    torch.testing.assert_close(attend_vsa(*x, layout, Vsa(0.5), spoiled).out, plain.out)
    assert seen[0].num_keys == 512
    assert seen[0].key_sizes_k.tolist() == [64, 48, 32, 24, 16, 12, 8, 6]


def test_every_head_has_its_own_lists() -> None:
    grid = Grid(4, 8, 8)
    layout = vsa_layout(grid)
    q, k = (some(2, 3, grid.tokens, 8, seed=seed) for seed in (0, 1))
    together = select_vsa(q, k, layout, Vsa(0.6)).blocks_bhqs
    assert together.shape == (2, 3, 4, 2)
    for b in range(2):
        for h in range(3):
            alone = select_vsa(q[b : b + 1, h : h + 1], k[b : b + 1, h : h + 1], layout, Vsa(0.6))
            assert torch.equal(together[b, h], alone.blocks_bhqs[0, 0])


def test_half_precision_stays_half_precision() -> None:
    grid = Grid(5, 4, 6)
    x = [some(grid.tokens, 32, seed=seed).bfloat16() for seed in range(4)]
    out = run(x, grid, Vsa(0.0))
    assert out.dtype == torch.bfloat16
    wide = run([y.double() for y in x], grid, Vsa(0.0))
    assert (out.double() - wide).abs().max() < 0.05


def test_a_sequence_of_another_grid_is_refused() -> None:
    x = torch.zeros(1, 1, 100, 8)
    with pytest.raises(AttentionError, match=r"100 queries.*105 tokens"):
        attend_vsa(x, x, x, x, vsa_layout(Grid(5, 3, 7)), Vsa(), executor("reference"))


def test_prepared_counts_pairs_of_padded_cubes() -> None:
    assert prepare(Vsa(), Grid(5, 6, 7)).pairs == 64


@pytest.mark.parametrize("sparsity", [-0.1, 1.1])
def test_a_share_outside_is_refused(sparsity: float) -> None:
    with pytest.raises(AttentionError) as caught:
        Vsa(sparsity)
    assert caught.value.field == "attention"
