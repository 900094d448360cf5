"""Which uploads and results of other jobs a job refers to, and who still needs them."""

from sqlalchemy import Connection, Text, cast, or_, select

from server.database.open import Database
from server.database.tables import jobs, uploads
from server.inputs.fields import ids_of, references
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import payload_in
from server.states import TERMINAL

_OPEN = select(jobs).where(jobs.c.state.not_in(sorted(state.value for state in TERMINAL)))


def still_needed(db: Database) -> frozenset[str]:
    """Return "upload:<id>" and "job:<id>" of all that jobs which have not ended refer to."""
    found: set[str] = set()
    with db.read() as connection:
        for row in connection.execute(_OPEN).all():
            job = Job.of(row)
            if job.parent is not None:
                found.add(JOB_PREFIX + job.parent)
            found |= _references_of(connection, job)
    return frozenset(found)


def own_inputs(connection: Connection, job: Job) -> list[str]:
    """Return the ids of the uploads that came inside a job's request and no other job waits for.

    Their rows are locked, so that no new job can name them before the transaction has ended.
    """
    return unneeded(connection, ids_of(_references_of(connection, job), PREFIX))


def unneeded(connection: Connection, ids: list[str]) -> list[str]:
    """Return those of some uploads that came inside a request and no job waits for; as above."""
    if not ids:
        return []
    chosen = select(uploads.c.id, uploads.c.facts).where(uploads.c.id.in_(ids))
    rows = connection.execute(chosen.order_by(uploads.c.id).with_for_update()).all()
    inline = [row.id for row in rows if row.facts.get("inline")]
    needed = _needed_of(connection, inline)
    return [found for found in inline if PREFIX + found not in needed]


def _needed_of(connection: Connection, upload_ids: list[str]) -> set[str]:
    """Return what open jobs refer to, of those that may refer to one of some uploads."""
    told = [cast(jobs.c.payload, Text).contains(found) for found in upload_ids]
    rows = connection.execute(_OPEN.where(or_(jobs.c.cipher.is_not(None), *told))).all()
    return {name for row in rows for name in _references_of(connection, Job.of(row))}


def _references_of(connection: Connection, job: Job) -> set[str]:
    try:
        return references(payload_in(connection, job))
    except Problem:  # the request was destroyed
        return set()
