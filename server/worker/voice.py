"""Voice: tells the database how a job goes, from a thread of its own.

The run only leaves its newest step here, so that a slow or absent database holds up no step. At
most two events a second are written, and a preview every two seconds.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from server.problems import Problem
from server.queue.held import Held, LeaseLost
from server.store.store import Store
from server.worker.previews import moving_picture
from server.worker.progress import Progress, Reading
from server.worker.stop import Stop
from server.worker.watcher import Beat
from vidgen.events import Event, Preview
from vidgen.events import Progress as Step

EVENT_SECONDS = 0.5
PREVIEW_SECONDS = 2.0
log = logging.getLogger(__name__)


class Voice:
    """One job's; used as a context manager around the work."""

    def __init__(
        self,
        held: Held,
        progress: Progress,
        beat: Beat,
        stop: Stop,
        store: Store,
        *,
        previews: bool,
    ) -> None:
        self.progress = progress
        self._beat = beat
        self._held = held
        self._stop = stop
        self._store = store
        self._previews = previews
        self._reading: Reading | None = None
        self._preview: Preview | None = None
        self._preview_at = -PREVIEW_SECONDS
        self.left: float | None = None  # seconds until the job ends, once that is known
        self._told = Reading("load", 0, 1, progress.percent, 0.0)
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._talk, name="voice", daemon=True)

    def __enter__(self) -> "Voice":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._quit.set()
        self._thread.join()

    def of_clip(self, idx: int, begins: Callable[[], None]) -> Callable[[Event], None]:
        """Return the callback for one clip.

        begins  called once, before the first step
        """
        cost = self.progress.predicted(idx)
        begun = False

        def hear(event: Event) -> None:
            nonlocal begun
            if not begun:
                begun = True
                self._beat.begin()
                begins()
            if isinstance(event, Preview):
                self._preview = event
                return
            self._beat.move(_step_seconds(cost, event))
            if event.stage in cost:
                self._set(self.progress.at(idx, event.stage, event.done, event.total))

        return hear

    def writing(self, step: int, steps: int) -> None:
        """Say that some of the files of the whole are written."""
        self._beat.move(self.progress.longest_write())
        self._set(self.progress.writing(step, steps))

    def _set(self, reading: Reading) -> None:
        self._reading, self.left = reading, reading.left

    def _talk(self) -> None:
        while not self._quit.wait(EVENT_SECONDS):
            try:
                self._tell()
            except LeaseLost:
                self._stop.ask("lost")
                return
            except (SQLAlchemyError, Problem) as error:
                log.warning("%s: progress was not told (%s)", self._held.claimed.id, error)

    def _tell(self) -> None:
        reading, self._reading = self._reading, None
        shown = self._show()
        if reading is None and shown is None:
            return
        self._told = reading = reading or self._told
        self._held.progress(
            reading.phase,
            reading.step,
            reading.steps,
            reading.percent,
            time.time() + reading.left,
            preview_event=shown,
        )

    def _show(self) -> dict[str, Any] | None:
        """Store the newest preview and return what its event says, at most every two seconds."""
        preview = self._preview
        now = time.monotonic()
        if preview is None or not self._previews or now - self._preview_at < PREVIEW_SECONDS:
            return None
        self._preview, self._preview_at = None, now
        key = f"{preview_prefix(self._held.claimed.id)}newest.webp"
        facts = self._store.put_bytes(key, moving_picture(preview.frames))
        return {**facts.as_dict(), "step": preview.step, "steps": preview.total}


def preview_prefix(job_id: str) -> str:
    """Return where a job's preview is in the store; each replaces the one before."""
    return f"jobs/{job_id}/preview/"


def _step_seconds(cost: Mapping[str, float], event: Step) -> float:
    """Return how long the step after this one is predicted to take."""
    if event.done < event.total:
        return cost.get(event.stage, 0.0) / event.total
    if event.stage == "denoise":
        return cost["decode"]
    # After the prompt, whatever else conditions the clip comes before the first step.
    return cost["condition"] + cost["denoise"]
