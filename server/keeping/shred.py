"""Shredding: what a zero-retention job was asked and what it made is destroyed.

The row stays, with numbers and states only, so that its owner can see that there was a job and what
it used. On SQLite nothing is left in the file or its log; Postgres keeps old rows until its own
clean-up, but of the request only the ciphertext, whose key the same clean-up takes.
"""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, delete, select, update

from server.database.open import Database
from server.database.tables import clips, events, job_secrets, jobs, uploads
from server.inputs.deleting import delete_marked, mark_uploads
from server.keeping.files import delete_files
from server.keeping.log import truncate_log
from server.keeping.needed import own_inputs
from server.problems import Problem
from server.queue.job import Job
from server.queue.rows import find_locked
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store

SHRED_SECONDS = 3600  # after its end, when nobody has downloaded it
_KEPT_OF_EVENTS = ("state", "status", "progress")


def shred(
    db: Database,
    store: Store,
    settings: ServerSettings,
    job_id: str,
    clock: Callable[[], float] = time.time,
) -> None:
    """Destroy a zero-retention job that has ended: rows at once, then files; twice does no harm.

    When the store fails the request is destroyed all the same, and the sweep tries the files again.
    Raises  Problem not_found, conflict (it has not ended, or is no such job), storage_failed
    """
    with db.write() as connection:
        job = find_locked(connection, job_id)
        if not job.zdr or job.state not in TERMINAL:
            raise Problem("conflict", f"{job_id} is {job.state} and is not to be shredded.")
        inputs = own_inputs(connection, job)
        _forget(connection, job, clock())
        mark_uploads(connection, inputs)
        mine = update(uploads).where(uploads.c.id.in_(inputs))
        connection.execute(mine.values(filename="", facts={}))
    delete_files(store, settings, job_id)
    delete_marked(db, store, inputs)
    with db.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job_id).values(expires_at=None))
    truncate_log(db)


def _forget(connection: Connection, job: Job, now: float) -> None:
    """Delete the key and every text of the job from its rows."""
    connection.execute(delete(job_secrets).where(job_secrets.c.job_id == job.id))
    gone = job.artifacts_gone_at or now
    values: dict[str, Any] = {"payload": None, "cipher": None, "options": {}, "artifacts": {}}
    values |= {"title": None, "tags": [], "search": None, "report": None, "hold_reason": None}
    values |= {"idempotency_key": None, "body_hash": None, "artifacts_gone_at": gone}
    values["decided"] = {
        name: value for name, value in job.decided.items() if isinstance(value, int | float)
    }
    if job.error is not None:
        values["error"] = Problem(job.error["code"], "Its details are not kept.").as_dict()
    connection.execute(update(jobs).where(jobs.c.id == job.id).values(values))
    mine = update(clips).where(clips.c.job_id == job.id)
    connection.execute(mine.values(artifacts={}, metrics={}))
    _forget_events(connection, job.id)


def _forget_events(connection: Connection, job_id: str) -> None:
    """Keep the events of ends, and of those the state only."""
    of_job = events.c.job_id == job_id
    connection.execute(delete(events).where(of_job, events.c.type.not_like("video.%")))
    for row in connection.execute(select(events.c.seq, events.c.data).where(of_job)).all():
        kept = {name: row.data[name] for name in _KEPT_OF_EVENTS if name in row.data}
        connection.execute(update(events).where(events.c.seq == row.seq).values(data=kept))
