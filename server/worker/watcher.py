"""Watcher: the thread that sees, while a job runs, whether it shall stop or has got stuck."""

import logging
import threading
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from server.queue.held import Held
from server.settings import ServerSettings
from server.worker.stop import Reason, Stop

LOADING = 10  # times watchdog_seconds that a job may take before its first step
log = logging.getLogger(__name__)
ORDERS: dict[str, Reason] = {
    "cancel": "cancel",
    "delete": "delete",
    "deadline": "deadline",
    "pause": "pause",
}


class Beat:
    """When the run that goes on here last did a step, told by it and read by the watcher.

    began_at    time of its first step, None before
    clip_began  monotonic time of the first step of the clip that is being made
    predicted   seconds that its next step may take
    """

    def __init__(self) -> None:
        self.began_at: float | None = None
        self.clip_began: float | None = None
        self.moved_at = time.monotonic()
        self.predicted = 0.0

    def begin(self) -> None:
        """Note the first step of a clip."""
        self.began_at = self.began_at or time.time()
        self.clip_began = time.monotonic()

    def clip_seconds(self) -> float:
        """Return how long the clip that is being made has taken, 0 when there is none."""
        return 0.0 if self.clip_began is None else time.monotonic() - self.clip_began

    def still_seconds(self) -> float:
        """Return how long ago the last step was done."""
        return time.monotonic() - self.moved_at

    def move(self, predicted: float = 0.0) -> None:
        """Note a step."""
        self.moved_at = time.monotonic()
        self.predicted = predicted


class Watcher:
    """One job's; used as a context manager around the work."""

    def __init__(
        self,
        held: Held,
        stop: Stop,
        beat: Beat,
        settings: ServerSettings,
        stuck: Callable[[str], None],
    ) -> None:
        """Prepare.

        stuck  called with a sentence when the run does no step for far longer than predicted; it
               ends the process, since no thread can end another
        """
        self._held = held
        self._stop = stop
        self._beat = beat
        self._settings = settings
        self._stuck = stuck
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._quit.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._quit.wait(self._settings.stop_poll_seconds):
            self._look_at_clock()
            try:
                orders = self._held.orders()
            except SQLAlchemyError as error:
                # An absent database orders nothing. If the lease runs out meanwhile and another
                # worker takes the job, the first look afterwards says so.
                log.warning("%s: no orders could be read (%s)", self._held.claimed.id, error)
                continue
            if orders.lost:
                self._stop.ask("lost")
            elif orders.stop is not None:
                self._stop.ask(ORDERS[orders.stop])

    def _look_at_clock(self) -> None:
        limit = self._held.claimed.run_limit_seconds
        began = self._held.claimed.started_at or self._beat.began_at
        if limit is not None and began is not None and time.time() - began > limit:
            self._stop.ask("deadline")
        still = self._beat.still_seconds()
        if still > self._patience():
            self._stuck(
                f"{self._held.claimed.id} has done no step for {still:.0f} s, "
                f"{self._beat.predicted:.1f} s were predicted."
            )

    def _patience(self) -> float:
        """Return how long the run may be without a step."""
        least = self._settings.watchdog_seconds
        if self._beat.began_at is None:
            return LOADING * least
        return max(least, self._settings.watchdog_factor * self._beat.predicted)
