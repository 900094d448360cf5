"""Router: which key blocks a query block should read, judged from means of small groups of tokens.

Scores are float32, ties go to the lower index, and nothing is read back from the device.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.layout import Layout, block_centres, block_sizes, priorities, text_rows
from attention.patterns import TopK, Window, kept_blocks
from attention.proxies import block_means
from attention.selection import Selection, select_highest

# b batch  h heads  n tokens  q query blocks  k key blocks  i, j parts of blocks  d head dim

Scorer = Callable[[Tensor, Tensor, Layout, TopK, float | None], Tensor]

_CHUNK_BYTES = {"cpu": 2 * 2**20, "cuda": 64 * 2**20}  # of part scores; a CPU's caches are small


class RowCounts(NamedTuple):
    """How many blocks query blocks read.

    wanted_bhq  of each, int64, broadcastable to the rows
    most        that any reads, known without asking the device
    """

    wanted_bhq: Tensor
    most: int


def select(
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    layout: Layout,
    pattern: TopK | Window,
    layer: int = 0,
    first_kept: Tensor | None = None,
    scale: float | None = None,
    score: Scorer | None = None,
    counts: RowCounts | None = None,
) -> Selection:
    """Return the key blocks that each query block reads.

    q_bhnd, k_bhnd  in the layout's order, any dtype and strides
    layer           the row of the budgets that counts
    scale           of the products; 1 / sqrt(d) when omitted
    score           from `scorer`; `block_scores` when omitted
    first_kept, counts   for callers that ask often: `priorities` on the device, and `row_counts`
    Raises          AttentionError if the sequence is not the layout's
    """
    if not isinstance(pattern, TopK | Window):
        raise AttentionError(
            f"{type(pattern).__name__} selects no blocks here; use TopK or Window, or what is in "
            "attention.trained."
        )
    if not q_bhnd.numel():
        raise AttentionError(f"Queries of the shape {tuple(q_bhnd.shape)} are empty.")
    if q_bhnd.shape[2] != layout.tokens or k_bhnd.shape[2] != layout.tokens:
        raise AttentionError(
            f"{q_bhnd.shape[2]} queries and {k_bhnd.shape[2]} keys do not fit the layout of "
            f"{layout.grid}, which has {layout.tokens} tokens."
        )
    device = q_bhnd.device
    if isinstance(pattern, Window):
        return window(layout, pattern, device)
    if first_kept is None:
        first_kept = priorities(layout, pattern.neighbours).to(device)
    scores = (score or block_scores)(q_bhnd, k_bhnd, layout, pattern, scale)
    if counts is None:
        counts = row_counts(layout, pattern, q_bhnd.shape[1], device, layer)
    if pattern.top_p is not None:
        counts = _by_mass(scores, counts, pattern.top_p)
    return _listed(keep_first(scores, first_kept), *counts, layout)


def row_counts(
    layout: Layout, pattern: TopK, heads: int, device: torch.device, layer: int = 0
) -> RowCounts:
    """Return how many blocks the rows of a layer read, before top-p.

    Raises  AttentionError when the budgets are another model's
    """
    densities = pattern.layer_densities(layer, heads)
    kept = [kept_blocks(density, layout.key_blocks) for density in densities]
    return RowCounts(torch.tensor(kept, device=device)[None, :, None], max(kept))


def keep_first(scores_bhqk: Tensor, first_kept_qk: Tensor) -> Tensor:
    """Return scores in which blocks of higher `priorities` stand above all others."""
    return torch.where(first_kept_qk > 0, 1e30 * first_kept_qk, scores_bhqk)


def scorer(
    backend: str, layout: Layout, pattern: TopK, head_dim: int, device: torch.device
) -> Scorer:
    """Return who computes `block_scores` beside a backend: Triton's own kernel where it is made for
    these blocks, else torch.
    """
    if backend == "triton":
        from attention.triton_router import block_scores_triton, can_score

        if can_score(layout, pattern, head_dim, device):
            return block_scores_triton
    return block_scores


def window(layout: Layout, pattern: Window, device: torch.device | str = "cpu") -> Selection:
    """Return the key blocks nearest to each query block, one list for all heads."""
    scale_3 = torch.tensor([pattern.frame_cells, 1.0, 1.0])
    queries_q3 = block_centres(layout, layout.query_block) * scale_3
    keys_k3 = block_centres(layout, layout.key_block) * scale_3
    scores = torch.full((layout.query_blocks, layout.key_blocks), -torch.inf)
    scores[: len(queries_q3), : len(keys_k3)] = -torch.cdist(queries_q3, keys_k3)
    first_kept = priorities(layout, neighbours=0)
    scores = keep_first(scores, first_kept)
    most = kept_blocks(pattern.density, layout.key_blocks)
    return _listed(scores[None, None].to(device), torch.full((1, 1, 1), most), most, layout)


def block_scores(
    q_bhnd: Tensor, k_bhnd: Tensor, layout: Layout, pattern: TopK, scale: float | None = None
) -> Tensor:
    """Return how much each query block wants each key block: float32 [b, h, q, k]."""
    scale = q_bhnd.shape[-1] ** -0.5 if scale is None else scale
    if pattern.score == "mean":
        queries = block_means(q_bhnd, layout.query_block).float() * scale
        keys = block_means(k_bhnd, layout.key_block).float()
        return queries @ keys.mT
    query_part = math.gcd(pattern.sub_block, layout.query_block)
    key_part = math.gcd(pattern.sub_block, layout.key_block)
    query_parts, key_parts = layout.query_block // query_part, layout.key_block // key_part
    queries_xid = _by_part(block_means(q_bhnd, query_part).float() * scale, query_parts)
    keys_xjd = _by_part(block_means(k_bhnd, key_part).float(), key_parts)
    log_sizes_j = _part_sizes(k_bhnd, key_part, key_parts).float().log()
    real_i = _part_sizes(q_bhnd, query_part, query_parts) > 0
    # A few heads' worth of part scores at a time; one matrix of them all would be large.
    per_head = 4 * queries_xid.shape[1] * keys_xjd.shape[1]
    step = max(1, _CHUNK_BYTES[q_bhnd.device.type] // per_head)
    found = []
    for start in range(0, len(queries_xid), step):
        queries, keys = queries_xid[start : start + step], keys_xjd[start : start + step]
        scores_xij = torch.baddbmm(log_sizes_j, queries, keys.mT)
        if pattern.score == "mass":
            scores_xij -= scores_xij.logsumexp(dim=-1, keepdim=True)
        scores_xik = _log_sum(torch.unflatten(scores_xij, 2, (key_parts, -1)), 2)
        scores_xik.masked_fill_(~real_i[:, None], -torch.inf)
        found.append(_log_sum(torch.unflatten(scores_xik, 1, (query_parts, -1)), 1))
    return torch.unflatten(torch.cat(found), 0, q_bhnd.shape[:2])


def _part_sizes(x_bhnd: Tensor, part: int, parts: int) -> Tensor:
    """Return the tokens of each part, int64 [i] in the order of `_by_part`, 0 for the fill."""
    sizes_i = block_sizes(x_bhnd.shape[2], part, x_bhnd.device)
    return _by_part(sizes_i[None, None, :, None], parts).flatten()


def _by_part(x_bhid: Tensor, parts: int) -> Tensor:
    """Put the first parts of all blocks first, then the second ones, ..: [b * h, i, d].

    Sums over the parts of a block then run over whole rows. The last block is filled up with zeros.
    """
    if parts == 1:
        return x_bhid.flatten(0, 1)
    missing = -x_bhid.shape[2] % parts
    whole = torch.nn.functional.pad(x_bhid, (0, 0, 0, missing)).flatten(0, 1)
    return torch.unflatten(whole, 1, (-1, parts)).transpose(1, 2).flatten(1, 2)


def _log_sum(x: Tensor, dim: int) -> Tensor:
    """Return the log of the sum of exponentials over a dimension that holds a finite number."""
    if x.shape[dim] == 1:
        return x.squeeze(dim)
    highest = x.amax(dim, keepdim=True)
    return (x - highest).exp_().sum(dim).log_().add_(highest.squeeze(dim))


def _by_mass(scores: Tensor, counts: RowCounts, top_p: float) -> RowCounts:
    """Return as many blocks for each row as hold a share of the mass, within half and 1.5 times."""
    blocks, wanted = scores.shape[-1], counts.wanted_bhq
    least, most = (wanted + 1) // 2, (wanted * 3 // 2).clamp(max=blocks)
    held = scores.softmax(dim=-1).sort(dim=-1, descending=True).values.cumsum(dim=-1)
    needed = 1 + (held < top_p).sum(dim=-1)
    return RowCounts(needed.clamp(min=least, max=most), min(blocks, counts.most * 3 // 2))


def _listed(scores: Tensor, wanted: Tensor, most: int, layout: Layout) -> Selection:
    """Make the lists; rows that hold text read everything."""
    if layout.text_tokens:
        rows = text_rows(layout).to(scores.device)
        wanted = torch.where(rows, layout.key_blocks, wanted.to(scores.device))
        most = layout.key_blocks
    blocks, counts = select_highest(scores, wanted.to(scores.device), most)
    return Selection(
        blocks, counts, layout.query_block, layout.key_block, layout.tokens, layout.tokens
    )
