"""Reaping: jobs of workers that went away, and jobs whose time is up.

Any number of processes may do this at once: each job is looked at again under its lock.
"""

import time
from collections.abc import Callable

from sqlalchemy import ColumnElement, Connection, and_, delete, select, update

from server.database.open import Database
from server.database.tables import jobs, workers
from server.problems import Problem
from server.queue.change import change
from server.queue.holds import rehold
from server.queue.job import Job
from server.queue.leaving import lost, made_so_far, overrun
from server.queue.rows import among, locked_where
from server.settings import ServerSettings
from server.states import LEASED, JobState

FORGET_SECONDS = 86400.0  # after which a worker that went away is no longer listed


def reap(
    db: Database, settings: ServerSettings, clock: Callable[[], float] = time.time
) -> list[str]:
    """Take the jobs of silent workers away from them; return the ids.

    They are interrupted, or failed with worker_lost after settings.max_losses, or end as what was
    asked of the worker says.
    """
    now = clock()
    over = and_(among(LEASED), jobs.c.lease_until < now)
    reaped = take_away(db, over, now, settings.price_per_gpu_hour, settings.max_losses)
    _note_silent(db, now, settings.lease_seconds)
    rehold(db, clock)
    return reaped


def _note_silent(db: Database, now: float, lease_seconds: float) -> None:
    silent = and_(workers.c.heartbeat_at < now - lease_seconds, workers.c.state != "gone")
    old = and_(workers.c.heartbeat_at < now - FORGET_SECONDS, workers.c.state == "gone")
    with db.read() as connection:
        if connection.execute(select(workers.c.id).where(silent | old)).first() is None:
            return
    with db.write() as connection:
        connection.execute(update(workers).where(silent).values(state="gone", job_id=None))
        connection.execute(delete(workers).where(old))


def take_away(
    db: Database, over: ColumnElement[bool], now: float, price_per_gpu_hour: float, max_losses: int
) -> list[str]:
    """Take jobs away from their workers where a condition holds; return their ids."""
    taken = []
    for job_id in _ids(db, over):
        with db.write() as connection:
            job = locked_where(connection, job_id, over)
            if job is not None:
                lost(connection, job, now, price_per_gpu_hour, max_losses)
                taken.append(job_id)
    return taken


def expire(db: Database, clock: Callable[[], float] = time.time) -> list[str]:
    """End the waiting jobs whose time is up and ask workers to stop those that run for too long.

    Returns the ids of all of them.
    """
    now = clock()
    waited = and_(
        among({JobState.QUEUED, JobState.HELD}),
        jobs.c.started_at.is_(None),
        jobs.c.queue_deadline_at <= now,
    )
    ran = jobs.c.started_at + jobs.c.run_limit_seconds <= now
    stranded = and_(among({JobState.INTERRUPTED, JobState.QUEUED, JobState.HELD}), ran)
    running = and_(among(LEASED - {JobState.CANCELLING}), ran)
    return [
        *_each(db, waited, now, _end_waiting),
        *_each(db, stranded, now, _end_stranded),
        *_each(db, running, now, _ask_to_stop),
    ]


_Act = Callable[[Connection, Job, float], Job]


def _each(db: Database, condition: ColumnElement[bool], now: float, act: _Act) -> list[str]:
    done = []
    for job_id in _ids(db, condition):
        with db.write() as connection:
            job = locked_where(connection, job_id, condition)
            if job is not None:
                act(connection, job, now)
                done.append(job_id)
    return done


def _ids(db: Database, condition: ColumnElement[bool]) -> list[str]:
    with db.read() as connection:
        return list(connection.execute(select(jobs.c.id).where(condition)).scalars())


def _end_waiting(connection: Connection, job: Job, now: float) -> Job:
    waited = (job.queue_deadline_at or now) - job.created_at
    error = Problem(
        "deadline_exceeded",
        f"No worker began it within its {waited:.4g} s in the queue; resume it, or allow it "
        "longer.",
        extra=made_so_far(job),
    ).as_dict()
    return change(connection, job, JobState.EXPIRED, now, error=error)


def _end_stranded(connection: Connection, job: Job, now: float) -> Job:
    return change(connection, job, JobState.FAILED, now, error=overrun(job))


def _ask_to_stop(connection: Connection, job: Job, now: float) -> Job:
    told = {"stop": "deadline"}
    return change(connection, job, JobState.CANCELLING, now, told, stop="deadline", stop_at=now)
