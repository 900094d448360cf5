"""Block sparse attention of LongCat-Video: tiles of a grid that they divide, no extra weights.

After meituan-longcat/LongCat-Video, `block_sparse_attention/bsa_interface.py` (order, scores,
counts), `flash_attn_bsa_varlen_mask.py` (a row that reads nothing is zero) and
`modules/attention.py` (a single frame is dense).
"""

from dataclasses import replace

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.executors import Executor
from attention.grid import Grid
from attention.proxies import block_means
from attention.selection import Selection, select_all, select_highest
from attention.trained.patterns import Bsa
from attention.trained.tiles import Attended, highest, tile_layout, wide

IMAGE_BLOCK = 64  # of a single frame, where every block is read

# b batch  h heads  n query tokens  m key tokens  q query tiles  k key tiles  d head dim


def bsa_order(pattern: Bsa, grid: Grid) -> Tensor:
    """Return which raster token stands at each place, tile after tile: int64 [n].

    One frame alone keeps its raster order. Queries and keys may be of different grids, e.g. when
    the keys of given frames are kept; each has its own order.
    Raises  AttentionError if the tiles do not divide the grid
    """
    if grid.frames == 1:
        return torch.arange(grid.tokens)
    extents = (grid.frames, grid.rows, grid.columns)
    if any(extent % side for extent, side in zip(extents, pattern.tile, strict=True)):
        tile = "x".join(str(side) for side in pattern.tile)
        raise AttentionError(
            f"attention=bsa cuts the clip into tiles of {tile} tokens and {grid} is no multiple; "
            "choose a size and length that are, or attention=dense.",
            field="attention",
        )
    return tile_layout(grid, pattern.tile).order_n


def select_bsa(q_bhnd: Tensor, k_bhmd: Tensor, pattern: Bsa) -> Selection:
    """Return the key tiles that each query tile reads; at least one, see `attend_bsa`.

    Scores are products of the tiles' means, rounded to q's dtype. By count they are ranked as they
    are; with cdf_threshold their softmax is taken, scaled by 1 / sqrt(d), in float32.

    q_bhnd, k_bhmd  in the order of `bsa_order`, after the rotary embedding
    Raises          AttentionError if the sparsity keeps no tile
    """
    return _select(q_bhnd, k_bhmd, pattern)[0]


def attend_bsa(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    grid: Grid,
    pattern: Bsa,
    execute: Executor,
) -> Attended:
    """Return exact attention over the selected tiles; of a single frame, over everything.

    A row whose best tile alone holds more than cdf_threshold reads nothing and is zero, unless
    the sparsity keeps some: so it was trained.

    grid  the clip's; whether it is a single frame
    """
    if grid.frames == 1:
        whole = select_all(q_bhnd.shape[2], k_bhmd.shape[2], IMAGE_BLOCK, IMAGE_BLOCK)
        device = q_bhnd.device
        selection = replace(
            whole, blocks_bhqs=whole.blocks_bhqs.to(device), counts_bhq=whole.counts_bhq.to(device)
        )
        return Attended(execute(q_bhnd, k_bhmd, v_bhmd, selection), selection)
    selection, empty_bhq = _select(q_bhnd, k_bhmd, pattern)
    out = execute(q_bhnd, k_bhmd, v_bhmd, selection)
    if empty_bhq is not None:
        out = out.masked_fill(empty_bhq.repeat_interleave(pattern.block, dim=2)[..., None], 0)
    return Attended(out, selection)


def _select(q_bhnd: Tensor, k_bhmd: Tensor, pattern: Bsa) -> tuple[Selection, Tensor | None]:
    """Return the lists, and which rows read nothing although their list has to name a tile."""
    block, dtype = pattern.block, q_bhnd.dtype
    if q_bhnd.shape[2] % block or k_bhmd.shape[2] % block:
        raise AttentionError(
            f"{q_bhnd.shape[2]} queries and {k_bhmd.shape[2]} keys are no whole tiles of {block} "
            "tokens.",
            field="attention",
        )
    scores = block_means(q_bhnd, block).to(dtype) @ block_means(k_bhmd, block).to(dtype).mT
    num_tiles = scores.shape[-1]
    kept = pattern.kept(num_tiles)
    empty = None
    if pattern.cdf_threshold is None:
        blocks, counts = highest(scores, kept)
    else:
        scaled = scores.to(wide(dtype)) * q_bhnd.shape[-1] ** -0.5
        shares = scaled.softmax(dim=-1)
        held = shares.sort(dim=-1, descending=True).values.cumsum(dim=-1)
        wanted = (held <= pattern.cdf_threshold).sum(dim=-1).clamp(min=kept)
        empty = wanted == 0
        blocks, counts = select_highest(shares, wanted.clamp(min=1), num_tiles)
    return (
        Selection(blocks, counts, block, block, q_bhnd.shape[2], k_bhmd.shape[2]),
        empty,
    )
