"""Self-test: which backends import on this machine and agree with the specification.

For the process that owns the device; `choose` takes what it finds as plain data.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from attention.choose import DENSE_BACKENDS, Kind
from attention.dense import dense_attention
from attention.errors import AttentionError
from attention.executors import executor
from attention.grid import Grid
from attention.layout import Layout
from attention.patterns import Compensate, TopK
from attention.proxies import make_proxies
from attention.reference import attend_reference
from attention.router import select
from attention.selection import select_all

# flex compiles for seconds, and needs a C++ compiler on a CPU: tested only when named.
TESTED: Mapping[Kind, tuple[str, ...]] = {
    "cpu": ("reference", "sdpa", "cpu"),
    "cuda": ("reference", "sdpa", "triton", "flash", "sage"),
}
_TOLERANCE = {"cpu": 1e-5, "cuda": 3e-2}
_SAGE_TOLERANCE = 0.1  # 8-bit products


def available_backends(kind: Kind, also: Iterable[str] = ()) -> frozenset[str]:
    """Return the backends that work on this device; `also` names ones that are slow to test."""
    found = self_test(kind, (*TESTED[kind], *also))
    return frozenset(name for name, problem in found.items() if problem is None)


def self_test(kind: Kind, names: Iterable[str]) -> dict[str, str | None]:
    """Return for each backend why it does not work here, None if it does."""
    if kind == "cuda" and not torch.cuda.is_available():
        return dict.fromkeys(names, "torch finds no CUDA device")
    return {name: _problem(name, kind) for name in names}


def _problem(name: str, kind: Kind) -> str | None:
    try:
        error = _error(name, kind)
    except _failures(name) as failure:
        lines = str(failure).strip().splitlines()
        return f"{type(failure).__name__}: {lines[0] if lines else 'no message'}"
    allowed = _SAGE_TOLERANCE if name == "sage" else _TOLERANCE[kind]
    if error <= allowed:
        return None
    return f"differs from the reference by {error:.2g}, more than {allowed:g}"


def _failures(name: str) -> tuple[type[Exception], ...]:
    """Return what a backend raises where it does not work."""
    expected = (AttentionError, ImportError, RuntimeError)
    if name not in ("triton", "flex"):
        return expected
    try:
        from triton.errors import TritonError
    except ImportError:
        return expected
    return (*expected, TritonError)


def _error(name: str, kind: Kind) -> float:
    """Return the largest error on a small problem; NaN counts as infinite."""
    layout = Layout(Grid(3, 9, 11))  # the last block of queries and of keys is short
    dtype = torch.bfloat16 if kind == "cuda" else torch.float32
    generator = torch.Generator().manual_seed(0)
    shape = (1, 2, layout.tokens, 64)
    # Made on the CPU, so the same on all devices.
    q, k, v = (torch.randn(shape, generator=generator).to(kind, dtype) for _ in range(3))
    if name in DENSE_BACKENDS:
        selection = select_all(layout.tokens, layout.tokens, layout.query_block, layout.key_block)
        expected = attend_reference(q.cpu().float(), k.cpu().float(), v.cpu().float(), selection)
        return _largest(dense_attention(name)(q, k, v), expected)
    compensate: Compensate = "none" if name == "flex" else "mean_var"
    pattern = TopK(density=0.5, compensate=compensate)
    selection = select(q, k, layout, pattern)
    proxies = make_proxies(k, v, layout.key_block, compensate)
    expected = attend_reference(q.float(), k.float(), v.float(), selection, proxies)
    return _largest(executor(name)(q, k, v, selection, proxies), expected)


def _largest(out: Tensor, expected: Tensor) -> float:
    error = (out.float().cpu() - expected.float().cpu()).abs().max()
    return float(error.nan_to_num(nan=torch.inf))
