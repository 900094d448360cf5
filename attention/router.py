"""Router: which key blocks a query block should read, judged from means of small groups of tokens.

Scores are float32, ties go to the lower index, and nothing is read back from the device.
"""

import math

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.layout import Layout, block_centres, block_sizes, priorities, text_rows
from attention.patterns import TopK, Window, kept_blocks
from attention.proxies import block_means
from attention.selection import Selection, select_highest

# b batch  h heads  n tokens  q query blocks  k key blocks  i, j parts of blocks  d head dim

_CHUNK_BYTES = 64 * 2**20


def select(
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    layout: Layout,
    pattern: TopK | Window,
    layer: int = 0,
    first_kept: Tensor | None = None,
    scale: float | None = None,
) -> Selection:
    """Return the key blocks that each query block reads.

    q_bhnd, k_bhnd  in the layout's order, any dtype and strides
    layer           whose budgets count
    first_kept      `priorities` on the device, for callers that ask often
    scale           of the products; 1 / sqrt(d) when omitted
    Raises          AttentionError if the sequence is not the layout's
    """
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
    scores = block_scores(q_bhnd, k_bhnd, layout, pattern, scale)
    wanted, most = _counts(scores, layout, pattern, layer)
    scores = torch.where(first_kept > 0, 1e30 * first_kept, scores)
    return _listed(scores, wanted, most, layout)


def window(layout: Layout, pattern: Window, device: torch.device | str = "cpu") -> Selection:
    """Return the key blocks nearest to each query block, one list for all heads."""
    scale_3 = torch.tensor([pattern.frame_cells, 1.0, 1.0])
    queries_q3 = block_centres(layout, layout.query_block) * scale_3
    keys_k3 = block_centres(layout, layout.key_block) * scale_3
    scores = torch.full((layout.query_blocks, layout.key_blocks), -torch.inf)
    scores[: len(queries_q3), : len(keys_k3)] = -torch.cdist(queries_q3, keys_k3)
    first_kept = priorities(layout, neighbours=0)
    scores = torch.where(first_kept > 0, 1e30 * first_kept, scores)
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
    queries_bhid = block_means(q_bhnd, query_part).float() * scale
    keys_bhjd = block_means(k_bhnd, key_part).float()
    log_sizes_j = block_sizes(k_bhnd.shape[2], key_part).to(q_bhnd.device).float().log()
    parts = (layout.query_block // query_part, layout.key_block // key_part)
    # A few heads' worth of part scores at a time; one matrix of them all would be large.
    heads_b = queries_bhid.flatten(0, 1), keys_bhjd.flatten(0, 1)
    per_head = 4 * heads_b[0].shape[1] * heads_b[1].shape[1]
    step = max(1, _CHUNK_BYTES // per_head)
    found = [
        _joined(queries @ keys.mT + log_sizes_j, parts, mass=pattern.score == "mass")
        for queries, keys in zip(heads_b[0].split(step), heads_b[1].split(step), strict=True)
    ]
    return torch.unflatten(torch.cat(found), 0, q_bhnd.shape[:2])


def _joined(scores_xij: Tensor, parts: tuple[int, int], *, mass: bool) -> Tensor:
    """Join the scores of parts into scores of blocks [x, q, k]: log of the sum of exponentials."""
    if mass:
        scores_xij = scores_xij - scores_xij.logsumexp(dim=-1, keepdim=True)
    over_keys = _log_sum(scores_xij, parts[1])
    return _log_sum(over_keys.mT, parts[0]).mT


def _log_sum(scores_xij: Tensor, size: int) -> Tensor:
    """Log of the sum of exponentials over groups along the last axis; the last may be short."""
    if size == 1:
        return scores_xij
    missing = -scores_xij.shape[-1] % size
    if missing:
        scores_xij = torch.nn.functional.pad(scores_xij, (0, missing), value=-torch.inf)
    return torch.unflatten(scores_xij, -1, (-1, size)).logsumexp(dim=-1)


def _counts(scores: Tensor, layout: Layout, pattern: TopK, layer: int) -> tuple[Tensor, int]:
    """Return how many blocks each row reads, and the most that any may read."""
    blocks, heads = layout.key_blocks, scores.shape[1]
    densities = pattern.layer_densities(layer, heads)
    counts = [kept_blocks(density, blocks) for density in densities]
    wanted = torch.tensor(counts, device=scores.device)[None, :, None]
    if pattern.top_p is None:
        return wanted, max(counts)
    least, most = (wanted + 1) // 2, (wanted * 3 // 2).clamp(max=blocks)
    held = scores.softmax(dim=-1).sort(dim=-1, descending=True).values.cumsum(dim=-1)
    needed = 1 + (held < pattern.top_p).sum(dim=-1)
    return needed.clamp(min=least, max=most), min(blocks, max(counts) * 3 // 2)


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
