"""What stands around attention in a Wan block's self-attention: queries, keys, values; the output.

As diffusers' own processor computes it, for processors whose attention is another.
"""

from typing import Any

import torch
from torch import Tensor

# b batch  n tokens  h heads  d head dim  c channels


def self_attentions(transformer: Any) -> list[tuple[int, Any]]:
    """Return (layer, module) of every self-attention; a VACE control block has its layer's."""
    found = [(number, block.attn1) for number, block in enumerate(transformer.blocks)]
    vace = getattr(transformer, "vace_blocks", ())
    layers = transformer.config.vace_layers if vace else ()
    found += [(number, block.attn1) for number, block in zip(layers, vace, strict=True)]
    return found


def projected(
    attn: Any, hidden_bnc: Tensor, rotary: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values [b, n, h, d], normed and turned to their places."""
    from diffusers.models.transformers.transformer_wan import _get_qkv_projections

    assert rotary is not None
    q, k, v = _get_qkv_projections(attn, hidden_bnc, None)
    q, k = attn.norm_q(q), attn.norm_k(k)
    q_bnhd, k_bnhd, v_bnhd = (x.unflatten(2, (attn.heads, -1)) for x in (q, k, v))
    return rotated(q_bnhd, *rotary), rotated(k_bnhd, *rotary), v_bnhd


def rotated(x_bnhd: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn pairs of channels by their position's angle."""
    even, odd = torch.unflatten(x_bnhd, -1, (-1, 2)).unbind(-1)
    cos, sin = cos[..., 0::2], sin[..., 1::2]
    pair = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
    return pair.flatten(-2).to(x_bnhd.dtype)


def output(attn: Any, out_bnhd: Tensor) -> Tensor:
    """Return what the block adds [b, n, c]."""
    out = out_bnhd.flatten(2, 3)
    for layer in attn.to_out:
        out = layer(out)
    return out
