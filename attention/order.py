"""Token order: in which sequence the tokens of a grid lie, so that neighbours share a block.

A block of attention is a run of consecutive tokens. In raster order such a run is a thin line
across the picture; along a space-filling curve it is a compact body, and its mean says more about
its members.
"""

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.grid import Grid

OrderKind = Literal["raster", "hilbert"]

SLAB_FRAMES = 4


def token_order(
    grid: Grid,
    kind: OrderKind = "hilbert",
    slab_frames: int = SLAB_FRAMES,
    head_frames: int = 0,
) -> Tensor:
    """Return which raster token stands at each place: int64 [tokens], a permutation.

    hilbert      the frames are cut into slabs of about `slab_frames`, all within one of each other;
                 in each slab a generalised Hilbert curve runs over rows x columns with the slab's
                 frames of a cell in a row; every other slab runs backwards, so that slabs join.
                 No padding, whatever the grid
    raster       frames, rows, columns as the model has them
    slab_frames  >= 1
    head_frames  the first frames are a slab of their own, so that few blocks hold them
    """
    if kind == "raster":
        return torch.arange(grid.tokens)
    cells_c = torch.tensor(hilbert_cells(grid.rows, grid.columns))
    per_frame = grid.rows * grid.columns
    head, tail = torch.arange(grid.frames).tensor_split([head_frames])
    num_slabs = max(1, round(len(tail) / slab_frames))
    slabs = [slab for slab in (head, *tail.tensor_split(num_slabs)) if len(slab)]
    parts = []
    for index, frames_s in enumerate(slabs):
        path_c = cells_c if index % 2 == 0 else cells_c.flip(0)
        parts.append((path_c[:, None] + frames_s[None, :] * per_frame).flatten())
    return torch.cat(parts)


def inverse_order(order_n: Tensor) -> Tensor:
    """Return the permutation that undoes one: `x[order][inverse] == x`.

    Raises  AttentionError if it is none
    """
    order, inverse_n = order_n.sort()
    if not torch.equal(order, torch.arange(len(order_n), device=order_n.device)):
        raise AttentionError(
            f"order is no permutation of 0..{len(order_n) - 1}, so nothing undoes it; make one "
            "with token_order or layout_order.",
            field="order",
        )
    return inverse_n


@lru_cache(maxsize=64)
def hilbert_cells(rows: int, columns: int) -> tuple[int, ...]:
    """Return the cells of a picture, as row * columns + column, along a Hilbert-like curve.

    Works for any rectangle: the longer side is halved or the square folded until strips of width
    one remain; each step goes to a neighbour (one step may be diagonal where sides are odd).
    """
    across, down = (0, 1), (1, 0)
    if columns >= rows:
        path = _walk((0, 0), _times(across, columns), _times(down, rows))
    else:
        path = _walk((0, 0), _times(down, rows), _times(across, columns))
    return tuple(row * columns + column for row, column in path)


_Step = tuple[int, int]


def _times(step: _Step, count: int) -> _Step:
    return step[0] * count, step[1] * count


def _plus(*steps: _Step) -> _Step:
    return sum(step[0] for step in steps), sum(step[1] for step in steps)


def _unit(side: _Step) -> _Step:
    return (side[0] > 0) - (side[0] < 0), (side[1] > 0) - (side[1] < 0)


def _walk(start: _Step, side: _Step, other: _Step) -> list[_Step]:
    """Walk a rectangle from its corner `start`, ending at the far end of `side`.

    side, other  the rectangle's edges as vectors along the axes; the curve runs along `side`
    """
    length, width = abs(sum(side)), abs(sum(other))
    ahead, aside = _unit(side), _unit(other)
    if width == 1:
        return [_plus(start, _times(ahead, i)) for i in range(length)]
    if length == 1:
        return [_plus(start, _times(aside, i)) for i in range(width)]
    half, half_other = length // 2, width // 2
    if 2 * length > 3 * width:
        if half % 2 and length > 2:
            half += 1  # even, so that the first half ends on the near edge
        first = _times(ahead, half)
        rest = _times(ahead, length - half)
        return _walk(start, first, other) + _walk(_plus(start, first), rest, other)
    if half_other % 2 and width > 2:
        half_other += 1
    near = _times(aside, half_other)
    far = _times(aside, width - half_other)
    first = _times(ahead, half)
    last = _plus(start, _times(ahead, length - 1), _times(aside, half_other - 1))
    return (
        _walk(start, near, first)
        + _walk(_plus(start, near), side, far)
        + _walk(last, _times(aside, -half_other), _times(ahead, -(length - half)))
    )
