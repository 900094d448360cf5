"""Admission: whether a new job may wait; each refusal says what is full and when to come again."""

import datetime
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, bindparam, select

from server.database.tables import workers
from server.problems import Problem
from server.queue.accounts import paid_in_month, used_on
from server.queue.holds import no_fit
from server.queue.job import Job
from server.queue.new_job import NewJob
from server.queue.standing import Load, Standing
from server.queue.tenants import Tenant
from server.queue.worker import LIVE, Worker
from server.settings import ServerSettings

RECENT_SECONDS = 3600.0  # for which a worker that went away is expected to come again
_MIB = 1024**2
_KNOWN = (
    select(workers)
    .where(workers.c.state.in_(LIVE) | (workers.c.heartbeat_at >= bindparam("since")))
    .order_by(workers.c.id)
)


def admit(
    connection: Connection,
    settings: ServerSettings,
    tenant: Tenant,
    job: NewJob | Job,
    now: float,
    standing: Standing,
    live: Sequence[Worker],
    free_disk: int | None,
) -> None:
    """Refuse a job that the queue, its tenant or the disk has no room for.

    standing   of the tenant, counted in this transaction
    live       the workers that take jobs
    free_disk  bytes; None where it is not this machine's to know
    Raises     Problem queue_full, quota_exceeded, budget_exceeded, storage_full
    """
    sharing = max(1, len(live))
    _queue(settings, standing.everyone, sharing)
    _tenant(connection, settings, tenant, job, now, standing, sharing)
    if free_disk is not None:
        _disk(settings, job, standing.disk_bytes, free_disk)


def known_workers(connection: Connection, now: float) -> list[Worker]:
    """Return the workers that take jobs, and those of the last hour that went away."""
    found = connection.execute(_KNOWN, {"since": now - RECENT_SECONDS})
    return [Worker.of(row) for row in found]


def refuse_if_none_could(known: Sequence[Worker], job: NewJob | Job) -> None:
    """Refuse a job that no known worker could ever take; without any, it may wait for one.

    Raises  Problem no_worker_fits
    """
    if not known or any(worker.could_fit(job) for worker in known):
        return
    empty = [_unloaded(worker) for worker in known]
    why = no_fit(job, empty)
    raise Problem("no_worker_fits", f"No worker could make it. {why}")


def free_disk_of(settings: ServerSettings) -> int | None:
    """Return the free bytes where jobs are made and kept on this machine; None: not here."""
    named = [name for name in (settings.work, settings.store) if name and "://" not in name]
    return min((_free(Path(name)) for name in named), default=None)


def _free(folder: Path) -> int:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def _unloaded(worker: Worker) -> Worker:
    """Return a worker as it is when nothing runs on it, for a sentence on what could ever fit."""
    return replace(worker, state="busy")


def _queue(settings: ServerSettings, load: Load, live: int) -> None:
    if load.queued >= settings.max_queued:
        raise _come_again(
            "queue_full",
            f"{load.queued} jobs wait, and at most {settings.max_queued} may",
            load.backlog / load.queued / live,
            load,
        )
    if load.backlog >= settings.max_backlog_seconds:
        raise _come_again(
            "queue_full",
            f"The jobs that wait will take {load.backlog:.0f} s, and at most "
            f"{settings.max_backlog_seconds:.0f} s may wait",
            (load.backlog - settings.max_backlog_seconds) / live,
            load,
        )


def _tenant(
    connection: Connection,
    settings: ServerSettings,
    tenant: Tenant,
    job: NewJob | Job,
    now: float,
    standing: Standing,
    live: int,
) -> None:
    load = standing.its
    most = settings.tenant_max_queued if tenant.max_queued is None else tenant.max_queued
    if load.queued >= most:
        mean = load.backlog / load.queued if load.queued else job.cost_seconds
        said = f"{load.queued} of your jobs wait, and at most {most} may"
        raise _come_again("quota_exceeded", said, mean / live, load)
    if tenant.gpu_seconds_per_day is not None:
        ahead = load.backlog + standing.charged
        used = used_on(connection, tenant.id, now)
        if used + ahead + job.cost_seconds > tenant.gpu_seconds_per_day:
            raise _come_again(
                "quota_exceeded",
                f"You used {used:.0f} GPU-seconds today (UTC) and your open jobs will use "
                f"{ahead:.0f}; {job.cost_seconds:.0f} more are above your "
                f"{tenant.gpu_seconds_per_day:.0f} a day",
                _until_tomorrow(now),
                load,
            )
    if tenant.budget_per_month is not None:
        ahead = load.backlog + standing.charged + job.cost_seconds
        paid = paid_in_month(connection, tenant.id, now)
        price = ahead * settings.price_per_gpu_hour / 3600
        if paid + price > tenant.budget_per_month:
            raise _come_again(
                "budget_exceeded",
                f"You spent {paid:.2f} this month (UTC), and with your open jobs this one comes to "
                f"{price:.2f} more; your budget is {tenant.budget_per_month:.2f}",
                _until_tomorrow(now),
                load,
            )


def _disk(settings: ServerSettings, job: NewJob | Job, promised: int, free_disk: int) -> None:
    reserve = settings.disk_reserve_mib * _MIB
    if free_disk - promised - job.disk_bytes < reserve:
        raise Problem(
            "storage_full",
            f"It needs {job.disk_bytes / _MIB:.0f} MiB of disk and open jobs need "
            f"{promised / _MIB:.0f} MiB; {free_disk / _MIB:.0f} MiB are free, of which "
            f"{settings.disk_reserve_mib} MiB stay in reserve: delete results, or come later.",
            headers=_headers(60),
        )


def _until_tomorrow(now: float) -> float:
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return 86400 - (moment.hour * 3600 + moment.minute * 60 + moment.second)


def _come_again(code: str, said: str, seconds: float, load: Load) -> Problem:
    wait = max(1, min(300, math.ceil(seconds)))
    return Problem(
        code,
        f"{said}; come again in {wait} s.",
        headers=_headers(wait),
        extra={"queue_depth": load.queued, "eta_s": round(load.backlog, 1)},
    )


def _headers(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}
