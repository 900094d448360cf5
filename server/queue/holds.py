"""Holds: jobs that no worker can take now wait aside, each with the reason in words."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from server.database.open import Database
from server.database.tables import jobs, tenants, workers
from server.queue.budgets import spent
from server.queue.change import change
from server.queue.rows import among, locked_where
from server.queue.worker import LIVE, Needs, Worker
from server.states import CLAIMABLE, JobState

_GIB = 1024**3
_LIVE = select(workers).where(workers.c.state.in_(LIVE)).order_by(workers.c.id)


@dataclass(frozen=True, slots=True)
class _Alike:
    """Waiting jobs that a worker fits, or does not, all together."""

    tenant: str
    model: str
    pool: str
    device_bytes: int
    state: str
    held_by: str | None
    hold_reason: str | None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What becomes of such jobs: held by something for a reason, or, without one, free."""

    alike: _Alike
    held_by: str | None
    reason: str | None


def rehold(db: Database, clock: Callable[[], float] = time.time) -> list[str]:
    """Hold the waiting jobs that no live worker fits or whose tenant has nothing left; free others.

    What a person holds is left alone. Returns the ids of the jobs that were held or freed.
    """
    now = clock()
    with db.read() as connection:
        if not _verdicts(connection, now):
            return []
    with db.write("claim") as connection:
        return [
            job_id
            for verdict in _verdicts(connection, now)
            for job_id in _carry_out(connection, verdict, now)
        ]


def live_workers(connection: Connection) -> list[Worker]:
    """Return the workers that take jobs."""
    return [Worker.of(row) for row in connection.execute(_LIVE)]


def no_fit(job: Needs, live: Sequence[Worker]) -> str | None:
    """Return the sentence that says why no worker can take a job now, None when one can."""
    if any(worker.fits(job) for worker in live):
        return None
    if not live:
        return "No worker is running; start one with `vidgen worker`."
    serving = [worker for worker in live if worker.serves(job.pool, job.tenant, job.model)]
    if not serving:
        return (
            f"None of the {len(live)} running workers serves pool {job.pool!r} with model "
            f"{job.model!r} for tenant {job.tenant!r}; start one that does."
        )
    largest = max(worker.usable_bytes for worker in serving)
    return (
        f"It needs {job.device_bytes / _GIB:.1f} GiB of device memory and the largest worker for "
        f"it has {largest / _GIB:.1f} GiB; ask for a smaller clip, or start a larger worker."
    )


def _verdicts(connection: Connection, now: float) -> list[_Verdict]:
    """Return what should change."""
    alike = [jobs.c[name] for name in _Alike.__dataclass_fields__]
    ours = among({JobState.HELD}) & (jobs.c.held_by != "person")
    chosen = select(*alike).where(among(CLAIMABLE) | ours).distinct()
    waiting = [_Alike(**row._mapping) for row in connection.execute(chosen)]
    if not waiting:
        return []
    live = live_workers(connection)
    rows = connection.execute(select(tenants)).all()
    poor = {row.id: why for row in rows if (why := spent(connection, row, now)) is not None}
    verdicts = [_judged(group, live, poor) for group in waiting]
    return [
        verdict
        for verdict in verdicts
        if (verdict.held_by, verdict.reason) != (verdict.alike.held_by, verdict.alike.hold_reason)
    ]


def _judged(alike: _Alike, live: list[Worker], poor: dict[str, str]) -> _Verdict:
    if alike.tenant in poor:
        return _Verdict(alike, "budget", poor[alike.tenant])
    why = no_fit(alike, live)
    return _Verdict(alike, None if why is None else "fit", why)


def _carry_out(connection: Connection, verdict: _Verdict, now: float) -> list[str]:
    """Bring jobs to what was found; return the ids of those whose state changed."""
    same = [jobs.c[name] == value for name, value in _values(verdict.alike).items()]
    why = {"held_by": verdict.held_by, "hold_reason": verdict.reason}
    if verdict.reason is not None and verdict.alike.state == JobState.HELD.value:
        connection.execute(update(jobs).where(*same).values(why))
        return []
    ids = list(connection.execute(select(jobs.c.id).where(*same).order_by(jobs.c.id)).scalars())
    changed = []
    for job_id in ids:
        job = locked_where(connection, job_id, *same)
        if job is None:
            continue
        if verdict.reason is None:
            change(connection, job, JobState.QUEUED, now)
        else:
            change(connection, job, JobState.HELD, now, {"reason": verdict.reason}, **why)
        changed.append(job_id)
    return changed


def _values(alike: _Alike) -> dict[str, object]:
    return {name: getattr(alike, name) for name in _Alike.__dataclass_fields__}
