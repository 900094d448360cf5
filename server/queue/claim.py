"""Claiming: an idle worker takes the job that is best for it, in one transaction.

The tenant with the least virtual time comes first, its jobs by `order_key`. A job for which the
worker is warm may come before others by at most settings.affinity_seconds, in both orders.
"""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    update,
)

from server.database.open import Database
from server.database.tables import jobs, tenants, workers
from server.queue import accounts
from server.queue.budgets import spent
from server.queue.change import change
from server.queue.held import Held
from server.queue.job import Job
from server.queue.rows import among, locked_where, order_key
from server.queue.worker import LIVE, Worker
from server.settings import ServerSettings
from server.states import CLAIMABLE, LEASED, JobState

_SAME_WEIGHTS = 0.5  # of the warm bonus, when only the LoRAs must be changed


def claim(
    db: Database,
    settings: ServerSettings,
    worker_id: str,
    clock: Callable[[], float] = time.time,
) -> Held | None:
    """Give a worker its next job, or None when none is for it.

    A worker gets None while it, or another one on its device, has a job. One whose last claim was
    answered into the void gets the same job again.
    """
    if not _anything(db, worker_id):
        return None
    now = clock()
    with db.write("claim") as connection:
        worker = _worker(connection, worker_id)
        if worker is None:
            return None
        on_device = _on_device(connection, worker)
        if on_device:
            mine = [job for job in on_device if job.lease_owner == worker_id]
            if len(on_device) == 1 and mine and mine[0].state is JobState.ASSIGNED:
                return _held(db, settings, mine[0], worker_id, clock)
            return None
        job = _best(connection, settings, worker, now)
        if job is None:
            return None
        taken = _take(connection, settings, worker, job, now)
        return _held(db, settings, taken, worker_id, clock)


_ANYTHING = select(
    or_(
        exists().where(among(CLAIMABLE)),
        exists().where(among(LEASED), jobs.c.lease_owner == bindparam("its_id")),
    )
)


def _anything(db: Database, worker_id: str) -> bool:
    """Whether a claim may give anything: idle workers ask often, and this locks nothing."""
    with db.read() as connection:
        return bool(connection.execute(_ANYTHING, {"its_id": worker_id}).scalar_one())


def _held(
    db: Database, settings: ServerSettings, job: Job, owner: str, clock: Callable[[], float]
) -> Held:
    return Held(db, job, owner, job.lease_epoch, clock, settings.price_per_gpu_hour)


def _worker(connection: Connection, worker_id: str) -> Worker | None:
    live = select(workers).where(workers.c.id == worker_id, workers.c.state.in_(LIVE))
    row = connection.execute(live).one_or_none()
    return None if row is None else Worker.of(row)


def _on_device(connection: Connection, worker: Worker) -> list[Job]:
    """Return the jobs that workers on the same device have."""
    same = (workers.c.host == worker.host) & (workers.c.device == worker.device)
    chosen = select(jobs).join(workers, jobs.c.lease_owner == workers.c.id)
    return [Job.of(row) for row in connection.execute(chosen.where(same, among(LEASED)))]


def _best(
    connection: Connection, settings: ServerSettings, worker: Worker, now: float
) -> Job | None:
    """Choose among the heads of the queue; None also when the chosen one was just withdrawn."""
    heads = connection.execute(_heads(settings, worker, now)).all()
    blocked = _blocked(connection, {head.tenant for head in heads}, now)
    open_heads = [head for head in heads if head.tenant not in blocked]
    if not open_heads:
        return None

    def first(head: Row[Any]) -> tuple[float, str]:
        return (head.key - _bonus(settings, worker, head), head.id)

    best_of = {
        tenant: min((head for head in open_heads if head.tenant == tenant), key=first)
        for tenant in {head.tenant for head in open_heads}
    }

    def turn(head: Row[Any]) -> tuple[float, float, str]:
        return (head.served - _bonus(settings, worker, head), head.key, head.id)

    chosen = min(best_of.values(), key=turn)
    return locked_where(connection, chosen.id, among(CLAIMABLE))


def _heads(settings: ServerSettings, worker: Worker, now: float) -> Select[Any]:
    """Select the first job of each tenant, model and set of LoRAs that the worker may have."""
    key = order_key(settings.ageing_seconds)
    alike = (jobs.c.tenant, jobs.c.model, cast(jobs.c.loras, Text))
    place = func.row_number().over(partition_by=alike, order_by=(key, jobs.c.id))
    in_time = or_(
        jobs.c.queue_deadline_at.is_(None),
        jobs.c.queue_deadline_at > now,
        jobs.c.started_at.is_not(None),
        jobs.c.state == JobState.INTERRUPTED.value,
    )
    mine = [jobs.c.pool == worker.pool, jobs.c.device_bytes <= worker.usable_bytes, in_time]
    if worker.tenants is not None:
        mine.append(jobs.c.tenant.in_(worker.tenants))
    if worker.models is not None:
        mine.append(jobs.c.model.in_(worker.models))
    ordered = (
        select(
            jobs.c.id,
            jobs.c.tenant,
            jobs.c.model,
            jobs.c.loras,
            key.label("key"),
            place.label("place"),
        )
        .where(among(CLAIMABLE), *mine)
        .subquery()
    )
    of_tenants = ordered.join(tenants, tenants.c.id == ordered.c.tenant)
    return select(ordered, tenants.c.served).select_from(of_tenants).where(ordered.c.place == 1)


def _bonus(settings: ServerSettings, worker: Worker, head: Row[Any]) -> float:
    """Return by how many seconds a job comes earlier because the worker is warm for it."""
    if worker.warm.get("model") != head.model:
        return 0.0
    same = list(worker.warm.get("loras", [])) == list(head.loras)
    return settings.affinity_seconds * (1.0 if same else _SAME_WEIGHTS)


def _blocked(connection: Connection, names: set[str], now: float) -> set[str]:
    """Return the tenants that may not have another job now."""
    chosen = select(tenants).where(tenants.c.id.in_(names))
    running = select(jobs.c.tenant, func.count().label("jobs")).where(among(LEASED))
    counts = {row.tenant: row.jobs for row in connection.execute(running.group_by(jobs.c.tenant))}
    return {
        row.id
        for row in connection.execute(chosen)
        if (row.max_running is not None and counts.get(row.id, 0) >= row.max_running)
        or spent(connection, row, now) is not None
    }


def _take(
    connection: Connection, settings: ServerSettings, worker: Worker, job: Job, now: float
) -> Job:
    cost = job.remaining_seconds
    accounts.charge(connection, job.tenant, cost)
    busy = update(workers).where(workers.c.id == worker.id)
    taken = change(
        connection,
        job,
        JobState.ASSIGNED,
        now,
        {"worker": worker.id, "epoch": job.lease_epoch + 1},
        lease_owner=worker.id,
        lease_epoch=job.lease_epoch + 1,
        lease_until=now + settings.lease_seconds,
        charged_seconds=cost,
    )
    connection.execute(busy.values(state="busy", job_id=job.id))
    return taken
