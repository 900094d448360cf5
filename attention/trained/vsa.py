"""Video Sparse Attention: cubes of 4x4x4 tokens, a gated coarse branch and a sparse fine one.

After FastVideo, `attention/backends/video_sparse_attn.py` (cubes, padding, how many are kept),
`fastvideo_kernel/ops.py::video_sparse_attn` (both branches) and the selection of
`triton_kernels/fused_compress_topk.py`; the gate as in `models/dits/wanvideo.py`.
"""

import math

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.executors import Executor
from attention.grid import Grid
from attention.selection import Selection
from attention.trained.patterns import Vsa
from attention.trained.tiles import Attended, TileLayout, highest, tile_layout, tile_means

# b batch  h heads  n tokens  t tiles  d head dim

VSA_TILE = (4, 4, 4)


def vsa_layout(grid: Grid, device: torch.device | str = "cpu") -> TileLayout:
    """Return a grid's cubes; where they do not fit, the last ones are filled up with zeros."""
    return tile_layout(grid, VSA_TILE, device)


def select_vsa(q_bhnd: Tensor, k_bhnd: Tensor, layout: TileLayout, pattern: Vsa) -> Selection:
    """Return the cubes that each cube of queries reads, over padded tokens.

    q_bhnd, k_bhnd  in the layout's order, after the rotary embedding, without padding
    """
    queries, keys = (tile_means(layout.pad(x), layout) for x in (q_bhnd, k_bhnd))
    return _selection(_scores(queries, keys), layout, pattern)


def attend_vsa(
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    v_bhnd: Tensor,
    gate_bhnd: Tensor,
    layout: TileLayout,
    pattern: Vsa,
    execute: Executor,
) -> Attended:
    """Return coarse attention times the gate, plus exact attention over the selected cubes.

    The coarse branch is attention among the cubes' means, over all of them whatever their size;
    every token of a cube gets its cube's. Both branches and the selection share one matrix of
    scores; means and scores are rounded to q's dtype.

    q, k, v    in the layout's order, after the rotary embedding, without padding
    gate_bhnd  the layer's hidden states, as normalised for attention, through `to_gate_compress`:
               one gate a channel, no rotary embedding, any sign
    Raises     AttentionError if the sequence is not the layout's
    """
    tokens = len(layout.order_n)
    if {x.shape[2] for x in (q_bhnd, k_bhnd, v_bhnd, gate_bhnd)} != {tokens}:
        raise AttentionError(
            f"{q_bhnd.shape[2]} queries, {k_bhnd.shape[2]} keys and {gate_bhnd.shape[2]} gates do "
            f"not fit the layout, which has {tokens} tokens."
        )
    q, k, v = (layout.pad(x) for x in (q_bhnd, k_bhnd, v_bhnd))
    queries, keys, values = (tile_means(x, layout) for x in (q, k, v))
    scores = _scores(queries, keys)
    coarse_bhtd = scores.softmax(dim=-1) @ values
    selection = _selection(scores, layout, pattern)
    fine = layout.unpad(execute(q, k, v, selection))
    coarse = coarse_bhtd.index_select(2, layout.places_n // layout.block)
    return Attended(coarse * gate_bhnd + fine, selection)


def _scores(queries_bhtd: Tensor, keys_bhtd: Tensor) -> Tensor:
    return queries_bhtd @ keys_bhtd.mT / math.sqrt(queries_bhtd.shape[-1])


def _selection(scores_bhtt: Tensor, layout: TileLayout, pattern: Vsa) -> Selection:
    num_tiles = len(layout.sizes_t)
    blocks, counts = highest(scores_bhtt, pattern.kept(num_tiles))
    length = num_tiles * layout.block
    sizes = layout.sizes_t.to(torch.int32)
    return Selection(blocks, counts, layout.block, layout.block, length, length, sizes)
