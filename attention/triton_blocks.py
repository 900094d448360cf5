"""Block-sparse attention on NVIDIA GPUs: checks, arguments and launch of the Triton kernels.

Computes what `attend_reference` computes, in bfloat16 or float16. Under Triton's interpreter, which
takes the place of a GPU in tests, it runs on CPU tensors and in float32 too.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from attention import triton_kernels
from attention.errors import AttentionError
from attention.proxies import Proxies
from attention.selection import Selection
from attention.triton_configs import Config, architecture, config

# b batch  h heads  n query tokens  m key tokens  q query blocks  k key blocks  s places in a list
# d head dim  w words of 32 bits

LOG2_E = 1.4426950408889634
_LIST_PLACES = 64


def attend_triton(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    selection: Selection,
    proxies: Proxies | None = None,
    *,
    scale: float | None = None,
) -> Tensor:
    """Return attention over the selected key blocks and the proxies of the others.

    q, k, v    bfloat16 or float16 on one GPU, any strides; a last axis that is not dense is copied
    Returns    [b, h, n, d] with the token axis before the heads in memory, as transformers go on
    Raises     AttentionError for shapes, dtypes or devices the kernel is not made for
    See        `attend_reference`
    """
    scale = q_bhnd.shape[-1] ** -0.5 if scale is None else scale
    check_inputs(q_bhnd, k_bhmd, v_bhmd, selection, scale)
    _check_extents(q_bhnd, k_bhmd, selection, proxies)
    out: Tensor = attention_op(
        q_bhnd, k_bhmd, v_bhmd,
        selection.blocks_bhqs, selection.counts_bhq, selection.key_sizes_k,
        selection.query_block, selection.key_block,
        None if proxies is None else proxies.keys_bhkd,
        None if proxies is None else proxies.values_bhkd,
        None if proxies is None else proxies.variances_bhkd,
        None if proxies is None else proxies.sizes_k,
        scale,
    )  # fmt: skip
    return out


def check_inputs(q: Tensor, k: Tensor, v: Tensor, selection: Selection, scale: float) -> None:
    """Raise if the kernel cannot compute this; reads shapes only, nothing from the device."""
    field = "attention_backend"
    dtypes = (torch.bfloat16, torch.float16, *((torch.float32,) if interpreted() else ()))
    if q.dtype not in dtypes or k.dtype != q.dtype or v.dtype != q.dtype:
        raise AttentionError(
            f"The Triton kernel computes bfloat16 and float16, got {q.dtype}, {k.dtype} and "
            f"{v.dtype}; cast them, or use attention_backend=reference.",
            field=field,
        )
    if not q.is_cuda and not interpreted():
        raise AttentionError(
            f"The Triton kernel needs tensors on a GPU, these are on {q.device}; use "
            "attention_backend=cpu.",
            field=field,
        )
    config(80, q.shape[-1])  # the head dimensions are the same for all
    if k.shape != v.shape or k.shape[:2] != q.shape[:2] or k.shape[-1] != q.shape[-1]:
        raise AttentionError(
            f"q {tuple(q.shape)}, k {tuple(k.shape)} and v {tuple(v.shape)} do not belong together."
        )
    if (q.shape[2], k.shape[2]) != (selection.num_queries, selection.num_keys):
        raise AttentionError(
            f"{q.shape[2]} queries and {k.shape[2]} keys do not fit lists made for "
            f"{selection.num_queries} and {selection.num_keys}."
        )
    block = selection.key_block
    if selection.query_block % 16 or block < 16 or block & (block - 1):
        raise AttentionError(
            "The Triton kernel needs query blocks of a multiple of 16 tokens and key blocks of 16, "
            f"32, 64, ..., got {selection.query_block}x{block}.",
            field=field,
        )
    if scale < 0:
        raise AttentionError(f"scale={scale} must not be below 0.")


def _check_extents(q: Tensor, k: Tensor, selection: Selection, proxies: Proxies | None) -> None:
    """Raise if lists or proxies are others than the kernel would read."""
    batch, heads, _, dim = q.shape
    rows = triton.cdiv(selection.num_queries, selection.query_block)
    listed = tuple(selection.counts_bhq.shape)
    if listed[0] not in (1, batch) or listed[1] not in (1, heads) or listed[2] != rows:
        raise AttentionError(
            f"Lists for {listed} batches, heads and query blocks do not fit {batch}, {heads} and "
            f"{rows}."
        )
    wanted = (batch, heads, selection.key_blocks, dim)
    if proxies is not None and tuple(proxies.keys_bhkd.shape) != wanted:
        raise AttentionError(
            f"Proxies {tuple(proxies.keys_bhkd.shape)} do not fit keys of {tuple(k.shape)} in "
            f"blocks of {selection.key_block}, which need {wanted}."
        )


@torch.library.custom_op("vidgen_attention::triton_blocks", mutates_args=())
def attention_op(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor,
    counts: Tensor,
    key_sizes: Tensor | None,
    query_block: int,
    key_block: int,
    proxy_keys: Tensor | None,
    proxy_values: Tensor | None,
    proxy_variances: Tensor | None,
    proxy_sizes: Tensor | None,
    scale: float,
) -> Tensor:
    """Compute the output."""
    shape = device_config(q).tile(query_block, key_block)
    out = _output(q)
    work = Work(q, k, v, blocks, counts, key_sizes, query_block, key_block, proxy_keys,
                proxy_values, proxy_variances, proxy_sizes, scale)  # fmt: skip
    with on_device(q):
        launch(work, shape, out)
    return out


@attention_op.register_fake
def _(q: Tensor, *_: Any) -> Tensor:
    return _output(q)


def _output(q_bhnd: Tensor) -> Tensor:
    batch, heads, tokens, dim = q_bhnd.shape
    out_bnhd = torch.empty((batch, tokens, heads, dim), dtype=q_bhnd.dtype, device=q_bhnd.device)
    return out_bnhd.transpose(1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What one launch computes: the operator's arguments."""

    q: Tensor
    k: Tensor
    v: Tensor
    blocks: Tensor
    counts: Tensor
    key_sizes: Tensor | None
    query_block: int
    key_block: int
    proxy_keys: Tensor | None
    proxy_values: Tensor | None
    proxy_variances: Tensor | None
    proxy_sizes: Tensor | None
    scale: float

    @property
    def compensate(self) -> int:
        """What stands for blocks left out: 0 nothing, 1 means, 2 means and variances."""
        return 0 if self.proxy_keys is None else 1 if self.proxy_variances is None else 2

    @property
    def key_blocks(self) -> int:
        """Number of key blocks there are."""
        return -(-self.k.shape[2] // self.key_block)


def launch(work: Work, shape: Config, out: Tensor) -> None:
    """Run the kernel in a given shape, without asking the device for anything."""
    wide = interpreted()
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (work.q, work.k, work.v))
    batch, heads, num_queries, dim = q.shape
    blocks, counts = work.blocks.contiguous(), work.counts.contiguous()
    keys, values, variances = (
        _proxy(x, q.dtype) for x in (work.proxy_keys, work.proxy_values, work.proxy_variances)
    )
    words = read_words(blocks, work.key_blocks) if work.compensate else counts[..., None]
    tma = shape.tma and all(map(_fits_descriptor, (q, k, v)))
    # The interpreter cuts bfloat16 off instead of rounding it, so there the cast is torch's.
    written = torch.empty_like(out, dtype=torch.float32) if wide else out
    # Arguments that the compiled variant does not read get any tensor that is at hand.
    sources = q, k, v, keys, values, variances
    held = [counts if x is None else x for x in sources]
    if tma:
        tiles = (shape.rows, shape.keys, shape.keys, *(shape.proxies,) * 3)
        held = [
            held_one if source is None else _descriptor(source, tile)
            for source, held_one, tile in zip(sources, held, tiles, strict=True)
        ]
    tiles_total = triton.cdiv(num_queries, shape.rows) * batch * heads
    grid = (tiles_total if wide else min(tiles_total, shape.programs * _multiprocessors(q.device)),)
    triton_kernels.attend_blocks[grid](
        held[0], held[1], held[2], written, blocks, counts,
        counts if work.key_sizes is None else work.key_sizes,
        held[3], held[4], held[5],
        counts if work.proxy_sizes is None else work.proxy_sizes, words,
        work.scale * LOG2_E, heads, batch * heads, num_queries, k.shape[2], work.key_blocks,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3],
        *_shared(blocks)[:3], *_shared(counts)[:2], *_shared(words)[:3],
        HEAD_DIM=dim, ROWS=shape.rows, KEYS=shape.keys, PROXIES=shape.proxies,
        TILES_PER_LIST=work.query_block // shape.rows,
        TILES_PER_BLOCK=work.key_block // shape.keys,
        RAGGED=k.shape[2] % work.key_block != 0, PADDED=work.key_sizes is not None,
        COMPENSATE=work.compensate, TMA=tma, WIDE=wide,
        PROXY_STAGES=shape.proxy_stages, num_warps=shape.warps, num_stages=shape.stages,
    )  # fmt: skip
    if wide:
        out.copy_(written)


