"""Executors: the functions that compute block-sparse attention, by name, loaded when asked for.

All have the signature of `attend_reference` and compute what it computes.
"""

from typing import Protocol

from torch import Tensor

from attention.errors import check_word
from attention.proxies import Proxies
from attention.selection import Selection


class Executor(Protocol):
    """See `attend_reference`."""

    def __call__(
        self,
        q_bhnd: Tensor,
        k_bhmd: Tensor,
        v_bhmd: Tensor,
        selection: Selection,
        proxies: Proxies | None = None,
        *,
        scale: float | None = None,
    ) -> Tensor: ...


def executor(backend: str) -> Executor:
    """Return a backend's function; the name comes from `choose`."""
    if backend == "cpu":
        from attention.cpu import attend_cpu

        return attend_cpu
    if backend == "triton":
        from attention.triton_blocks import attend_triton

        return attend_triton
    if backend == "flex":
        from attention.flex import attend_flex

        return attend_flex
    check_word("backend", backend, ("cpu", "triton", "flex", "reference"))
    from attention.reference import attend_reference

    return attend_reference
