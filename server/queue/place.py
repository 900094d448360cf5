"""Place: how many jobs are before one, and when it will begin and end.

Other tenants' jobs are before it when fair sharing serves them first. What is before it is divided
over the live workers that it fits. A prediction, not a promise: jobs that come later with a higher
priority, or of a tenant that is due more, go before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from server.database.tables import jobs
from server.queue.holds import live_workers
from server.queue.job import Job
from server.queue.line import Ahead, ahead_of, ahead_of_each
from server.queue.rates import Factors, factors_of
from server.queue.rows import among
from server.queue.worker import Worker
from server.settings import ServerSettings
from server.states import LEASED, WAITING

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
class _Running:
    """A job that a worker has."""

    model: str
    eta_at: float | None
    cost_seconds: float
    progress: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """What times are reckoned from.

    free     until when each live worker has a job, by its id
    factors  how far off predictions are, by model
    """

    live: Sequence[Worker]
    free: Mapping[str, Range]
    factors: Mapping[str, Factors]


_RUNNING = select(
    jobs.c.lease_owner, jobs.c.model, jobs.c.eta_at, jobs.c.cost_seconds, jobs.c.progress
).where(among(LEASED))


def place_of(connection: Connection, settings: ServerSettings, job: Job, now: float) -> Place:
    """Return the place of a job."""
    if job.state in LEASED:
        found = factors_of(connection, [job.model])
        running = _Running(job.model, job.eta_at, job.cost_seconds, job.progress)
        return Place(0, (0.0, 0.0), _left(found, running, now))
    if job.state not in WAITING:
        return Place(None, None, None)
    ahead = ahead_of(connection, settings, job)
    seen = _see(connection, [job.model, *(group.model for group in ahead)], now)
    return _place(job, ahead, seen)


def places_of(
    connection: Connection, settings: ServerSettings, found: Sequence[Job], now: float
) -> dict[str, Place]:
    """Return the places of all of some jobs that a worker could claim, by id, asked together."""
    ahead = ahead_of_each(connection, settings, {job.id for job in found})
    models = [group.model for groups in ahead.values() for group in groups]
    seen = _see(connection, [*(job.model for job in found), *models], now)
    return {job.id: _place(job, ahead[job.id], seen) for job in found if job.id in ahead}


def _see(connection: Connection, models: Iterable[str], now: float) -> _Seen:
    live = live_workers(connection)
    busy = {owner: _Running(*its) for owner, *its in connection.execute(_RUNNING)}
    found = factors_of(connection, [*models, *(each.model for each in busy.values())])
    free = {
        worker.id: _left(found, busy[worker.id], now) if worker.id in busy else (0.0, 0.0)
        for worker in live
    }
    return _Seen(live, free, found)


def _place(job: Job, ahead: Sequence[Ahead], seen: _Seen) -> Place:
    position = 1 + sum(group.number for group in ahead)
    left = [seen.free[worker.id] for worker in seen.live if worker.fits(job)]
    if not left or job.held_by in ("person", "budget"):
        return Place(position, None, None)
    work = [_range(seen.factors, group.model, group.seconds) for group in ahead]
    own = _range(seen.factors, job.model, job.remaining_seconds)
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


def _left(found: Mapping[str, Factors], job: _Running, now: float) -> Range:
    """Return how long a job that a worker has goes on."""
    if job.eta_at is not None:
        left = max(0.0, job.eta_at - now)
        return left, left
    return _range(found, job.model, job.cost_seconds * (1 - job.progress / 100))


def _range(found: Mapping[str, Factors], model: str, seconds: float) -> Range:
    """Return predicted seconds with their spread; the job's cost is in the middle already."""
    middle, high = found[model]
    return seconds, seconds * high / middle
