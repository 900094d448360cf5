"""Ctrl-C: the first one asks the run to stop after its step, the second one aborts at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from vidgen.events import CancelToken


@contextmanager
def stoppable(*, speak: bool) -> Iterator[CancelToken]:
    """Have Ctrl-C and a polite kill (SIGTERM) raise the token while the block runs.

    speak  say on stderr what the first one does
    """
    cancel = CancelToken()
    if threading.current_thread() is not threading.main_thread():
        yield cancel
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        if cancel.cancelled:
            raise KeyboardInterrupt
        cancel.cancel()
        if speak:  # straight to the descriptor: the buffered stream may be in use right now
            os.write(2, b"\nStopping after this step; Ctrl-C again aborts at once.\n")

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
