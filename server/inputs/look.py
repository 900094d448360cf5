"""Facts of a file that a client sent, found by a child process that may die of it."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from server.inputs.sniff import Kind
from server.problems import Problem

MEMORY_BYTES = 2 << 30
SECONDS = 20
WAIT_SECONDS = 10  # for others' files: whoever waits holds a thread of the API
_START_SECONDS = 120  # of a slow disk and a busy machine
_DEAD_SECONDS = 1  # to notice; whoever dies later died of the file
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG", "LC_ALL")
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a picture or video is.

    kind           image also for an animated one, whose frames are more than 1
    width, height  as shown, after rotation
    fps            of a video, e.g. "24" or "24000/1001"
    recipe         text of the recipe inside it, which says how it was made
    """

    kind: Kind
    media_type: str
    width: int
    height: int
    frames: int
    fps: str | None
    recipe: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the facts JSON-ready; a recipe stands there only where the file has one."""
        return {name: value for name, value in asdict(self).items() if name != "recipe" or value}


class Looker:
    """Keeps one child process, so that a look costs milliseconds; threads take turns.

    seconds       longest look, by the clock and in computing
    memory_bytes  that the child may take beyond what it has when it starts
    """

    def __init__(self, *, seconds: int = SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def look(self, path: Path, name: str, max_pixels: int) -> Facts:
        """Return the facts of a file.

        name        for messages
        max_pixels  bound on width * height, looked at before anything is decoded
        Raises      Problem unsupported_media or input_too_large; unavailable when others' files
                    take long
        """
        asked = {"path": str(path.absolute()), "name": name, "max_pixels": max_pixels}
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise Problem(
                "unavailable",
                f"Other files have been opened for {WAIT_SECONDS} s; try again.",
                headers={"Retry-After": "5"},
            )
        try:
            found = self._ask(json.dumps(asked).encode() + b"\n")
        finally:
            self._lock.release()
        if found is None:
            raise Problem(
                "unsupported_media",
                f"{name} is not read: opening it takes more than {self._seconds} s or "
                f"{self._memory_bytes >> 20} MiB; save it anew in a common format.",
            )
        if "refused" in found:
            raise Problem(found["refused"], found["message"])
        return Facts(**found["facts"])

    def start(self) -> None:
        """Start the child now, so that the first look finds it warm."""
        with self._lock:
            self._running()

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _ask(self, line: bytes) -> dict[str, Any] | None:
        """Return the child's answer, None if it gave none in time or died of the file.

        A child that is dead at once may have been so before, so a second one is asked.
        """
        for _try in range(2):
            began = time.monotonic()
            found = self._ask_once(line)
            if found is not None:
                return found
            if time.monotonic() - began > _DEAD_SECONDS:
                break
        return None

    def _ask_once(self, line: bytes) -> dict[str, Any] | None:
        child = self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(line)
            child.stdin.flush()
            reply = _read_line(child.stdout.fileno(), time.monotonic() + self._seconds + 1)
        except BrokenPipeError:
            reply = b""
        found: dict[str, Any] | None = json.loads(reply) if reply.endswith(b"\n") else None
        if found is None or found["last"]:
            self._end()
        return found

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        numbers = [str(self._memory_bytes), str(self._seconds)]
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        child = self._child = subprocess.Popen(
            [sys.executable, "-m", "server.inputs.child", *numbers],
            cwd=_ROOT,
            env=passed_on | one_thread,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdout is not None
        if _read_line(child.stdout.fileno(), time.monotonic() + _START_SECONDS) != b"ready\n":
            self._end()
            raise Problem("unavailable", "The process that opens inputs does not start; try later.")
        return child

    def _end(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._child = None


def _read_line(handle: int, until: float) -> bytes:
    """Return what comes up to the end of a line, of the pipe, or of the time."""
    reply = b""
    with selectors.DefaultSelector() as selector:
        selector.register(handle, selectors.EVENT_READ)
        while not reply.endswith(b"\n"):
            if not selector.select(max(0.0, until - time.monotonic())):
                break
            piece = os.read(handle, 65536)
            if not piece:
                break
            reply += piece
    return reply
