"""Reading and locking rows of jobs: the expressions and look-ups that the queue shares."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, bindparam, cast, literal_column, select

from server.database.tables import jobs
from server.problems import Problem
from server.queue.job import Job
from server.states import JobState

_ONE = select(jobs).where(jobs.c.id == bindparam("its_id"))
_ONE_LOCKED = _ONE.with_for_update()


def among(states: Iterable[JobState]) -> ColumnElement[bool]:
    """Whether a job is in one of some states.

    The names stand in the statement itself: as parameters they would be filled in each time.
    """
    return jobs.c.state.in_([literal_column(f"'{name}'") for name in sorted(states)])


def remaining_cost() -> ColumnElement[Any]:
    """Predicted seconds of the clips that are not yet made."""
    unmade = cast(jobs.c.clips - jobs.c.clips_completed, Float)
    return jobs.c.cost_seconds * unmade / jobs.c.clips


def order_key(ageing_seconds: float | ColumnElement[float]) -> ColumnElement[float]:
    """Return what orders the waiting jobs of one tenant, least first.

    A priority is worth settings.ageing_seconds: a job is overtaken only by one of a higher priority
    that came less than that, times the difference in priority, after it.
    """
    return jobs.c.rank - jobs.c.priority * ageing_seconds


def find(connection: Connection, job_id: str, tenant: str | None = None) -> Job:
    """Return a job.

    tenant  None: of any
    Raises  Problem not_found, also for another tenant's job
    """
    return _one(connection, job_id, tenant, lock=False)


def find_locked(connection: Connection, job_id: str, tenant: str | None = None) -> Job:
    """Return a job as `find` does, which no other transaction changes until this one ends."""
    return _one(connection, job_id, tenant, lock=True)


def _one(connection: Connection, job_id: str, tenant: str | None, *, lock: bool) -> Job:
    chosen = _ONE_LOCKED if lock else _ONE
    row = connection.execute(chosen, {"its_id": job_id}).one_or_none()
    if row is None or tenant not in (None, row.tenant):
        raise Problem("not_found", f"There is no job {job_id!r}.")
    return Job.of(row)


def locked_where(connection: Connection, job_id: str, *conditions: Any) -> Job | None:
    """Return a job locked if it still meets some conditions when the lock is had, else None."""
    chosen = select(jobs).where(jobs.c.id == job_id, *conditions).with_for_update()
    row = connection.execute(chosen).one_or_none()
    return None if row is None else Job.of(row)
