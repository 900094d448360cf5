"""LongCat's block sparse attention against its published formula, written out token by token."""

import pytest
import torch
from torch import Tensor

from attention import AttentionError, Grid, executor, inverse_order
from attention.trained import Bsa, attend_bsa, bsa_order, prepare, select_bsa
from tests.attention.naive import attend_one, best, boxes_of, mean, shares, some

TILE = (2, 2, 4)


def sharp(grid: Grid) -> list[Tensor]:
    """Return queries, keys and values whose tiles differ in their means."""
    x = [some(grid.tokens, 8, seed=seed) for seed in range(3)]
    for number, box in enumerate(boxes_of((grid.frames, grid.rows, grid.columns), TILE)):
        for y, seed in zip(x[:2], (100, 200), strict=True):
            y[box] += some(8, seed=seed + number)
    return x


def places(scores: list[float], dim: int, pattern: Bsa) -> list[int]:
    """Return the tiles that a row reads."""
    count = 0
    if pattern.cdf_threshold is not None:
        held = 0.0
        for share in sorted(shares([score / dim**0.5 for score in scores]), reverse=True):
            held += share
            count += held <= pattern.cdf_threshold
    if pattern.sparsity is not None:
        count = max(count, int((1 - pattern.sparsity) * len(scores)))
    return best(scores, count)


def published(x: list[Tensor], grid: Grid, key_grid: Grid, pattern: Bsa) -> Tensor:
    """Return BSA of one head in raster order: queries [n, d], keys and values [m, d]."""
    q, k, v = x
    boxes, key_boxes = (
        boxes_of((g.frames, g.rows, g.columns), pattern.tile) for g in (grid, key_grid)
    )
    key_means = [mean(k, box) for box in key_boxes]
    out = torch.zeros_like(q)
    for box in boxes:
        scores = [float(mean(q, box) @ key) for key in key_means]
        found = places(scores, q.shape[1], pattern)
        read = [token for place in found for token in key_boxes[place]]
        for token in box if read else ():
            out[token] = attend_one(q[token], k, v, read)
    return out


def run(
    x: list[Tensor], grid: Grid, key_grid: Grid, pattern: Bsa, backend: str = "reference"
) -> Tensor:
    q_order, k_order = bsa_order(pattern, grid), bsa_order(pattern, key_grid)
    q = x[0][None, None, q_order]
    k, v = (y[None, None, k_order] for y in x[1:])
    out = attend_bsa(q, k, v, key_grid, pattern, executor(backend)).out
    return out[0, 0, inverse_order(q_order)]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    "pattern",
    [
        Bsa(0.6, TILE),
        Bsa(0.875, (2, 2, 2)),
        Bsa(None, TILE, cdf_threshold=0.6),
        Bsa(None, TILE, cdf_threshold=0.2),
        Bsa(0.7, TILE, cdf_threshold=0.5),
    ],
    ids=str,
)
def test_equals_the_published_formula(pattern: Bsa, backend: str) -> None:
    grid = Grid(4, 6, 8)
    x = sharp(grid)
    expected = published(x, grid, grid, pattern)
    torch.testing.assert_close(run(x, grid, grid, pattern, backend), expected)


def test_the_threshold_leaves_rows_empty_and_the_sparsity_fills_them() -> None:
    grid = Grid(4, 6, 8)
    x = sharp(grid)
    zero = (run(x, grid, grid, Bsa(None, TILE, cdf_threshold=0.2)) == 0).all(dim=1)
    assert 0 < zero.sum() < grid.tokens
    filled = run(x, grid, grid, Bsa(0.9, TILE, cdf_threshold=0.2))
    assert not (filled == 0).all(dim=1).any()


def test_queries_and_keys_may_be_of_different_lengths() -> None:
    """Kept keys of given frames stand before those of the frames that are denoised."""
    grid, key_grid = Grid(2, 4, 8), Grid(4, 4, 8)
    x = [some(tokens, 8, seed=tokens) for tokens in (grid.tokens, *[key_grid.tokens] * 2)]
    expected = published(x, grid, key_grid, Bsa(0.5, TILE))
    torch.testing.assert_close(run(x, grid, key_grid, Bsa(0.5, TILE)), expected)


def test_nothing_left_out_is_dense() -> None:
    grid = Grid(4, 4, 4)
    x = [some(64, 8, seed=seed) for seed in range(3)]
    dense = torch.stack([attend_one(row, x[1], x[2], list(range(64))) for row in x[0]])
    torch.testing.assert_close(run(x, grid, grid, Bsa(0.0, (2, 2, 2))), dense)


def test_a_single_frame_is_dense_whatever_its_size() -> None:
    grid = Grid(1, 7, 11)
    x = [some(77, 8, seed=seed) for seed in range(3)]
    dense = torch.stack([attend_one(row, x[1], x[2], list(range(77))) for row in x[0]])
    torch.testing.assert_close(run(x, grid, grid, Bsa(0.5)), dense)
    assert prepare(Bsa(0.5), grid).pairs == 4


@pytest.mark.parametrize("grid", [Grid(5, 8, 8), Grid(4, 6, 8), Grid(4, 8, 13)], ids=str)
def test_a_grid_that_tiles_do_not_divide_is_refused(grid: Grid) -> None:
    with pytest.raises(AttentionError, match=f"4x4x4 tokens and {grid} is no multiple") as caught:
        prepare(Bsa(), grid)
    assert caught.value.field == "attention"


@pytest.mark.parametrize(
    ("sparsity", "blocks", "kept"),
    [(0.9375, 16, 1), (0.9375, 47, 2), (0.875, 23, 2), (0.9, 10, 0), (0.9, 11, 1), (0.0, 5, 5)],
)
def test_the_count_is_rounded_down(sparsity: float, blocks: int, kept: int) -> None:
    """1 - 0.9 is below a tenth in floating point, so that 0.9 of ten tiles keeps none."""
    assert Bsa(sparsity, cdf_threshold=0.5).kept(blocks) == kept


def test_a_sparsity_that_keeps_nothing_is_refused() -> None:
    x = torch.zeros(1, 1, 64 * 15, 8)
    with pytest.raises(AttentionError, match=r"0\.9375 of 15 key tiles keeps none"):
        select_bsa(x, x, Bsa())


def test_equal_scores_are_taken_from_the_left() -> None:
    same = torch.ones(1, 1, 64, 8)
    for pattern in (Bsa(0.5, TILE), Bsa(0.5, TILE, 0.1)):
        found = select_bsa(same, same, pattern)
        assert found.mask_bhqk().long().tolist() == [[[[1, 1, 0, 0]] * 4]]


def test_neither_count_nor_threshold_is_refused() -> None:
    with pytest.raises(AttentionError, match="neither"):
        Bsa(None)
