"""Token order: a permutation without jumps whose blocks are compact."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attention.grid import Grid
from attention.order import OrderKind, hilbert_cells, inverse_order, token_order

KINDS: list[OrderKind] = ["raster", "hilbert"]
GRID_480P, GRID_720P = Grid(21, 30, 52), Grid(21, 45, 80)


def places(grid: Grid, order_n: Tensor) -> Tensor:
    """Return frame, row and column of each place: float32 [n, 3]."""
    frame, rest = order_n // (grid.rows * grid.columns), order_n % (grid.rows * grid.columns)
    return torch.stack([frame, rest // grid.columns, rest % grid.columns], dim=1).float()


def radius(grid: Grid, kind: OrderKind, block: int, slab_frames: int = 4) -> float:
    """Return the mean over blocks of the mean squared distance from the block's centre."""
    parts = places(grid, token_order(grid, kind, slab_frames)).split(block)
    radii = [(part - part.mean(dim=0)).square().sum(dim=1).mean() for part in parts]
    return float(torch.stack(radii).mean())


@settings(max_examples=50)
@given(
    frames=st.integers(1, 9), rows=st.integers(1, 12), columns=st.integers(1, 12),
    slab=st.integers(1, 6), head=st.integers(0, 2), kind=st.sampled_from(KINDS),
)  # fmt: skip
def test_every_order_is_a_permutation_that_its_inverse_undoes(
    frames: int, rows: int, columns: int, slab: int, head: int, kind: OrderKind
) -> None:
    grid = Grid(frames, rows, columns)
    order = token_order(grid, kind, slab, min(head, frames))
    assert torch.equal(order.sort().values, torch.arange(grid.tokens))
    raster = torch.arange(grid.tokens) * 3
    assert torch.equal(raster[order][inverse_order(order)], raster)
    assert torch.equal(raster[inverse_order(order)][order], raster)


@settings(max_examples=40)
@given(rows=st.integers(1, 40), columns=st.integers(1, 60))
def test_the_curve_goes_from_neighbour_to_neighbour(rows: int, columns: int) -> None:
    cells = torch.tensor(hilbert_cells(rows, columns))
    path = torch.stack([cells // columns, cells % columns], dim=1)
    steps = path.diff(dim=0).abs()
    assert not len(steps) or int(steps.max()) == 1
    assert int((steps.sum(dim=1) == 2).sum()) <= 1  # at most one diagonal step


@pytest.mark.parametrize("grid", [GRID_480P, GRID_720P, Grid(9, 12, 12)])
def test_slabs_join_without_a_jump(grid: Grid) -> None:
    steps = places(grid, token_order(grid)).diff(dim=0).abs()
    assert int(steps[:, 1:].max()) == 1  # between cells of a picture
    assert int(steps[:, 0].max()) <= 2 * 6  # within two slabs


@pytest.mark.parametrize(
    ("grid", "block", "most"),
    [(GRID_480P, 64, 4.8), (GRID_480P, 128, 8.5), (GRID_720P, 64, 4.8), (GRID_720P, 128, 8.4)],
)
def test_blocks_are_compact(grid: Grid, block: int, most: float) -> None:
    assert radius(grid, "hilbert", block) < most  # an ideal cube of 64 tokens has 3.75
    assert radius(grid, "raster", block) > 200


def test_raster_leaves_everything_in_place() -> None:
    assert torch.equal(token_order(GRID_480P, "raster"), torch.arange(GRID_480P.tokens))


def test_head_frames_come_first() -> None:
    grid = Grid(5, 6, 7)
    order = token_order(grid, head_frames=2)
    assert int(order[: 2 * 42].max()) < 2 * 42


def test_an_order_and_its_inverse_give_back_dense_attention() -> None:
    grid = Grid(3, 5, 6)
    order = token_order(grid)
    x = torch.randn(1, 2, grid.tokens, 8)
    attend = torch.nn.functional.scaled_dot_product_attention
    moved = attend(*(x[:, :, order],) * 3)[:, :, inverse_order(order)]
    assert torch.allclose(moved, attend(x, x, x), atol=1e-6)
