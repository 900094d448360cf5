"""Block-sparse attention by torch's flex_attention: the same lists, another's compiled code.

A second opinion, for who asks for it by name. It has no proxies.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad

from attention.errors import AttentionError
from attention.proxies import Proxies
from attention.selection import Selection

# b batch  h heads  n query tokens  m key tokens  d head dim  q query blocks  k key blocks


def attend_flex(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    selection: Selection,
    proxies: Proxies | None = None,
    *,
    scale: float | None = None,
) -> Tensor:
    """Compute what `attend_reference` does without proxies; the first call of a shape compiles.

    Raises  AttentionError for proxies, for float64, and for more shapes than torch keeps compiled
    """
    if proxies is not None:
        raise AttentionError(
            "attention_backend=flex has no proxies for the blocks left out; use compensate=none, "
            "or attention_backend=auto.",
            field="attention_backend",
        )
    if q_bhnd.dtype == torch.float64:
        raise AttentionError(
            "attention_backend=flex does not compute float64; use attention_backend=reference.",
            field="attention_backend",
        )
    try:
        return _compiled()(q_bhnd, k_bhmd, v_bhmd, scale=scale, block_mask=block_mask(selection))
    except FailOnRecompileLimitHit as error:
        raise AttentionError(
            "attention_backend=flex has compiled as many shapes as torch keeps; start a new "
            "process, or use attention_backend=auto.",
            field="attention_backend",
        ) from error


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Tensor]:
    # One graph or an error: torch would otherwise run the slow, dense form and say nothing.
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return compiled


def block_mask(selection: Selection) -> BlockMask:
    """Return the lists as flex_attention takes them; nothing is evaluated token by token."""
    counts = selection.counts_bhq
    blocks = selection.blocks_bhqs.clamp(min=0)
    blocks = pad(blocks, (0, selection.key_blocks - blocks.shape[-1])).contiguous()
    none, nowhere = torch.zeros_like(counts), torch.zeros_like(blocks)
    masked, full, mask_mod = (none, nowhere), (counts, blocks), None
    if selection.key_sizes_k is not None:  # padding inside blocks
        masked, full, mask_mod = full, masked, _reads_only(selection.real_m())
    return BlockMask.from_kv_blocks(
        *masked,
        *full,
        BLOCK_SIZE=(selection.query_block, selection.key_block),
        mask_mod=mask_mod,
        seq_lengths=(selection.num_queries, selection.num_keys),
        compute_q_blocks=False,
    )


def _reads_only(real_m: Tensor) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def mask_mod(_b: Tensor, _h: Tensor, _n: Tensor, m: Tensor) -> Tensor:
        return real_m[m]

    return mask_mod
