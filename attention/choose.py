"""Choosing who computes attention, on plain data: no torch call, no look at the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from attention.errors import AttentionError
from attention.patterns import Dense, TopK, Window
from attention.trained.patterns import Trained
from attention.triton_configs import HEAD_DIMS

Pattern = Dense | TopK | Window | Trained
Kind = Literal["cpu", "cuda"]

DENSE_BACKENDS = ("sdpa", "flash", "sage")
SPARSE_BACKENDS = ("triton", "cpu", "flex", "reference")
# flash-attn's README states 256; sageattention pads to 64 or 128 and raises above.
_LARGEST_HEAD_DIM = {"flash": 256, "sage": 128}


@dataclass(frozen=True, slots=True)
class Host:
    """What a device can run.

    capability  CUDA compute capability, (0, 0) for a CPU
    backends    names of those that can run here; "reference" and "sdpa" always do
    problems    of those that are installed and cannot: one clause each on why
    """

    kind: Kind
    capability: tuple[int, int]
    backends: frozenset[str]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """What will run.

    pattern  as asked, or Dense where the sequence is below the token floor
    backend  as asked; below the floor, instead of one for sparse attention, torch's own
    reason   one clause: why this backend
    """

    pattern: Pattern
    backend: str
    reason: str


def choose(
    pattern: Pattern,
    host: Host,
    *,
    tokens: int,
    head_dim: int,
    dtype: str,
    asked: str = "auto",
    min_tokens: int = 0,
) -> Choice:
    """Choose a backend.

    dtype       "float32", "bfloat16" or "float16"
    asked       "auto", or the one backend that must run
    min_tokens  shorter sequences are computed dense, unless the pattern is one that was trained
    Raises      AttentionError if the backend asked for cannot run this here
    """
    if isinstance(pattern, TopK | Window) and tokens < min_tokens:
        reason = f"{tokens:,} tokens are below the floor of {min_tokens:,} (min_tokens)"
        if asked not in DENSE_BACKENDS:
            return Choice(Dense(), "sdpa", reason)
        _refuse(asked, Dense(), host, head_dim, dtype)
        return Choice(Dense(), asked, f"{reason}, {asked} was asked for")
    if isinstance(pattern, Dense):
        return _dense(host, head_dim, dtype, asked)
    if asked == "auto":
        backend = "cpu" if host.kind == "cpu" else "triton"
        _refuse(backend, pattern, host, head_dim, dtype)
        return Choice(pattern, backend, _why(backend, host, head_dim, dtype))
    if asked in DENSE_BACKENDS:
        raise AttentionError(
            f"attention_backend={asked} reads every key and cannot leave blocks out; use "
            f"{', '.join(SPARSE_BACKENDS)} or auto, or attention=dense.",
            field="attention_backend",
        )
    _refuse(asked, pattern, host, head_dim, dtype)
    return Choice(pattern, asked, "asked for")


def _dense(host: Host, head_dim: int, dtype: str, asked: str) -> Choice:
    if asked in ("auto", "sdpa"):
        reason = "dense attention runs in the model's own torch SDPA call"
        return Choice(Dense(), "sdpa", reason)
    if asked in SPARSE_BACKENDS:
        raise AttentionError(
            f"attention_backend={asked} computes sparse attention; with attention=dense use auto "
            f"or {', '.join(DENSE_BACKENDS)}.",
            field="attention_backend",
        )
    _refuse(asked, Dense(), host, head_dim, dtype)
    return Choice(Dense(), asked, "asked for")


def _why(backend: str, host: Host, head_dim: int, dtype: str) -> str:
    if backend == "cpu":
        return "the selected blocks are gathered and multiplied on the CPU"
    major, minor = host.capability
    return f"sm{major}{minor}, {dtype}, head dimension {head_dim}"


def _refuse(backend: str, pattern: Pattern, host: Host, head_dim: int, dtype: str) -> None:
    """Raise if the backend cannot run this here."""
    problem = _problem(backend, pattern, host, head_dim, dtype)
    if problem is not None:
        needs, way_out = problem
        raise AttentionError(
            f"attention_backend={backend} cannot run here: {needs}; {way_out}.",
            field="attention_backend",
        )


def _problem(
    backend: str, pattern: Pattern, host: Host, head_dim: int, dtype: str
) -> tuple[str, str] | None:
    """Return what is missing and the way out, None if the backend can run."""
    major, minor = host.capability
    other = "use attention_backend=auto"
    if backend == "cpu" and host.kind != "cpu":
        return f"it needs a CPU, found sm{major}{minor}", "use triton or auto"
    if backend in ("triton", "flash", "sage"):
        if host.kind != "cuda" or host.capability < (8, 0):
            found = "a CPU" if host.kind == "cpu" else f"sm{major}{minor}"
            return f"it needs sm80 or newer, found {found}", "use reference or auto"
        if dtype not in ("bfloat16", "float16"):
            return f"it computes bfloat16 and float16, asked for {dtype}", "use dtype=bfloat16"
        dims = _head_dims(backend, head_dim)
        if dims is not None:
            way_out = f"use {'sdpa' if backend in DENSE_BACKENDS else 'reference'}"
            return f"it does head dimensions {dims}, the model has {head_dim}", way_out
    if backend == "flex" and isinstance(pattern, TopK) and pattern.compensate != "none":
        return f"it has no proxies for compensate={pattern.compensate}", "use compensate=none"
    if backend in host.problems:
        needs = f"it failed its self-test on this device ({host.problems[backend]})"
        return needs, f"use {'sdpa' if backend in DENSE_BACKENDS else 'reference'}"
    if backend not in host.backends and backend not in ("reference", "sdpa"):
        if backend == "flash":
            return "it is not installed", "install the extra `flash`"
        if backend == "sage":
            return "it is not installed", "install sageattention"
        if backend == "triton":
            return "triton is not installed", "install the extra `kernels`"
        if backend == "flex":
            return "it needs a C++ compiler and none was found", other
        return "it is not among this device's backends", other
    return None


def _head_dims(backend: str, head_dim: int) -> str | None:
    """Return the head dimensions that a GPU backend has, None if this is one of them."""
    if backend == "triton":
        return None if head_dim in HEAD_DIMS else ", ".join(map(str, HEAD_DIMS))
    largest = _LARGEST_HEAD_DIM[backend]
    return None if head_dim <= largest else f"up to {largest}"
