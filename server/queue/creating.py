"""Creating: a request becomes a waiting job, once, if there is room for it."""

from typing import Any

from sqlalchemy import Connection, and_, bindparam, insert, select, update

from server.database.tables import job_secrets, jobs
from server.ids import new_id
from server.problems import Problem
from server.queue import accounts, tenants
from server.queue.admission import admit, known_workers, refuse_if_none_could
from server.queue.budgets import spent
from server.queue.change import event_of, told
from server.queue.holds import no_fit
from server.queue.inputs import hold_uploads
from server.queue.job import Job
from server.queue.new_job import NewJob
from server.queue.order import rank_behind
from server.queue.standing import Standing, standing_of
from server.queue.tenants import Tenant
from server.queue.worker import LIVE, Worker
from server.settings import ServerSettings
from server.states import JobState

IDEMPOTENCY_SECONDS = 86400.0
BLIND_RETRY_SECONDS = 600.0
ZDR_SECONDS = 3600.0  # the longest that results of a zero-retention job are kept


def create(
    connection: Connection,
    settings: ServerSettings,
    new: NewJob,
    now: float,
    free_disk: int | None,
) -> tuple[Job, bool]:
    """Write down a new job, or find the one that the same request made before.

    The transaction must have the lock "admit".
    Returns  the job, and whether it was there before
    Raises   Problem: idempotency_mismatch, no_worker_fits, not_found for an input, and what
             admission refuses with
    """
    earlier = _same_key(connection, new, now) or _same_retry(connection, new, now)
    if earlier is not None:
        return earlier, True
    assert new.clips >= 1, "a job makes a clip"
    assert new.cost_seconds > 0, "a job without cost would never be another tenant's turn"
    assert (new.payload is None) == (new.cipher is not None and new.secret is not None)
    tenant = tenants.get(connection, new.tenant)
    known = known_workers(connection, now)
    refuse_if_none_could(known, new)
    live = [worker for worker in known if worker.state in LIVE]
    standing = standing_of(connection, tenant.id)
    admit(connection, settings, tenant, new, now, standing, live, free_disk)
    # What a zero-retention job names is kept no longer for its sake.
    until = now if new.zdr else now + settings.retention_seconds
    hold_uploads(connection, tenant.id, new.inputs, until, now)
    state = _state(connection, tenant, new, now, live)
    if state["state"] == JobState.QUEUED.value and not standing.claimable:
        accounts.lift(connection, tenant.id, new.pool)
    job = _inserted(connection, settings, new, now, state, standing)
    if new.secret is not None:
        connection.execute(insert(job_secrets).values(job_id=job.id, key=new.secret))
    data = {} if job.hold_reason is None else {"reason": job.hold_reason}
    told(connection, job, event_of(None, job.state), now, data)
    return job, False


def _same_key(connection: Connection, new: NewJob, now: float) -> Job | None:
    """Return the job that the same idempotency key made, and forget a key that is too old."""
    if new.idempotency_key is None:
        return None
    asked = {"its_tenant": new.tenant, "its_key": new.idempotency_key}
    row = connection.execute(_BY_KEY, asked).one_or_none()
    if row is None:
        return None
    if row.created_at <= now - IDEMPOTENCY_SECONDS:
        old = update(jobs).where(jobs.c.id == row.id)
        connection.execute(old.values(idempotency_key=None))
        return None
    if row.body_hash != new.body_hash:
        raise Problem(
            "idempotency_mismatch",
            f"Idempotency-Key {new.idempotency_key!r} was used for another request within the last "
            "24 h; use a new key for a new request.",
            param="Idempotency-Key",
        )
    return Job.of(row)


def _same_retry(connection: Connection, new: NewJob, now: float) -> Job | None:
    """Return the job that a request made which the client sends again without a key."""
    if not new.blind_retry or new.body_hash is None or new.idempotency_key is not None:
        return None
    same = and_(
        jobs.c.tenant == new.tenant,
        jobs.c.key_id.is_not_distinct_from(new.key_id),
        jobs.c.body_hash == new.body_hash,
        jobs.c.created_at > now - BLIND_RETRY_SECONDS,
    )
    newest = select(jobs).where(same).order_by(jobs.c.created_at.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return None if row is None else Job.of(row)


def _inserted(
    connection: Connection,
    settings: ServerSettings,
    new: NewJob,
    now: float,
    state: dict[str, str],
    standing: Standing,
) -> Job:
    kept = settings.retention_seconds if new.retention_seconds is None else new.retention_seconds
    asked = {
        name: getattr(new, name)
        for name in NewJob.__dataclass_fields__
        if name in jobs.c and name not in ("loras", "tags", "search")
    }
    row = {
        **asked,
        "id": new_id("video"),
        "loras": list(new.loras),
        "tags": list(new.tags),
        "search": searched(new.search, new.title),
        "retention_seconds": min(kept, ZDR_SECONDS) if new.zdr else kept,
        "created_at": now,
        "updated_at": now,
        "rank": rank_behind(standing.last_rank, now),
        **_UNTOUCHED,
        **state,
    }
    return Job.of(connection.execute(_INSERT, row).one())


_BY_KEY = select(jobs).where(
    jobs.c.tenant == bindparam("its_tenant"), jobs.c.idempotency_key == bindparam("its_key")
)
_INSERT = insert(jobs).returning(*jobs.c)
_UNTOUCHED: dict[str, Any] = {
    "lease_epoch": 0,
    "losses": 0,
    "run": 0,
    "charged_seconds": 0.0,
    "clips_completed": 0,
    "progress": 0,
    "artifacts": {},
    "usage": {},
    "starred": False,
}


def _state(
    connection: Connection, tenant: Tenant, new: NewJob, now: float, live: list[Worker]
) -> dict[str, str]:
    """Return the state that a job begins in, and why it is held if it is."""
    if new.state_after == "paused":
        return {"state": JobState.PAUSED.value}
    why, held_by = spent(connection, tenant, now), "budget"
    if why is None:
        why, held_by = no_fit(new, live), "fit"
    if why is None:
        return {"state": JobState.QUEUED.value}
    return {"state": JobState.HELD.value, "hold_reason": why, "held_by": held_by}


def searched(text: str | None, title: str | None) -> str | None:
    """Return what the search by text looks at: the prompt, and on a last line the title."""
    if text is None:
        return None
    return f"{text.lower()}\n{' '.join((title or '').lower().split())}"
