"""Running out of memory: telling it from other errors, and saying it in one sentence."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from vidgen.errors import DoesNotFit
from vidgen.tracebacks import drop_frames

# What torch's CPU allocator, cuDNN and cuBLAS say; none of them has a class of its own.
_SIGNS = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that the device's or the machine's memory ran out."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


@contextmanager
def explained_memory(doing: str, way_out: str) -> Iterator[None]:
    """Turn running out of memory into one sentence; other errors pass unchanged.

    doing    what ran out, e.g. "Encoding the prompt"
    way_out  what to try, e.g. "try a smaller size"
    Raises   DoesNotFit
    """
    known = sys.exception()
    try:
        yield
    except (MemoryError, OSError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        # The frames below hold the very tensors that filled the memory; they must not live on.
        drop_frames(error, known=known)
        raise DoesNotFit(f"{doing} ran out of memory; {way_out}.") from error
