"""Devices: for which device a request is planned here, where no device is."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server.database import Database
from server.queue.fleet import Worker, list_workers
from vidgen.device import DeviceProfile, parse_profile, this_machine
from vidgen.models import Model, known_names, resolve

FRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device that could run a job; live: a worker has it now."""

    profile: DeviceProfile
    live: bool


class Devices:
    """Profiles of the live workers, read anew every two seconds, and known models."""

    def __init__(
        self, database: Database, home: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._stored = home / "device.json"
        self._clock = clock
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._read_at = -FRESH_SECONDS
        self._own: DeviceProfile | None = None
        self._models: dict[str, Model] = {}

    def candidates(self, pool: str, tenant: str, model: str) -> list[Candidate]:
        """Return the devices to plan for, the fastest first; without a worker this machine's."""
        fitting: dict[str, DeviceProfile] = {}
        for worker in self._fresh():
            if worker.serves(pool, tenant, model):
                fitting.setdefault(worker.profile["name"], parse_profile(worker.profile))
        found = sorted(fitting.values(), key=lambda item: -item.rates.linear)
        return [Candidate(item, True) for item in found] or [Candidate(self._machine(), False)]

    def model(self, name: str) -> Model:
        """Return a model; those with a name are read once.

        Raises  NotFound, Unsupported
        """
        found = self._models.get(name)
        if found is None:
            found = resolve(name)
            if name in known_names():
                self._models[name] = found
        return found

    def _fresh(self) -> list[Worker]:
        with self._lock:
            if self._clock() - self._read_at >= FRESH_SECONDS:
                self._workers = list_workers(self._database)
                self._read_at = self._clock()
            return self._workers

    def _machine(self) -> DeviceProfile:
        with self._lock:
            if self._own is None:
                self._own = this_machine(self._stored)
            return self._own
