"""The transformer's forward pass for training: the stock weights, fewer passes over memory.

Gives what `WanTransformer3DModel.forward` gives (tested); inference uses the stock one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from diffusers.models.transformers.transformer_wan import WanAttention, WanTransformerBlock
from torch import Tensor

# b batch  z latent channel  f latent frames  r rows  c columns  h heads  d width
# n tokens, p tokens of one latent frame; 6: shift, scale, gate of attention and of feed-forward


def velocity(dit: WanTransformer3DModel, x_bzfrc: Tensor, sigma_bf: Tensor, text: Tensor) -> Tensor:
    """The velocity [b, z, f, r, c] with one noise level per latent frame."""
    return velocity_and_states(dit, x_bzfrc, sigma_bf, text)[0]


def velocity_and_states(
    dit: WanTransformer3DModel, x_bzfrc: Tensor, sigma_bf: Tensor, text: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The velocity, and the hidden states [b, n, d] after each block.

    Equals `dit(x, 1000 * sigma per token, text)`; time embedding and modulation are computed once
    per frame instead of once per token.
    """
    frames, rows, columns = x_bzfrc.shape[2], x_bzfrc.shape[3] // 2, x_bzfrc.shape[4] // 2
    cos, sin = dit.rope(x_bzfrc)
    turn_n1d = torch.complex(cos[0, :, :, 0::2].double(), sin[0, :, :, 1::2].double()).to(
        torch.complex64
    )
    h_bnd = dit.patch_embedding(x_bzfrc).flatten(2).mT.contiguous()
    temb, modulation, text, _ = dit.condition_embedder(
        (1000 * sigma_bf).flatten(), text, None, timestep_seq_len=frames
    )
    modulation_bf6d = torch.unflatten(modulation, 2, (6, -1))
    states = []
    for block in dit.blocks:
        h_bnd = run_block(block, h_bnd, text, modulation_bf6d, turn_n1d)
        states.append(h_bnd)
    table = dit.scale_shift_table.unsqueeze(0) + temb.unsqueeze(2)
    shift, scale = table.unbind(dim=2)
    out = dit.proj_out(_modulate(dit.norm_out(h_bnd), shift, scale))
    out = out.reshape(len(out), frames, rows, columns, 2, 2, -1)
    return out.permute(0, 6, 1, 2, 4, 3, 5).flatten(5, 6).flatten(3, 4), states


def run_block(
    block: WanTransformerBlock,
    h_bnd: Tensor,
    text: Tensor,
    modulation_bf6d: Tensor,
    turn_n1d: Tensor,
) -> Tensor:
    """One transformer block."""
    table = block.scale_shift_table.unsqueeze(0) + modulation_bf6d
    shift, scale, gate, shift_ffn, scale_ffn, gate_ffn = table.unbind(dim=2)
    x = _modulate(block.norm1(h_bnd), shift, scale)
    h_bnd = _gated(h_bnd, _attend(block.attn1, x, x, turn_n1d), gate)
    h_bnd = h_bnd + _attend(block.attn2, block.norm2(h_bnd), text, None)
    x = block.ffn(_modulate(block.norm3(h_bnd), shift_ffn, scale_ffn))
    return _gated(h_bnd, x, gate_ffn)


def _modulate(x_bnd: Tensor, shift_bfd: Tensor, scale_bfd: Tensor) -> Tensor:
    x_bfpd = torch.unflatten(x_bnd, 1, (shift_bfd.shape[1], -1))
    return torch.addcmul(shift_bfd.unsqueeze(2), x_bfpd, 1 + scale_bfd.unsqueeze(2)).flatten(1, 2)


def _gated(h_bnd: Tensor, x_bnd: Tensor, gate_bfd: Tensor) -> Tensor:
    frames = gate_bfd.shape[1]
    h_bfpd, x_bfpd = (
        torch.unflatten(h_bnd, 1, (frames, -1)),
        torch.unflatten(x_bnd, 1, (frames, -1)),
    )
    return torch.addcmul(h_bfpd, x_bfpd, gate_bfd.unsqueeze(2)).flatten(1, 2)


def _attend(
    attention: WanAttention, x_bnd: Tensor, source_bmd: Tensor, turn_n1d: Tensor | None
) -> Tensor:
    heads = attention.heads
    q = attention.norm_q(attention.to_q(x_bnd)).unflatten(2, (heads, -1))
    k = attention.norm_k(attention.to_k(source_bmd)).unflatten(2, (heads, -1))
    v = attention.to_v(source_bmd).unflatten(2, (heads, -1))
    if turn_n1d is not None:
        q, k = _turn(q, turn_n1d), _turn(k, turn_n1d)
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    result: Tensor = attention.to_out[0](out.transpose(1, 2).flatten(2))
    return result


def _turn(x_bnhd: Tensor, turn_n1d: Tensor) -> Tensor:
    """Rotate pairs of channels by the position's angles."""
    pairs = torch.view_as_complex(torch.unflatten(x_bnhd, -1, (-1, 2)))
    return torch.view_as_real(pairs * turn_n1d).flatten(-2)
