"""Erasing: a job that has ended vanishes, its files first and then all rows about it."""

from sqlalchemy import delete

from server.database.open import Database
from server.database.tables import jobs
from server.keeping.files import delete_files, delete_uploads
from server.keeping.log import truncate_log
from server.keeping.needed import own_inputs
from server.problems import Problem
from server.queue.rows import find_locked
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store


def erase(db: Database, store: Store, settings: ServerSettings, job_id: str) -> None:
    """Delete a job's files, inputs, events, clips, key and row; what it used stays in the ledger.

    Uploads that came inside its request go with it, unless a waiting job needs them.
    A store that fails leaves the rows, so that it can be tried again.
    Raises  Problem not_found, conflict (it has not ended), storage_failed
    """
    inputs = own_inputs(db, job_id)
    with db.write() as connection:
        job = find_locked(connection, job_id)
        if job.state not in TERMINAL:
            raise Problem("conflict", f"{job_id} is {job.state}; cancel it first.")
        delete_files(store, settings, job_id)
        delete_uploads(connection, store, inputs)
        connection.execute(delete(jobs).where(jobs.c.id == job_id))
    if job.zdr:
        truncate_log(db)