def read_words(blocks_bhqs: Tensor, num_blocks: int) -> Tensor:
    """Return which blocks the lists hold, as bits: int32 [b, h, q, w]."""
    batch, heads, rows, length = blocks_bhqs.shape
    num_words = triton.cdiv(num_blocks, 32)
    words = torch.empty(
        (batch, heads, rows, num_words), dtype=torch.int32, device=blocks_bhqs.device
    )
    triton_kernels.mark_read[(batch * heads * rows,)](
        blocks_bhqs, words, length, blocks_bhqs.stride(2), num_words,
        WORDS=triton.next_power_of_2(num_words), PLACES=_LIST_PLACES, num_warps=4,
    )  # fmt: skip
    return words


def on_device(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which Triton launches on the device that holds a tensor."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def interpreted() -> bool:
    """Return whether Triton runs its kernels in Python, as tests without a GPU do."""
    return not isinstance(triton_kernels.attend_blocks, triton.runtime.JITFunction)


def device_config(q_bhnd: Tensor) -> Config:
    """Return the kernel's shape for the device that holds a tensor."""
    arch = 80 if interpreted() else architecture(torch.cuda.get_device_capability(q_bhnd.device))
    return config(arch, q_bhnd.shape[-1])


def _proxy(means_bhkd: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if means_bhkd is None:
        return None
    if dtype == torch.float16:
        means_bhkd = means_bhkd.clamp(max=65504.0)  # a variance can be beyond float16
    return means_bhkd.to(dtype).contiguous()


def _shared(lists: Tensor) -> list[int]:
    """Return strides, 0 along the batch and the heads where one list holds for all."""
    return [0 if axis < 2 and lists.shape[axis] == 1 else lists.stride(axis)
            for axis in range(lists.dim())]  # fmt: skip


def _fits_descriptor(x: Tensor) -> bool:
    """Return whether the copy engine can read a tensor: 16-byte strides and address."""
    size = x.element_size()
    return x.data_ptr() % 16 == 0 and all(
        step > 0 and step * size % 16 == 0 for step in x.stride()[:3]
    )


def _descriptor(x: Tensor, tokens: int) -> TensorDescriptor:
    return TensorDescriptor(x, list(x.shape), list(x.stride()), [1, 1, tokens, x.shape[-1]])


@lru_cache(maxsize=16)
def _multiprocessors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
