"""Accounts: whose turn it is (virtual time of tenants) and what was used (the ledger).

`tenants.served` grows by the predicted seconds of each claimed job over the tenant's weight, and is
corrected by the measured ones when a worker gives the job up. The tenant with the least is next.
"""

import datetime

from sqlalchemy import ColumnElement, Connection, Float, cast, func, insert, select, update

from server.database.tables import clips, jobs, tenants, usage
from server.queue import tallies
from server.queue.job import Job
from server.queue.rows import among
from server.queue.tallies import Seen
from server.states import CLAIMABLE, LEASED


def join(connection: Connection, tenant: str, pool: str) -> None:
    """Let a tenant have a job to be claimed, one of some or its first."""
    waits = select(jobs.c.id).where(jobs.c.tenant == tenant, among(CLAIMABLE)).limit(1)
    if connection.execute(waits).first() is None:
        lift(connection, tenant, pool)


def lift(connection: Connection, tenant: str, pool: str) -> None:
    """Lift a tenant with nothing to claim to the time of those who compete: no credit is hoarded.

    That time is the least at which one with work in the pool began its newest running job or would
    begin its next one; without any, of those with work anywhere; else the greatest of all.
    """
    found = _time(connection, jobs.c.tenant != tenant, jobs.c.pool == pool)
    if found is None:
        found = _time(connection, jobs.c.tenant != tenant)
    if found is None:
        found = connection.execute(select(func.max(tenants.c.served))).scalar_one()
    mine = update(tenants).where(tenants.c.id == tenant, tenants.c.served < found)
    connection.execute(mine.values(served=found))


def _time(connection: Connection, *where: ColumnElement[bool]) -> float | None:
    """Return the least virtual time among the tenants with some jobs."""
    began = tenants.c.served - func.max(jobs.c.charged_seconds) / tenants.c.weight
    each = (
        select(began.label("began"))
        .join(jobs, jobs.c.tenant == tenants.c.id)
        .where(among(CLAIMABLE | LEASED), *where)
        .group_by(tenants.c.id, tenants.c.served, tenants.c.weight)
        .subquery()
    )
    found = connection.execute(select(func.min(each.c.began))).scalar_one()
    return None if found is None else float(found)


def charge(connection: Connection, tenant: str, seconds: float) -> None:
    """Let a tenant's virtual time go on; negative seconds give it back."""
    served = tenants.c.served + seconds / tenants.c.weight
    connection.execute(update(tenants).where(tenants.c.id == tenant).values(served=served))


def settle(
    connection: Connection, job: Job, now: float, price_per_gpu_hour: float, *, billed: bool
) -> None:
    """Write down what a worker used for a job since it claimed it, and correct the virtual time.

    job  as its worker gives it up. usage["gpu_seconds"] counts all its clips and what was spent
         beside them; where it is missing, the clips made under this lease count.
    """
    mine = clips.c.epoch == job.lease_epoch
    counted = select(
        func.count().filter(mine),
        func.coalesce(func.sum(clips.c.num_frames).filter(mine), 0),
        cast(func.coalesce(func.sum(clips.c.seconds).filter(mine), 0), Float),
        cast(func.coalesce(func.sum(clips.c.seconds).filter(~mine), 0), Float),
    ).where(clips.c.job_id == job.id)
    num_clips, num_frames, now_made, made_before = connection.execute(counted).one()
    total = job.usage.get("gpu_seconds")
    used = now_made if total is None else max(0.0, total - made_before)
    charge(connection, job.tenant, used - job.charged_seconds)
    if used == 0 and num_clips == 0:
        return
    row = {
        "tenant": job.tenant,
        "job_id": job.id,
        "model": job.model,
        "day": day_of(now),
        "gpu_seconds": used,
        "clips": num_clips,
        "frames": num_frames,
        "price": used * price_per_gpu_hour / 3600,
        "billed": billed,
        "created_at": now,
    }
    connection.execute(insert(usage), row)
    tallies.add(connection, [Seen("gpu_seconds", (job.tenant,), used)])


def used_on(connection: Connection, tenant: str, now: float) -> float:
    """Return the GPU-seconds that a tenant used on the day (UTC) of `now` and has to pay."""
    counted = select(func.coalesce(func.sum(usage.c.gpu_seconds), 0.0)).where(
        usage.c.tenant == tenant, usage.c.day == day_of(now), usage.c.billed
    )
    return float(connection.execute(counted).scalar_one())


def paid_in_month(connection: Connection, tenant: str, now: float) -> float:
    """Return what a tenant's use cost in the month (UTC) of `now`."""
    counted = select(func.coalesce(func.sum(usage.c.price), 0.0)).where(
        usage.c.tenant == tenant, usage.c.day.startswith(day_of(now)[:7]), usage.c.billed
    )
    return float(connection.execute(counted).scalar_one())


def day_of(now: float) -> str:
    """Return the day of a time as YYYY-MM-DD, UTC."""
    return datetime.datetime.fromtimestamp(now, datetime.UTC).date().isoformat()
