"""NABLA against its published formula, written out token by token."""

import pytest
import torch
from torch import Tensor

from attention import AttentionError, Grid, executor, inverse_order
from attention.trained import (
    Nabla,
    attend_nabla,
    nabla_near,
    nabla_order,
    prepare,
    select_nabla,
)
from tests.attention.naive import attend_one, boxes_of, mean, shares, some


def is_near(one: int, other: int, extents: tuple[int, int, int], window: tuple[int, ...]) -> bool:
    _, rows, columns = extents
    ends = [(n // (rows * columns), n // columns % rows, n % columns) for n in (one, other)]
    return all(abs(a - b) <= side // 2 for a, b, side in zip(*ends, window, strict=True))


def places(scores: list[float], threshold: float) -> list[int]:
    """Return the blocks whose share, with all lower ones, reaches what may be left out."""
    found = []
    held = 0.0
    by_share = shares(scores)
    for place in sorted(range(len(scores)), key=lambda p: (by_share[p], -p)):
        held += by_share[place]
        if held >= 1 - threshold:
            found.append(place)
    return found


def published(x: list[Tensor], grid: Grid, pattern: Nabla) -> tuple[Tensor, list[set[int]]]:
    """Return NABLA of one head in raster order, and the blocks that each block reads."""
    q, k, v = x
    boxes = boxes_of((grid.frames, grid.rows, grid.columns), (1, 8, 8))
    extents = (grid.frames, grid.rows // 8, grid.columns // 8)
    key_means = [mean(k, box) for box in boxes]
    out, lists = torch.zeros_like(q), []
    for index, box in enumerate(boxes):
        scores = [float(mean(q, box) @ key) / q.shape[1] ** 0.5 for key in key_means]
        read = set(places(scores, pattern.threshold))
        read |= {p for p in range(len(boxes)) if is_near(index, p, extents, pattern.window)}
        lists.append(read)
        tokens = [token for place in sorted(read) for token in boxes[place]]
        for token in box:
            out[token] = attend_one(q[token], k, v, tokens)
    return out, lists


def sharp(grid: Grid) -> list[Tensor]:
    """Return queries, keys and values whose blocks differ in their means."""
    x = [some(grid.tokens, 4, seed=seed) for seed in range(3)]
    order = nabla_order(grid)
    for y, seed in zip(x, (3, 4), strict=False):
        y[order] += 2 * some(grid.tokens // 64, 4, seed=seed).repeat_interleave(64, dim=0)
    return x


def run(x: list[Tensor], grid: Grid, pattern: Nabla, backend: str = "reference") -> Tensor:
    order = nabla_order(grid)
    q, k, v = (y[None, None, order] for y in x)
    near = nabla_near(pattern, grid)
    out = attend_nabla(q, k, v, near, pattern, executor(backend)).out
    return out[0, 0, inverse_order(order)]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("window", [(1, 1, 1), (3, 1, 3)])
def test_equals_the_published_formula(window: tuple[int, int, int], backend: str) -> None:
    grid = Grid(3, 8, 16)
    pattern = Nabla(0.7, window)
    x = sharp(grid)
    expected, lists = published(x, grid, pattern)
    assert {len(read) for read in lists} != {6}, "the case must leave blocks out"
    torch.testing.assert_close(run(x, grid, pattern, backend), expected)


@pytest.mark.parametrize("window", [(3, 3, 3), (1, 3, 2), (5, 1, 1)])
def test_the_window_is_the_published_one(window: tuple[int, int, int]) -> None:
    extents = (4, 2, 3)
    near = nabla_near(Nabla(0.9, window), Grid(4, 16, 24))
    expected = [[is_near(one, other, extents, window) for other in range(24)] for one in range(24)]
    assert near.tolist() == expected


def test_the_whole_share_is_dense() -> None:
    grid = Grid(2, 8, 16)
    x = sharp(grid)
    dense = torch.stack([attend_one(row, x[1], x[2], list(range(256))) for row in x[0]])
    torch.testing.assert_close(run(x, grid, Nabla(1.0, (1, 1, 1))), dense)


def test_the_own_block_is_read_even_if_it_is_the_least_likely() -> None:
    """Only the window keeps it."""
    q, k = torch.zeros(2, 1, 1, 256, 4).double()
    q[..., 0], k[:, :, 64:, 0] = 4.0, 4.0
    selection = select_nabla(q, k, torch.eye(4, dtype=torch.bool), Nabla(0.5, (1, 1, 1)))
    assert selection.mask_bhqk()[0, 0, 0, 0]


@pytest.mark.parametrize(("threshold", "kept"), [(0.74, 3), (0.76, 4), (0.49, 2), (0.01, 1)])
def test_of_equals_those_on_the_left_are_read(threshold: float, kept: int) -> None:
    same = torch.ones(1, 1, 256, 4).double()
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    read = select_nabla(same, same, nothing, Nabla(threshold)).mask_bhqk()
    assert read.long().tolist() == [[[[1] * kept + [0] * (4 - kept)] * 4]]


@pytest.mark.parametrize("grid", [Grid(2, 12, 16), Grid(2, 16, 30)], ids=str)
def test_a_size_that_blocks_do_not_divide_is_refused(grid: Grid) -> None:
    with pytest.raises(AttentionError, match="8x8 tokens") as caught:
        prepare(Nabla(), grid)
    assert caught.value.field == "attention"


def test_a_sequence_of_another_grid_is_refused() -> None:
    x = torch.zeros(1, 1, 128, 4)
    near = nabla_near(Nabla(), Grid(1, 8, 8))
    with pytest.raises(AttentionError, match="1 blocks"):
        attend_nabla(x, x, x, near, Nabla(), executor("reference"))
