"""Fleet: the workers, as they say of themselves; a silent one loses its job."""

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import and_, insert, select, update

from server.database.open import Database
from server.database.tables import jobs, workers
from server.queue.held import LeaseLost
from server.queue.holds import no_fit, rehold
from server.queue.reaping import expire, reap, take_away
from server.queue.rows import among
from server.queue.worker import LIVE, Needs, Worker
from server.settings import ServerSettings
from server.states import LEASED

__all__ = [
    "Worker",
    "expire",
    "fits",
    "heartbeat",
    "list_workers",
    "reap",
    "register",
    "rehold",
    "retire",
]


def register(db: Database, worker: Worker, clock: Callable[[], float] = time.time) -> Worker:
    """Make a new worker known; jobs that waited for one like it are freed.

    worker.state  starting or idle; its times are set here
    """
    now = clock()
    known = replace(worker, started_at=now, heartbeat_at=now)
    with db.write() as connection:
        connection.execute(insert(workers).values(asdict(known)))
    rehold(db, clock)
    return known


def heartbeat(
    db: Database,
    settings: ServerSettings,
    worker_id: str,
    *,
    state: str,
    job_id: str | None = None,
    epoch: int | None = None,
    free_bytes: int,
    warm: dict[str, Any],
    step_at: float | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Say that a worker lives, and keep its lease on the job that it has.

    Raises  LeaseLost when it no longer has that job (the worker is noted as alive all the same)
    """
    now = clock()
    kept = True
    with db.write() as connection:
        if job_id is not None:
            mine = and_(
                jobs.c.id == job_id,
                jobs.c.lease_owner == worker_id,
                jobs.c.lease_epoch == epoch,
                among(LEASED),
            )
            longer = update(jobs).where(mine).values(lease_until=now + settings.lease_seconds)
            kept = connection.execute(longer).rowcount == 1
        values = {
            "state": state,
            "job_id": job_id if kept else None,
            "free_bytes": free_bytes,
            "warm": warm,
            "step_at": step_at,
            "heartbeat_at": now,
        }
        was = select(workers.c.state).where(workers.c.id == worker_id)
        came_back = connection.execute(was).scalar_one_or_none() == "gone"
        connection.execute(update(workers).where(workers.c.id == worker_id).values(values))
    if came_back:
        rehold(db, clock)
    if not kept:
        raise LeaseLost(f"{worker_id} no longer has {job_id} (epoch {epoch}).")


def retire(
    db: Database,
    settings: ServerSettings,
    worker_id: str,
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Note that a worker is gone, of itself or seen to be dead; take away what it still has.

    Returns the ids of the jobs that were taken from it.
    """
    now = clock()
    its = and_(among(LEASED), jobs.c.lease_owner == worker_id)
    taken = take_away(db, its, now, settings.price_per_gpu_hour, settings.max_losses)
    with db.write() as connection:
        gone = update(workers).where(workers.c.id == worker_id)
        connection.execute(gone.values(state="gone", job_id=None, heartbeat_at=now))
    rehold(db, clock)
    return taken


def list_workers(db: Database, *, gone: bool = False) -> list[Worker]:
    """Return the workers by id; those that went away within a day only if asked."""
    chosen = select(workers).order_by(workers.c.id)
    if not gone:
        chosen = chosen.where(workers.c.state != "gone")
    with db.read() as connection:
        return [Worker.of(row) for row in connection.execute(chosen)]


def fits(db: Database, job: Needs) -> str | None:
    """Return the sentence that says why no live worker can take a job now, None when one can."""
    live = [worker for worker in list_workers(db) if worker.state in LIVE]
    return no_fit(job, live)
