"""Jobs, workers and clips for the tests of the queue."""

from typing import Any

from server.database import Database
from server.problems import Problem
from server.queue import fleet, tenants
from server.queue.claim import claim
from server.queue.held import Held
from server.queue.job import ClipRow, Job
from server.queue.jobs import Jobs
from server.queue.new_job import NewJob
from server.queue.worker import Worker
from server.settings import ServerSettings
from server.states import JobState
from tests.server.conftest import Clock

GIB = 1024**3


def new_job(tenant: str = "a", **changes: Any) -> NewJob:
    """Return a request for a job: one clip of 10 s in the default pool."""
    values: dict[str, Any] = {
        "tenant": tenant,
        "kind": "clip",
        "model": "toyworld",
        "tokens": 1000,
        "cost_seconds": 10.0,
        "device_bytes": GIB,
        "disk_bytes": 1000,
        "pool": "default",
        "payload": {"request": {"prompt": "a red ball"}},
        "search": "a red ball",
    }
    return NewJob(**(values | changes))


def worker(id: str = "w1", **changes: Any) -> Worker:
    """Return a worker with 8 GiB on a device of its own."""
    values: dict[str, Any] = {
        "id": id,
        "host": "host",
        "pid": 1,
        "device": f"gpu-{id}",
        "profile": {"name": "cpu", "memory_bytes": 8 * GIB},
        "pool": "default",
        "free_bytes": 8 * GIB,
        "version": "1",
        "state": "idle",
    }
    return Worker(**(values | changes))


class Scene:
    """A database with tenants a and b, the jobs in it, and a clock for all."""

    def __init__(self, db: Database, clock: Clock, **settings: Any) -> None:
        self.db = db
        self.clock = clock
        self.settings = ServerSettings(**settings)
        self.jobs = Jobs(db, self.settings, clock, lambda _: None)
        for tenant in ("a", "b"):
            tenants.ensure(db, tenant, clock)

    def work(self, id: str = "w1", **changes: Any) -> Worker:
        """Let a worker begin to work."""
        return fleet.register(self.db, worker(id, **changes), self.clock)

    def ask(self, tenant: str = "a", **changes: Any) -> Job:
        """Create a job."""
        return self.jobs.create(new_job(tenant, **changes))[0]

    def claim(self, id: str = "w1") -> Held:
        """Claim a job, which must be there."""
        held = claim(self.db, self.settings, id, self.clock)
        assert held is not None
        return held

    def none_for(self, id: str = "w1") -> bool:
        """Whether a worker gets no job."""
        return claim(self.db, self.settings, id, self.clock) is None

    def beat(self, id: str, held: Held | None = None, **changes: Any) -> None:
        """Let a worker say that it lives."""
        values: dict[str, Any] = {
            "state": "idle" if held is None else "busy",
            "job_id": None if held is None else held.claimed.id,
            "epoch": None if held is None else held.epoch,
            "free_bytes": 8 * GIB,
            "warm": {},
            "clock": self.clock,
        }
        fleet.heartbeat(self.db, self.settings, id, **(values | changes))

    def reap(self) -> list[str]:
        """Take jobs from silent workers."""
        return fleet.reap(self.db, self.settings, self.clock)

    def expire(self) -> list[str]:
        """End what is over its time."""
        return fleet.expire(self.db, self.clock)

    def state(self, job: Job) -> JobState:
        """Return the state that a job is in now."""
        return self.jobs.get(job.id, None).state


def clip_row(held: Held, idx: int, seconds: float = 4.0, **changes: Any) -> ClipRow:
    """Return a finished clip of a held job."""
    values: dict[str, Any] = {
        "job_id": held.claimed.id,
        "idx": idx,
        "attempt": 0,
        "seed": 7 + idx,
        "num_frames": 16,
        "sha256": f"{idx:064x}",
        "worker": held.owner,
        "epoch": held.epoch,
        "seconds": seconds,
        "artifacts": {},
        "metrics": {},
        "finished_at": held.clock(),
    }
    return ClipRow(**(values | changes))


def end_at_once(held: Held, seconds: float) -> Job:
    """End a held job with a failure that its tenant has no part in, after so many seconds."""
    error = Problem("internal", "It was ended by a test.").as_dict()
    return held.finish(JobState.FAILED, usage={"gpu_seconds": seconds}, error=error)


def run_through(held: Held, seconds: float | None = None) -> Job:
    """Make all clips of a held job that are missing, and complete it."""
    held.move(JobState.RUNNING)
    each = held.claimed.remaining_seconds / held.claimed.clips if seconds is None else seconds
    for idx in range(held.claimed.clips_completed, held.claimed.clips):
        held.clip_done(clip_row(held, idx, each))
    held.move(JobState.FINALIZING)
    return held.finish(JobState.COMPLETED)


def served(scene: Scene, number: int, worker: str = "w1") -> list[str]:
    """Let a worker make jobs, one after the other; return their ids."""
    made = []
    for _ in range(number):
        held = scene.claim(worker)
        made.append(held.claimed.id)
        end_at_once(held, held.claimed.cost_seconds)
        scene.beat(worker)
    return made
