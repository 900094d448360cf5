"""Order: the place of a waiting job among those of its tenant, and moving it."""

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from server.database.tables import jobs
from server.problems import Problem
from server.queue.job import Job
from server.queue.rows import among, order_key
from server.settings import ServerSettings
from server.states import WAITING

_GAP = 1.0  # seconds between neighbours when there is no room between two


@dataclass(frozen=True, slots=True)
class Target:
    """Where a job is moved to: before or after another one, or to an end."""

    before: str | None
    after: str | None
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class _Placed:
    id: str
    key: float
    priority: int


def rank_behind(last: float | None, now: float) -> float:
    """Return the rank of a job that joins the end of its tenant's.

    last  the highest rank of those that wait, None: none waits
    """
    return now if last is None or last < now else last + 1e-3


def move(connection: Connection, settings: ServerSettings, job: Job, target: Target) -> None:
    """Move a waiting job among those of its tenant; its priority stays what it is.

    Raises  Problem invalid_request unless the target is one place; Problem conflict when the other
            job does not wait
    """
    if sum(map(bool, (target.before, target.after, target.first, target.last))) != 1:
        raise Problem(
            "invalid_request", "A move names one of before=<job>, after=<job>, first or last."
        )
    others = _others(connection, settings, job)
    at = _place(others, target)
    if at in (0, len(others)) or others[at].key - others[at - 1].key > 4e-6:
        _set_key(connection, settings, job.id, job.priority, _key_at(others, at, job))
        return
    line = [*others[:at], _Placed(job.id, 0.0, job.priority), *others[at:]]
    for number, placed in enumerate(line):
        key = others[0].key + number * _GAP
        _set_key(connection, settings, placed.id, placed.priority, key)


def _others(connection: Connection, settings: ServerSettings, job: Job) -> list[_Placed]:
    key = order_key(settings.ageing_seconds)
    chosen = (
        select(jobs.c.id, key.label("key"), jobs.c.priority)
        .where(jobs.c.tenant == job.tenant, among(WAITING), jobs.c.id != job.id)
        .order_by(key, jobs.c.id)
    )
    return [_Placed(**row._mapping) for row in connection.execute(chosen)]


def _place(others: list[_Placed], target: Target) -> int:
    if target.first or target.last:
        return 0 if target.first else len(others)
    named = target.before or target.after
    ids = [placed.id for placed in others]
    if named not in ids:
        raise Problem(
            "conflict", f"{named!r} is not another of your waiting jobs; name one that is."
        )
    return ids.index(named) + (0 if target.before else 1)


def _key_at(others: list[_Placed], at: int, job: Job) -> float:
    """Return a key for a place among others that leaves room: at an end or between two."""
    if not others:
        return job.rank
    if at == 0:
        return others[0].key - _GAP
    if at == len(others):
        return others[-1].key + _GAP
    return (others[at - 1].key + others[at].key) / 2


def _set_key(
    connection: Connection, settings: ServerSettings, job_id: str, priority: int, key: float
) -> None:
    rank = key + priority * settings.ageing_seconds
    connection.execute(update(jobs).where(jobs.c.id == job_id).values(rank=rank))
