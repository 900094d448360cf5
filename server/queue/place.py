"""Place: how many jobs are before one, and when it will begin and end.

Other tenants' jobs are before it when fair sharing serves them first. What is before it is divided
over the live workers that it fits. A prediction, not a promise: jobs that come later with a higher
priority, or of a tenant that is due more, go before it.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from server.database.tables import jobs, tenants
from server.queue.holds import live_workers
from server.queue.job import Job
from server.queue.rates import factors
from server.queue.rows import among, order_key, remaining_cost
from server.queue.worker import Worker
from server.settings import ServerSettings
from server.states import CLAIMABLE, LEASED, WAITING

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job is in the queue.

    position             1: it is next; 0: a worker has it; None: it does not wait
    eta_start, eta_end   seconds from now, 50th and 90th percentile; None: nobody can say, since
                         no live worker fits or the job does not go on by itself
    """

    position: int | None
    eta_start: Range | None
    eta_end: Range | None


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Jobs of one model that are before a job."""

    model: str
    number: int
    seconds: float


def place_of(connection: Connection, settings: ServerSettings, job: Job, now: float) -> Place:
    """Return the place of a job."""
    if job.state in LEASED:
        return Place(0, (0.0, 0.0), _left(connection, job, now))
    if job.state not in WAITING:
        return Place(None, None, None)
    ahead = _ahead(connection, settings, job)
    position = 1 + sum(group.number for group in ahead)
    fitting = [worker for worker in live_workers(connection) if worker.fits(job)]
    if not fitting or job.held_by in ("person", "budget"):
        return Place(position, None, None)
    busy = _running(connection, fitting)
    left = [
        _left(connection, busy[worker.id], now) if worker.id in busy else (0.0, 0.0)
        for worker in fitting
    ]
    work = [_range(connection, group.model, group.seconds) for group in ahead]
    own = _range(connection, job.model, job.remaining_seconds)
    middle, high = (
        begin_after([free[which] for free in left], sum(each[which] for each in work))
        for which in (0, 1)
    )
    return Place(position, (middle, high), (middle + own[0], high + own[1]))


def begin_after(free: list[float], work: float) -> float:
    """Return when work that workers share evenly is done and one of them is free.

    free  seconds until each worker is free, at least one
    work  seconds
    """
    waits = sorted(free)
    begin = waits[0]
    for number in range(1, len(waits) + 1):
        begin = (sum(waits[:number]) + work) / number
        if number == len(waits) or begin <= waits[number]:
            break
    return begin


def _ahead(connection: Connection, settings: ServerSettings, job: Job) -> list[_Ahead]:
    """Return what fair sharing serves before a job, by model.

    A job is due at the virtual time that its tenant has reached when it is its turn: what the
    tenant was served, and its own jobs before this one over its weight.
    """
    key, cost = order_key(settings), remaining_cost()
    mine = job.rank - job.priority * settings.ageing_seconds
    earlier = or_(key < mine, and_(key == mine, jobs.c.id < job.id))
    in_line = and_(among(CLAIMABLE), jobs.c.pool == job.pool)
    summed = (func.count().label("number"), func.sum(cost).label("seconds"))
    own = select(jobs.c.model, *summed).where(in_line, jobs.c.tenant == job.tenant, earlier)
    ahead = [_Ahead(**row._mapping) for row in connection.execute(own.group_by(jobs.c.model))]

    served = select(tenants.c.served, tenants.c.weight).where(tenants.c.id == job.tenant)
    reached, weight = connection.execute(served).one()
    due = reached + sum(group.seconds for group in ahead) / weight
    others = _others_ahead(in_line, jobs.c.tenant != job.tenant, key, due, mine)
    return ahead + [_Ahead(**row._mapping) for row in connection.execute(others)]


def _others_ahead(
    in_line: ColumnElement[bool],
    others: ColumnElement[bool],
    key: ColumnElement[float],
    due: float,
    mine: float,
) -> Select[Any]:
    """Select other tenants' jobs that are due before a time, or then and came earlier."""
    cost = remaining_cost()
    until = func.sum(cost).over(partition_by=jobs.c.tenant, order_by=(key, jobs.c.id))
    line = (
        select(
            jobs.c.model,
            cost.label("cost"),
            key.label("key"),
            (tenants.c.served + (until - cost) / tenants.c.weight).label("due"),
        )
        .join(tenants, tenants.c.id == jobs.c.tenant)
        .where(in_line, others, tenants.c.served <= due)
        .subquery()
    )
    return (
        select(line.c.model, func.count().label("number"), func.sum(line.c.cost).label("seconds"))
        .where(or_(line.c.due < due, and_(line.c.due == due, line.c.key < mine)))
        .group_by(line.c.model)
    )


def _running(connection: Connection, fitting: list[Worker]) -> dict[str, Job]:
    ids = [worker.id for worker in fitting]
    chosen = select(jobs).where(jobs.c.lease_owner.in_(ids), among(LEASED))
    return {str(row.lease_owner): Job.of(row) for row in connection.execute(chosen)}


def _left(connection: Connection, job: Job, now: float) -> Range:
    """Return how long a job that a worker has goes on."""
    if job.eta_at is not None:
        left = max(0.0, job.eta_at - now)
        return left, left
    return _range(connection, job.model, job.cost_seconds * (1 - job.progress / 100))


def _range(connection: Connection, model: str, seconds: float) -> Range:
    """Return predicted seconds with their spread; the job's cost is in the middle already."""
    middle, high = factors(connection, model)
    return seconds, seconds * high / middle
