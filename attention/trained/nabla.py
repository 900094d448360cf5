"""NABLA of Kandinsky 5: blocks of 8x8 tokens of one frame, chosen by share or by nearness.

After diffusers, `transformer_kandinsky.py` (`fractal_flatten`, `nablaT_v2`) and
`pipeline_kandinsky.py` (`fast_sta_nabla`). It has no extra weights.
"""

import math

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.executors import Executor
from attention.grid import Grid
from attention.proxies import block_means
from attention.selection import Selection, select_highest
from attention.trained.patterns import Nabla
from attention.trained.tiles import Attended, tile_layout, wide

# b batch  h heads  n tokens  q query blocks  k key blocks  d head dim

SIDE = 8
NABLA_BLOCK = SIDE * SIDE


def nabla_order(grid: Grid) -> Tensor:
    """Return which raster token stands at each place, block after block: int64 [n].

    Raises  AttentionError if rows or columns are no multiples of eight
    """
    if grid.rows % SIDE or grid.columns % SIDE:
        raise AttentionError(
            f"attention=nabla cuts frames into blocks of {SIDE}x{SIDE} tokens and "
            f"{grid.rows}x{grid.columns} is no multiple; choose a size that is, or "
            "attention=dense.",
            field="attention",
        )
    return tile_layout(grid, (1, SIDE, SIDE)).order_n


def nabla_near(pattern: Nabla, grid: Grid, device: torch.device | str = "cpu") -> Tensor:
    """Return which blocks lie in each other's window: bool [q, k]; even sides count as one more."""
    near = torch.ones(1, 1, dtype=torch.bool, device=device)
    extents = (grid.frames, grid.rows // SIDE, grid.columns // SIDE)
    for extent, side in zip(extents, pattern.window, strict=True):
        place = torch.arange(extent, device=device)
        close = (place[:, None] - place).abs() <= side // 2
        near = (near[:, None, :, None] & close[None, :, None, :]).flatten(2).flatten(0, 1)
    return near


def select_nabla(q_bhnd: Tensor, k_bhnd: Tensor, near_qk: Tensor, pattern: Nabla) -> Selection:
    """Return the blocks near each block, and those that are not among its least likely.

    The shares are a softmax over products of the blocks' means, rounded to q's dtype. The least
    likely are left out as long as they hold less than 1 - threshold together; they are summed in
    float32, and of equals those on the left are the likelier.

    q_bhnd, k_bhnd  in the order of `nabla_order`, after the rotary embedding
    near_qk         from `nabla_near`
    """
    queries, keys = (block_means(x, NABLA_BLOCK).to(x.dtype) for x in (q_bhnd, k_bhnd))
    shares = (queries @ keys.mT / math.sqrt(q_bhnd.shape[-1])).softmax(dim=-1)
    num_blocks = shares.shape[-1]
    rising, places = shares.flip(-1).to(wide(q_bhnd.dtype)).sort(dim=-1, stable=True)
    likely = rising.cumsum(dim=-1) >= 1 - pattern.threshold
    read = torch.zeros_like(likely).scatter_(-1, num_blocks - 1 - places, likely) | near_qk
    blocks, counts = select_highest(read.float(), read.sum(dim=-1), num_blocks)
    tokens = q_bhnd.shape[2]
    return Selection(blocks, counts, NABLA_BLOCK, NABLA_BLOCK, tokens, tokens)


def attend_nabla(
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    v_bhnd: Tensor,
    near_qk: Tensor,
    pattern: Nabla,
    execute: Executor,
) -> Attended:
    """Return exact attention over the blocks of `select_nabla`."""
    tokens = len(near_qk) * NABLA_BLOCK
    if q_bhnd.shape[2] != tokens or k_bhnd.shape[2] != tokens:
        raise AttentionError(
            f"{q_bhnd.shape[2]} queries and {k_bhnd.shape[2]} keys do not fit the window's "
            f"{len(near_qk)} blocks of {NABLA_BLOCK} tokens."
        )
    selection = select_nabla(q_bhnd, k_bhnd, near_qk, pattern)
    return Attended(execute(q_bhnd, k_bhnd, v_bhnd, selection), selection)
