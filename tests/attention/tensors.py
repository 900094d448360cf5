"""Inputs for the tests of attention, and the error that an executor may make."""

import torch
from torch import Tensor

from attention.proxies import Proxies
from attention.reference import attend_reference
from attention.selection import Selection, select_highest


def tokens(
    shape: tuple[int, int, int, int],
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    spread: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values [b, h, n, d]."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3))
    return (spread * q).to(dtype), k.to(dtype), v.to(dtype)


def lists(
    heads: tuple[int, int], queries: int, keys: int, blocks: tuple[int, int], most: int, least: int
) -> Selection:
    """Return random lists of `least` to `most` blocks, another length in every row."""
    generator = torch.Generator().manual_seed(1)
    rows, columns = -(-queries // blocks[0]), -(-keys // blocks[1])
    scores = torch.randn(*heads, rows, columns, generator=generator)
    counts = torch.randint(least, most + 1, (*heads, rows), generator=generator)
    found, counts = select_highest(scores, counts, most)
    return Selection(found, counts, *blocks, queries, keys)


def exact(
    q: Tensor, k: Tensor, v: Tensor, selection: Selection, proxies: Proxies | None,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Compute the specification in float64, from the rounded inputs."""
    return attend_reference(q.double(), k.double(), v.double(), selection, proxies, scale=scale)


def plain(
    q: Tensor, k: Tensor, v: Tensor, selection: Selection, proxies: Proxies | None,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    """Compute the same with torch's operations in the inputs' own dtype throughout."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    read = selection.mask_bhqk().repeat_interleave(selection.query_block, dim=2)
    read = read[:, :, : selection.num_queries]
    inside = read.repeat_interleave(selection.key_block, dim=3)[..., : selection.num_keys]
    logits = (q @ k.mT * scale).masked_fill(~(inside & selection.real_m()), -torch.inf)
    if proxies is not None:
        more = q @ proxies.keys_bhkd.to(q.dtype).mT * scale + proxies.sizes_k.to(q.dtype).log()
        if proxies.variances_bhkd is not None:
            more += 0.5 * scale**2 * (q.square() @ proxies.variances_bhkd.to(q.dtype).mT)
        logits = torch.cat([logits, more.masked_fill(read, -torch.inf)], dim=-1)
        v = torch.cat([v.expand(*logits.shape[:2], -1, -1), proxies.values_bhkd.to(q.dtype)], dim=2)
    return logits.softmax(dim=-1) @ v


def allowed(found: Tensor, expected: Tensor, plainly: Tensor) -> bool:
    """Tell whether an error is at most twice that of plain torch in that dtype."""
    error = (found.double() - expected).abs().max()
    return bool(error <= 2 * (plainly.double() - expected).abs().max() + 1e-5)
