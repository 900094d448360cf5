"""Self-test: which backends import on this machine and agree with the specification.

For the process that owns the device; `choose` takes what it finds as plain data.
"""

import math
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch

from attention.choose import DENSE_BACKENDS
from attention.dense import dense_attention
from attention.executors import executor
from attention.grid import Grid
from attention.layout import Layout
from attention.patterns import Compensate, TopK
from attention.proxies import make_proxies
from attention.reference import attend_reference
from attention.router import select
from attention.selection import select_all

SLOW = frozenset({"flex"})  # compiles for seconds before it computes anything
CASES: dict[str, tuple[tuple[torch.dtype, Compensate], ...]] = {
    "cpu": ((torch.float32, "none"), (torch.float32, "mean_var")),
    "cuda": ((torch.bfloat16, "none"), (torch.bfloat16, "mean"), (torch.float16, "mean_var")),
}
# What a package that does not fit this machine raises at its import, build or first call.
_FAILURES: tuple[type[Exception], ...] = (
    AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError,
    ValueError, subprocess.SubprocessError,
)  # fmt: skip


_EXACT = 1e-5  # allowed in float32; narrower types get twice their rounding step
_SAGE = 0.1  # 8-bit products


@dataclass(frozen=True, slots=True)
class Finding:
    """How a backend did.

    off, allowed  largest difference from the reference, NaN where nothing was computed, and the
                  most that it may be
    problem       one clause on why it does not work here, empty if it does
    """

    off: float
    allowed: float
    problem: str = ""


def self_test(device: str, names: Iterable[str]) -> dict[str, Finding]:
    """Return for each backend whether it works on a device and how exact it is.

    device  "cpu", "cuda" or "cuda:1"
    """
    return {name: _finding(name, device) for name in names}


def _finding(name: str, device: str) -> Finding:
    kind = torch.device(device).type
    if kind == "cuda" and not torch.cuda.is_available():
        return Finding(math.nan, math.nan, "torch finds no CUDA device")
    found = []
    for dtype, compensate in CASES[kind]:
        if name == "flex" and compensate != "none":
            continue
        try:
            found.append(verdict(name, device, dtype, compensate))
        except _failures() as failure:
            return Finding(math.nan, math.nan, _clause(failure))
        if found[-1].problem:
            return found[-1]
    return max(found, key=lambda item: item.off / item.allowed)


def verdict(name: str, device: str, dtype: torch.dtype, compensate: Compensate) -> Finding:
    """Compare a backend with the reference on a small problem, made and solved on the CPU.

    compensate  of the sparse ones; a dense one reads every key
    """
    layout = Layout(Grid(3, 9, 11))  # the last block of queries and of keys is short
    generator = torch.Generator().manual_seed(0)
    shape = (1, 2, layout.tokens, 64)
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for _ in range(3))
    there = q.to(device), k.to(device), v.to(device)
    if name in DENSE_BACKENDS:
        selection = select_all(layout.tokens, layout.tokens, layout.query_block, layout.key_block)
        out, proxies = dense_attention(name)(*there), None
    else:
        selection = select(q, k, layout, TopK(density=0.5))
        proxies = make_proxies(k, v, layout.key_block, compensate)
        lists = replace(
            selection,
            blocks_bhqs=selection.blocks_bhqs.to(device),
            counts_bhq=selection.counts_bhq.to(device),
        )
        theirs = make_proxies(there[1], there[2], layout.key_block, compensate)
        out = executor(name)(*there, lists, theirs)
    expected = attend_reference(q.float(), k.float(), v.float(), selection, proxies)
    off = float((out.float().cpu() - expected).abs().max())
    allowed = _SAGE if name == "sage" else max(_EXACT, 2 * torch.finfo(dtype).eps)
    if off <= allowed:
        return Finding(off, allowed)
    kind = str(dtype).removeprefix("torch.")
    return Finding(off, allowed, f"{kind} is off by {off:.2g} where {allowed:.2g} is allowed")


def _failures() -> tuple[type[Exception], ...]:
    """Return what may be raised, Triton's own included; asked for only once something failed."""
    try:
        from triton.errors import TritonError
    except ImportError:
        return _FAILURES
    return (*_FAILURES, TritonError)


def _clause(failure: Exception) -> str:
    """Return what a failure says first, as part of a sentence."""
    lines = str(failure).strip().splitlines()
    said = lines[0].split(". ")[0].rstrip(".") if lines else "no message"
    return f"{type(failure).__name__}: {said}"
