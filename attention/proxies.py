"""Proxies: one stand-in for each key block, which attention reads where it leaves the block out."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from attention.errors import check_word
from attention.layout import block_sizes
from attention.patterns import Compensate

# b batch  h heads  m key tokens  k key blocks  d head dim


@dataclass(frozen=True, slots=True, eq=False)
class Proxies:
    """Means of key blocks, float32 (float64 for float64 inputs).

    keys_bhkd, values_bhkd  means over a block's tokens
    sizes_k                 tokens of each block
    variances_bhkd          variance of a block's keys by channel, if asked for
    A proxy stands for its block with the weight size * exp(scale * q.key), and with the variances
    size * exp(scale * q.key + scale^2 / 2 * sum(q^2 * variance)): the mean of exp over a Gaussian.
    """

    keys_bhkd: Tensor
    values_bhkd: Tensor
    sizes_k: Tensor
    variances_bhkd: Tensor | None = None


def make_proxies(
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    key_block: int,
    compensate: Compensate,
    sizes_k: Tensor | None = None,
) -> Proxies | None:
    """Return the proxies of all key blocks; None for compensate="none".

    sizes_k  `block_sizes` on the device, for callers that ask often
    """
    check_word("compensate", compensate, get_args(Compensate))
    if compensate == "none":
        return None
    if sizes_k is None:
        sizes_k = block_sizes(k_bhmd.shape[2], key_block, k_bhmd.device)
    keys = block_means(k_bhmd, key_block)
    variances = None
    if compensate == "mean_var":
        variances = _block_variances(k_bhmd.to(keys.dtype), keys, key_block)
    return Proxies(keys, block_means(v_bhmd, key_block), sizes_k, variances)


def block_means(x_bhmd: Tensor, block: int) -> Tensor:
    """Return the mean over each block's tokens [b, h, k, d], in float32 or float64."""
    dtype = torch.float64 if x_bhmd.dtype == torch.float64 else torch.float32
    num_tokens = x_bhmd.shape[2]
    full = num_tokens // block * block
    whole = torch.unflatten(x_bhmd[:, :, :full], 2, (-1, block)).mean(dim=3, dtype=dtype)
    if full == num_tokens:
        return whole
    rest = x_bhmd[:, :, full:].mean(dim=2, keepdim=True, dtype=dtype)
    return torch.cat([whole, rest], dim=2)


def _block_variances(k_bhmd: Tensor, means_bhkd: Tensor, block: int) -> Tensor:
    """Return the mean squared distance from each block's mean [b, h, k, d]."""
    num_tokens = k_bhmd.shape[2]
    full = num_tokens // block
    whole = torch.unflatten(k_bhmd[:, :, : full * block], 2, (-1, block))
    found = (whole - means_bhkd[:, :, :full, None]).square_().mean(dim=3)
    if full * block == num_tokens:
        return found
    rest = (k_bhmd[:, :, full * block :] - means_bhkd[:, :, full:]).square_()
    return torch.cat([found, rest.mean(dim=2, keepdim=True)], dim=2)
