"""Background: what is done again and again beside the requests; safe with several replicas."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from server.api.erasing import erase_stopped
from server.api.services import Services
from server.keeping import sweep
from server.queue.fleet import expire, reap
from server.webhooks.deliver import deliver_due

log = logging.getLogger("vidgen.server")

REAP_SECONDS = 1.0
ERASE_SECONDS = 1.0
DELIVER_SECONDS = 1.0
JITTER = 0.2  # share by which a pause is longer or shorter, so that replicas do not march in step


@dataclass(frozen=True, slots=True)
class Loop:
    """Something done every so many seconds."""

    name: str
    seconds: float
    turn: Callable[[], None]


class Background:
    """Threads that each take turns at one loop; a turn that fails does not end it."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start all loops."""
        for loop in self._loops():
            thread = threading.Thread(target=self._run, args=(loop,), name=loop.name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End all loops after the turns that they are at."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _loops(self) -> tuple[Loop, ...]:
        settings = self._services.settings
        return (
            Loop("reap", REAP_SECONDS, self._reap),
            Loop("erase", ERASE_SECONDS, self._erase),
            Loop("deliver", DELIVER_SECONDS, self._deliver),
            Loop("sweep", settings.sweep_seconds, self._sweep),
        )

    def _run(self, loop: Loop) -> None:
        while not self._stopped.is_set():
            good = True
            try:
                loop.turn()
            except Exception:
                good = False
                log.exception("the loop %s failed and tries again", loop.name)
            self._services.counters.turned(loop.name, good=good)
            self._stopped.wait(loop.seconds * random.uniform(1 - JITTER, 1 + JITTER))

    def _reap(self) -> None:
        found = self._services
        taken = reap(found.database, found.settings, found.clock)
        if taken:
            log.warning("taken from silent workers: %s", ", ".join(taken))
        expire(found.database, found.clock)

    def _erase(self) -> None:
        """Apart from the others: a slow store keeps no job from being taken over."""
        found = self._services
        erase_stopped(found.database, found.store, found.settings, found.clock)

    def _deliver(self) -> None:
        found = self._services
        while tried := deliver_due(found.database, found.settings, found.clock):
            found.counters.webhooks_sent(tried)
            if self._stopped.is_set():
                return

    def _sweep(self) -> None:
        found = self._services
        sweep(found.database, found.store, found.settings, found.clock)
