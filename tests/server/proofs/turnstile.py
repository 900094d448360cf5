"""A renderer without a model whose clips stop half made: `tests.server.proofs.turnstile:make`.

It is the one of `tests.server.fake`, but each clip of a chain whose title is a number N stops
after its first step until `let_through(home, N, clip)` was called.
"""

import time
from pathlib import Path
from typing import Any

from server.queue.job import Job
from server.worker.session import Attempt, ClipMade
from tests.server.fake import FakeRenderer, FakeSession
from vidgen.events import Callback, CancelToken, Event, Progress


def let_through(home: Path, turn: int, clip: int) -> None:
    """Let a clip be made to its end."""
    _gate(home, str(turn), clip).touch()


def _gate(home: Path, turn: str, clip: int) -> Path:
    return home / f"turn-{turn}-{clip}"


def make(device: str, home: Path) -> "TurnstileRenderer":
    """Return a renderer, as the worker asks for it."""
    assert device == "cpu"
    return TurnstileRenderer(home)


class TurnstileRenderer(FakeRenderer):
    """Makes plain pictures, each clip in its turn."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.home = home

    def open(self, job: Job, payload: dict[str, Any], folder: Path) -> FakeSession:
        """Begin or go on with a job."""
        prompt = " ".join(shot["prompt"] for shot in payload["story"]["shots"])
        return TurnstileSession(job, prompt, folder, self.home)


class TurnstileSession(FakeSession):
    """One chain."""

    def __init__(self, job: Job, prompt: str, folder: Path, home: Path) -> None:
        super().__init__(job, prompt, folder, home)
        self._turn = job.title
        self._home = home

    def make(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> ClipMade:
        """Make a clip; it stops after its first step for as long as it must."""

        def hear(event: Event) -> None:
            on(event)
            if self._turn and isinstance(event, Progress) and event.stage == "denoise":
                while not _gate(self._home, self._turn, idx).exists():
                    cancel.check("in its turn")
                    time.sleep(0.02)

        return super().make(idx, attempt, hear, cancel)
