"""Ending a process without taking its modules apart."""

import atexit
import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

_UNFLUSHED = 120  # Python's own exit code for output that nobody took


def run_and_leave(main: Callable[[], int]) -> NoReturn:
    """Run a program's main function, and end the process with the exit code that it returns.

    Once torch is loaded, the interpreter takes seconds to take all modules apart, for nothing. Here
    threads are waited for and exit handlers run as ever, and then the process just ends. Call it
    before anything registers exit handlers: those of before do not run.
    """
    code = 1

    def leave() -> None:
        left = code
        for stream in (sys.stdout, sys.stderr):
            if stream is None or stream.closed:
                continue
            try:
                stream.flush()
            except OSError:  # its reader has gone, or the disk is full
                left = left or _UNFLUSHED
        os._exit(left)

    atexit.register(leave)  # the first that is registered runs last
    try:
        code = main()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        raise
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    sys.exit(code)
