"""The router's scores on NVIDIA GPUs: launch of the Triton kernels, twin of `block_scores`.

Same scores within float32 rounding, with the parts' scores never written to memory.
"""

import math

import torch
import triton
from torch import Tensor

from attention import triton_router_kernels as kernels
from attention.layout import Layout
from attention.patterns import TopK
from attention.triton_blocks import on_device

# b batch  h heads  n tokens  q query blocks  k key blocks  i, j parts of blocks  d head dim

_STAGES = 2
_LARGEST_JOIN = 64  # parts of a block
_LARGEST_POOL = 64  # tokens read at a time


def can_score(
    layout: Layout, pattern: TopK, head_dim: int, device: torch.device | None = None
) -> bool:
    """Return whether the kernels are made for a layout's blocks; block_scores does all others."""
    if pattern.score == "mean" or head_dim not in (16, 32, 64, 128):
        return False
    if device is not None and torch.cuda.get_device_capability(device) < (8, 0):
        return False
    joins = [block // math.gcd(pattern.sub_block, block)
             for block in (layout.query_block, layout.key_block)]  # fmt: skip
    return all(join <= _LARGEST_JOIN and join & (join - 1) == 0 for join in joins)


def block_scores_triton(
    q_bhnd: Tensor, k_bhnd: Tensor, layout: Layout, pattern: TopK, scale: float | None = None
) -> Tensor:
    """Return how much each query block wants each key block: float32 [b, h, q, k].

    For layouts that `can_score` accepts.
    """
    with on_device(q_bhnd):
        return _block_scores(q_bhnd, k_bhnd, layout, pattern, scale)


def _block_scores(
    q_bhnd: Tensor, k_bhnd: Tensor, layout: Layout, pattern: TopK, scale: float | None
) -> Tensor:
    scale = q_bhnd.shape[-1] ** -0.5 if scale is None else scale
    query_part = math.gcd(pattern.sub_block, layout.query_block)
    key_part = math.gcd(pattern.sub_block, layout.key_block)
    batch, heads, _, dim = q_bhnd.shape
    queries_bhid, keys_bhjd = part_means(q_bhnd, k_bhnd, query_part, key_part, scale)
    q_parts, k_parts = queries_bhid.shape[2], keys_bhjd.shape[2]
    scores = torch.empty(
        (batch, heads, layout.query_blocks, layout.key_blocks),
        dtype=torch.float32, device=q_bhnd.device,
    )  # fmt: skip
    tile, warps = _shape(q_bhnd.device)
    # Three products of tf32 halves are as exact as one of float32, and run on the tensor cores.
    precision = "tf32x3" if q_bhnd.is_cuda else "ieee"
    masses = scores
    if pattern.score == "mass":
        masses = torch.empty((batch, heads, q_parts), dtype=torch.float32, device=q_bhnd.device)
        kernels.row_mass[(triton.cdiv(q_parts, tile), batch * heads)](
            queries_bhid, keys_bhjd, masses, q_parts, k_parts, k_bhnd.shape[2],
            HEAD_DIM=dim, K_PART=key_part, ROWS=tile, KEYS=tile, PRECISION=precision,
            num_warps=warps, num_stages=_STAGES,
        )  # fmt: skip
    grid = (triton.cdiv(k_parts, tile), triton.cdiv(q_parts, tile), batch * heads)
    kernels.join_scores[grid](
        queries_bhid, keys_bhjd, masses, scores, q_parts, k_parts, k_bhnd.shape[2],
        layout.query_blocks, layout.key_blocks,
        HEAD_DIM=dim, K_PART=key_part, ROWS=tile, KEYS=tile,
        Q_JOIN=layout.query_block // query_part, K_JOIN=layout.key_block // key_part,
        MASS=pattern.score == "mass", PRECISION=precision, num_warps=warps, num_stages=_STAGES,
    )  # fmt: skip
    return scores


def _shape(device: torch.device) -> tuple[int, int]:
    """Return how many parts, of queries and of keys, a program joins, and its warps."""
    large = device.type == "cpu" or torch.cuda.get_device_capability(device)[0] in (9, 10, 11)
    return (128, 8) if large else (64, 4)


def part_means(
    q_bhnd: Tensor, k_bhnd: Tensor, query_part: int, key_part: int, scale: float
) -> tuple[Tensor, Tensor]:
    """Return the means of q's parts times scale [b, h, i, d] and of k's [b, h, j, d], in one go."""
    q, k = (x if x.stride(-1) == 1 else x.contiguous() for x in (q_bhnd, k_bhnd))
    batch, heads, q_tokens, dim = q.shape
    k_tokens = k.shape[2]
    q_parts, k_parts = triton.cdiv(q_tokens, query_part), triton.cdiv(k_tokens, key_part)
    queries, keys = (
        torch.empty((batch, heads, parts, dim), dtype=torch.float32, device=q.device)
        for parts in (q_parts, k_parts)
    )
    chunk = min(_LARGEST_POOL, triton.next_power_of_2(max(query_part, key_part)))
    kernels.pool_parts[(q_parts + k_parts, batch * heads)](
        q, k, queries, keys, heads, q_tokens, k_tokens, q_parts, k_parts,
        *q.stride()[:3], *k.stride()[:3], scale,
        HEAD_DIM=dim, Q_PART=query_part, K_PART=key_part, CHUNK=chunk, num_warps=1,
    )  # fmt: skip
    return queries, keys
