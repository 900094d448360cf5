"""Supervisor: starts the API and the workers of one machine, restarts what crashes, drains all."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from chaining.files import Busy
from server.worker.stop import EXIT_STUCK
from vidgen.errors import BadRequest, DoesNotFit, NotFound, VidgenError

log = logging.getLogger("vidgen.server")

BACKOFF_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEADY_SECONDS = 60.0  # of life after which earlier crashes no longer count
LOOK_SECONDS = 0.1
_DRAINING = (
    b"Draining: running clips may end; a second signal kills all at once, and those clips are lost"
    b" (their jobs go on from the last finished one).\n"
)
_FROM_OUTSIDE = (0, -signal.SIGKILL, -signal.SIGTERM)  # how a process ends that somebody ended
_CLASSES = {kind.exit_code: kind for kind in (BadRequest, NotFound, DoesNotFit, Busy)}


@dataclass(slots=True)
class Child:
    """One process that is kept running.

    order    what `server.cli.child` is told
    environ  added to the environment
    up       whether it was ever ready: from then on its end is a crash, before it is a refusal
    """

    name: str
    order: dict[str, Any]
    environ: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    began: float = 0.0
    up: bool = False
    crashes: int = 0
    due: float | None = None

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start its process, in a group of its own: Ctrl-C is the supervisor's to pass on."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "server.cli.child", self.name],
                stdin=theirs.fileno(),
                env={**os.environ, **self.environ},
                start_new_session=True,
            )
        ours.sendall(json.dumps(self.order).encode() + b"\n")
        ours.setblocking(False)
        self.channel, self.began, self.due = ours, time.monotonic(), None

    def said(self) -> list[dict[str, Any]]:
        """Return what it has told since the last look."""
        if self.channel is None:
            return []
        try:
            found = self.channel.recv(1 << 20)
        except (BlockingIOError, ConnectionResetError):
            return []
        return [json.loads(line) for line in found.splitlines()]

    def close(self) -> None:
        """Let go of its channel, which it has ended."""
        if self.channel is not None:
            self.channel.close()
        self.channel = None

    def signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        if self.process is not None and self.alive:
            self.process.send_signal(number)


class Supervisor:
    """One API process and any number of workers."""

    def __init__(self, api: Child, workers: Sequence[Child]) -> None:
        self._api = api
        self._workers = list(workers)
        self._signals = 0

    def run(self, on_listening: Callable[[str], None]) -> int:
        """Run until told to end; return the exit code.

        on_listening  called once, with the address, before the workers are started
        Raises        VidgenError when a child refuses to start
        """
        with self._listening_to_signals():
            try:
                self._api.start()
                self._keep(on_listening)
                return self._drain()
            finally:
                self._kill()

    def _keep(self, on_listening: Callable[[str], None]) -> None:
        """Keep all running until the first signal."""
        while not self._signals:
            for child in (self._api, *(self._workers if self._api.up else ())):
                ended = not child.alive  # before it is heard: what ends has said all
                self._hear(child, on_listening)
                if ended:
                    self._look_after(child)
            time.sleep(LOOK_SECONDS)

    def _hear(self, child: Child, on_listening: Callable[[str], None]) -> None:
        """Take in what a child has told since the last look."""
        for message in child.said():
            if "error" in message:
                _refused(child, message["error"])
            elif not child.up:
                child.up = True
                if "listening" in message:
                    self._settle_port(message["listening"])
                    on_listening(message["listening"])

    def _settle_port(self, address: str) -> None:
        """Have a restarted API take the port that the first one was given."""
        self._api.order["settings"]["port"] = int(address.rsplit(":", 1)[1])

    def _look_after(self, child: Child) -> None:
        """Start a child that does not run when it is its time.

        Raises  VidgenError for one that has ended before it was ever ready
        """
        now = time.monotonic()
        if child.process is not None and child.due is None:
            _check_end(child, child.process.returncode)
            child.due = now + self._wait_of(child, child.process.returncode, now)
        if child.due is None or now >= child.due:
            child.close()
            child.start()

    def _wait_of(self, child: Child, code: int, now: float) -> float:
        """Return how long to wait before a child that has ended is started again."""
        if now - child.began >= STEADY_SECONDS:
            child.crashes = 0
        if code == EXIT_STUCK:
            log.warning("%s was stuck and is started anew", child.name)
            return 0.0
        wait = BACKOFF_SECONDS[min(child.crashes, len(BACKOFF_SECONDS) - 1)]
        child.crashes += 1
        log.warning("%s ended with %s; it is started anew in %g s", child.name, _how(code), wait)
        return wait

    def _drain(self) -> int:
        """Let workers finish or hand back their jobs, and then the API end; twice: at once."""
        for children in (self._workers, [self._api]):
            for child in children:
                child.signal(signal.SIGTERM)
            while any(child.alive for child in children):
                if self._signals > 1:
                    return 130
                time.sleep(LOOK_SECONDS)
        return 0

    def _kill(self) -> None:
        for child in (*self._workers, self._api):
            child.signal(signal.SIGKILL)
            if child.process is not None:
                child.process.wait()
            child.close()

    @contextmanager
    def _listening_to_signals(self) -> Iterator[None]:
        def count(_number: int, _frame: FrameType | None) -> None:
            self._signals += 1
            if self._signals == 1:
                os.write(2, _DRAINING)

        kept = {number: signal.signal(number, count) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)


def _refused(child: Child, error: Mapping[str, Any]) -> None:
    """Raise what a child refused to start with; what it says later is logged."""
    if child.up:
        log.error("%s: %s", child.name, error["message"])
        return
    kind = _CLASSES.get(error["exit_code"], VidgenError)
    raise kind(error["message"], code=error["code"], field=error.get("param"))


def _check_end(child: Child, code: int) -> None:
    """Raise VidgenError for a child that would end in the same way each time it is started."""
    if not child.up and code not in _FROM_OUTSIDE:
        raise VidgenError(
            f"{child.name} ended with {_how(code)} before it was ready; its log above says why."
        )


def _how(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
