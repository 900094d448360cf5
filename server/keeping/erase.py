"""Erasing: a job that has ended vanishes, its files first and then all rows about it."""

import time
from collections.abc import Callable

from sqlalchemy import delete

from server.database.open import Database
from server.database.tables import jobs
from server.inputs.deleting import delete_marked, mark_uploads
from server.keeping.files import delete_files
from server.keeping.log import truncate_log
from server.keeping.needed import own_inputs
from server.problems import Problem
from server.queue.change import write
from server.queue.rows import find_locked
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store


def erase(
    db: Database,
    store: Store,
    settings: ServerSettings,
    job_id: str,
    clock: Callable[[], float] = time.time,
) -> None:
    """Delete a job's files, inputs, events, clips, key and row; what it used stays in the ledger.

    Uploads that came inside its request go with it, unless a waiting job needs them. The job is
    marked first (stop = delete, its files gone), so that what is broken off, or a store that fails,
    is gone on with by whoever erases it next; no transaction waits for the store.
    Raises  Problem not_found, conflict (it has not ended), storage_failed
    """
    with db.write() as connection:
        job = find_locked(connection, job_id)
        if job.state not in TERMINAL:
            raise Problem("conflict", f"{job_id} is {job.state}; cancel it first.")
        inputs = own_inputs(connection, job)
        mark_uploads(connection, inputs)
        gone = clock() if job.artifacts_gone_at is None else job.artifacts_gone_at
        write(connection, job, {"stop": "delete", "artifacts_gone_at": gone})
    delete_files(store, settings, job_id)
    delete_marked(db, store, inputs)
    with db.write() as connection:
        connection.execute(delete(jobs).where(jobs.c.id == job_id))
    if job.zdr:
        truncate_log(db)
