"""The hand that kills: a worker, the API, Postgres, or a worker put to sleep past its lease."""

import contextlib
import random
import signal
import time
from collections import Counter

import psutil

from benchmarks.fleet import Fleet
from benchmarks.postgres import Cluster

_PAUSE_SECONDS = (1.0, 6.0)  # between two deeds
_SLEEP_SECONDS = (2.0, 12.0)  # of a worker that is stopped: some outlast their lease of 6 s
_WEIGHTS = {"worker": 10, "api": 3, "sleep": 3, "postgres": 2}


class Monkey:
    """Does one thing at a time, chosen by chance."""

    def __init__(self, fleet: Fleet, cluster: Cluster | None, chance: random.Random) -> None:
        self.kills: Counter[str] = Counter()
        self._fleet = fleet
        self._cluster = cluster
        self._chance = chance
        self._asleep: dict[int, float] = {}  # worker -> when it is woken

    def turn(self) -> None:
        """Wait a little, and do something."""
        until = time.monotonic() + self._chance.uniform(*_PAUSE_SECONDS)
        while time.monotonic() < until:
            self.keep_alive()
            time.sleep(0.2)
        deeds = {name: w for name, w in _WEIGHTS.items() if name != "postgres" or self._cluster}
        deed = self._chance.choices(list(deeds), list(deeds.values()))[0]
        worker = self._chance.choice(list(self._fleet.workers))
        if deed == "worker":
            self._fleet.workers[worker].kill()
        elif deed == "api":
            if not self._kill_api():
                return
        elif deed == "sleep":
            self._fleet.workers[worker].send_signal(signal.SIGSTOP)
            self._asleep[worker] = time.monotonic() + self._chance.uniform(*_SLEEP_SECONDS)
        elif self._cluster is not None:
            self._cluster.stop("immediate")
            time.sleep(self._chance.uniform(0, 3))
            self._cluster.start()
        self.kills[deed] += 1

    def _kill_api(self) -> bool:
        """Kill the API if it answers; one that still starts has nothing to lose."""
        try:
            self._fleet.call("GET", "/livez")
            process = self._fleet.api_process()
            if process is not None:
                process.kill()
        except (OSError, ValueError, psutil.NoSuchProcess):
            return False
        return process is not None

    def keep_alive(self) -> None:
        """Start anew what has ended, and wake what has slept enough."""
        now = time.monotonic()
        for number, until in list(self._asleep.items()):
            if now >= until:
                self._wake(number)
        for number, worker in list(self._fleet.workers.items()):
            if worker.poll() is not None:
                self._asleep.pop(number, None)
                self._fleet.start_worker(number)

    def rest(self) -> None:
        """Wake everyone; nothing is killed any more."""
        for number in list(self._asleep):
            self._wake(number)

    def _wake(self, number: int) -> None:
        del self._asleep[number]
        with contextlib.suppress(ProcessLookupError):
            self._fleet.workers[number].send_signal(signal.SIGCONT)
