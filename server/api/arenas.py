"""Arenas: where the threads of the API process take memory from."""

import ctypes
import sys

ARENAS = 2
_M_ARENA_MAX = -8  # of glibc's malloc.h


def share_arenas() -> None:
    """Let the threads that are started from now on share few arenas of glibc's allocator.

    With one arena for each thread, each keeps the most that its thread ever needed at once, so that
    the process grows for hours while it holds nothing. Other allocators are left as they are.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
