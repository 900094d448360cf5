"""A shop floor for tests: jobs for the fake renderer, and workers in this process or in others."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from server.database import Database
from server.queue import fleet
from server.queue.claim import claim
from server.queue.events import after
from server.queue.job import Job
from server.queue.jobs import Jobs
from server.queue.new_job import NewJob
from server.queue.tenants import ensure
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import open_store
from server.worker.runner import Runner, Shop
from tests.server.conftest import url_of
from tests.server.fake import FakeRenderer

ROOT = Path(__file__).parents[3]
EVENTUALLY = 120.0  # no test waits for so long unless it fails


class Floor:
    """One database, home and store."""

    def __init__(self, db: Database, home: Path, **settings: Any) -> None:
        asked = {
            "database": url_of(db),
            "poll_seconds": 0.05,
            "stop_poll_seconds": 0.05,
            "heartbeat_seconds": 0.3,
            "lease_seconds": 2.0,
            "disk_reserve_mib": 0,
            **settings,
        }
        self.db = db
        self.home = home
        self.settings = ServerSettings.model_validate(asked).with_home(home)
        self.jobs = Jobs(db, self.settings)
        self.store = open_store(self.settings)
        self.calls_file = home / "calls"
        self.home.mkdir(exist_ok=True)

    def job(self, prompt: str = "a ball", clips: int = 1, **more: Any) -> Job:
        """Put a job into the queue."""
        ensure(self.db, "one")
        values: dict[str, Any] = {
            "kind": "clip" if clips == 1 else "chain",
            "model": "fake",
            "tokens": 10,
            "cost_seconds": float(clips),
            "device_bytes": 1,
            "disk_bytes": 1,
            "pool": "default",
            "payload": {"request": {"prompt": prompt}},
            "decided": {"seed": 7},
        }
        new = NewJob(tenant="one", clips=clips, **{**values, **more})
        return self.jobs.create(new)[0]

    def get(self, job: Job) -> Job:
        """Read a job anew."""
        return self.jobs.get(job.id, None)

    def events(self, job: Job, kind: str | None = None) -> list[dict[str, Any]]:
        """Return what was told of a job."""
        found = after(self.db, job.id, 0)
        return [event.data for event in found if kind in (None, event.type)]

    def calls(self, what: str = "begin", job: Job | None = None) -> list[dict[str, Any]]:
        """Return the calls of the fake renderer, in any process."""
        if not self.calls_file.is_file():
            return []
        found = [json.loads(line) for line in self.calls_file.read_text().splitlines()]
        return [
            call for call in found
            if call["what"] == what and (job is None or call["job"] == job.id)
        ]  # fmt: skip

    # In this process

    def claimed(self, name: str = "host:cpu-0:a", renderer: Any = None) -> Runner | None:
        """Claim a job for a worker of this process."""
        renderer = renderer or FakeRenderer()
        if not any(worker.id == name for worker in fleet.list_workers(self.db)):
            import dataclasses

            profile = dataclasses.asdict(renderer.profile)
            fleet.register(self.db, fleet.Worker(
                id=name, host="host", pid=1, device=name, profile=profile, pool="default",
                free_bytes=8 << 30, version="0", state="idle"))  # fmt: skip
        held = claim(self.db, self.settings, name)
        if held is None:
            return None

        def step(_name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
            return work()

        def stuck(why: str) -> None:
            raise AssertionError(why)

        shop = Shop(self.db, self.settings, self.store, renderer, step, stuck)
        return Runner(shop, held)

    def work(self, name: str = "host:cpu-0:a", renderer: Any = None) -> None:
        """Claim a job and do it."""
        runner = self.claimed(name, renderer)
        assert runner is not None
        runner.run()

    # In others

    @contextlib.contextmanager
    def worker(self, number: int = 0, **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker process; it is killed at the end if it still lives."""
        told = self.settings.model_dump() | settings
        command = [sys.executable, "-m", "server.worker", "--home", str(self.home),
                   "--device", f"cpu:{number}", "--renderer", "tests.server.fake:make"]  # fmt: skip
        for name in ("database", "poll_seconds", "stop_poll_seconds", "heartbeat_seconds",
                     "lease_seconds", "drain_seconds", "watchdog_seconds", "watchdog_factor",
                     "max_collapses", "max_losses", "tracing"):  # fmt: skip
            command += ["--set", f"{name}={told[name]}"]
        environ = {**os.environ, "VIDGEN_FAKE_CALLS": str(self.calls_file), "OMP_NUM_THREADS": "1"}
        with (self.home / f"worker-{number}.log").open("ab") as out:
            process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=out)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a process with SIGSTOP, not in the middle of a transaction.

        In a SQLite file a frozen writer keeps all others out for as long as it is frozen.
        """
        while True:
            process.send_signal(signal.SIGSTOP)
            if not self.db.is_sqlite:
                return
            with contextlib.closing(sqlite3.connect(str(self.db.url.database))) as probe:
                probe.execute("PRAGMA busy_timeout=500")
                with contextlib.suppress(sqlite3.OperationalError):
                    probe.execute("BEGIN IMMEDIATE")
                    return
            process.send_signal(signal.SIGCONT)
            time.sleep(0.05)

    def log(self, number: int = 0) -> str:
        """Return what a worker process said."""
        return (self.home / f"worker-{number}.log").read_text()

    def until(self, holds: Callable[[], Any], what: str = "") -> Any:
        """Wait until something holds; fail when it never does."""
        end = time.monotonic() + EVENTUALLY
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.02)
        logs = "\n".join(path.read_text()[-3000:] for path in self.home.glob("worker-*.log"))
        states = [(job.id, job.state, job.hold_reason) for job in self.jobs.page(None).jobs]
        raise AssertionError(f"{what or holds} did not come to be\n{states}\n{logs}")

    def ended(self, job: Job) -> Job:
        """Wait until a job has ended."""
        self.until(lambda: self.get(job).state in TERMINAL, f"the end of {job.id}")
        return self.get(job)
