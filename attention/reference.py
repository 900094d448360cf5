"""The specification: block-sparse attention in plain torch, with every weight spelled out.

Every executor computes this function. It builds the full matrix of weights, so it is for tests and
small sequences.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attention.proxies import Proxies
from attention.selection import Selection

# b batch  h heads  n query tokens  m key tokens  q query blocks  k key blocks  d head dim


class Weights(NamedTuple):
    """Softmax weights, 1 in sum over both: on keys that are read and on proxies of the others."""

    keys_bhnm: Tensor
    proxies_bhnk: Tensor
    lse_bhn: Tensor


def attend_reference(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    selection: Selection,
    proxies: Proxies | None = None,
    *,
    scale: float | None = None,
) -> Tensor:
    """Return attention over the selected key blocks and the proxies of the others.

    q, k, v    any strides; float64 is computed in float64, all else in float32
    selection  shared lists (b or h = 1) hold for all
    proxies    None: the blocks left out count for nothing
    scale      of the products; 1 / sqrt(d) when omitted
    Returns    [b, h, n, d] in q's dtype
    """
    weights = reference_weights(q_bhnd, k_bhmd, selection, proxies, scale=scale)
    out = weights.keys_bhnm @ v_bhmd.to(weights.keys_bhnm.dtype)
    if proxies is not None:
        out = out + weights.proxies_bhnk @ proxies.values_bhkd.to(out.dtype)
    return out.to(q_bhnd.dtype)


def reference_weights(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    selection: Selection,
    proxies: Proxies | None = None,
    *,
    scale: float | None = None,
) -> Weights:
    """Return every weight of `attend_reference`, and the log of their sum before normalising."""
    dtype = torch.float64 if q_bhnd.dtype == torch.float64 else torch.float32
    scale = q_bhnd.shape[-1] ** -0.5 if scale is None else scale
    q, k = q_bhnd.to(dtype) * scale, k_bhmd.to(dtype)
    read_bhnk = selection.mask_bhqk().repeat_interleave(selection.query_block, dim=2)
    read_bhnk = read_bhnk[:, :, : selection.num_queries]
    read_bhnm = read_bhnk.repeat_interleave(selection.key_block, dim=3)
    read_bhnm = read_bhnm[..., : selection.num_keys] & selection.real_m()
    logits = (q @ k.mT).masked_fill(~read_bhnm, -torch.inf)
    if proxies is not None:
        stand_in = q @ proxies.keys_bhkd.to(dtype).mT + proxies.sizes_k.to(dtype).log()
        if proxies.variances_bhkd is not None:
            stand_in = stand_in + 0.5 * q.square() @ proxies.variances_bhkd.to(dtype).mT
        logits = torch.cat([logits, stand_in.masked_fill(read_bhnk, -torch.inf)], dim=-1)
    weights = logits.softmax(dim=-1)
    num_keys = selection.num_keys
    return Weights(weights[..., :num_keys], weights[..., num_keys:], logits.logsumexp(dim=-1))
