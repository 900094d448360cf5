"""Which uploads and results of other jobs a job refers to, and who still needs them."""

from sqlalchemy import select

from server.database.open import Database
from server.database.tables import jobs, uploads
from server.inputs.fields import references
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import payload_of
from server.states import TERMINAL


def still_needed(db: Database) -> frozenset[str]:
    """Return "upload:<id>" and "job:<id>" of all that jobs which have not ended refer to."""
    ended = sorted(state.value for state in TERMINAL)
    with db.read() as connection:
        rows = connection.execute(select(jobs).where(jobs.c.state.not_in(ended))).all()
    found: set[str] = set()
    for row in rows:
        job = Job.of(row)
        if job.parent is not None:
            found.add(JOB_PREFIX + job.parent)
        found |= _references_of(db, job)
    return frozenset(found)


def ids_of(names: frozenset[str], prefix: str) -> list[str]:
    """Return the ids of the names that begin with "upload:" or "job:"."""
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def own_inputs(db: Database, job_id: str) -> list[str]:
    """Return the ids of the uploads that came inside a job's request and no other job waits for."""
    with db.read() as connection:
        row = connection.execute(select(jobs).where(jobs.c.id == job_id)).one_or_none()
    named = frozenset() if row is None else frozenset(_references_of(db, Job.of(row)))
    ids = ids_of(named, PREFIX)
    if not ids:
        return []
    chosen = select(uploads.c.id, uploads.c.facts).where(uploads.c.id.in_(ids))
    with db.read() as connection:
        rows = connection.execute(chosen).all()
    needed = still_needed(db)
    return [
        found.id for found in rows if found.facts.get("inline") and PREFIX + found.id not in needed
    ]


def _references_of(db: Database, job: Job) -> set[str]:
    try:
        return references(payload_of(db, job))
    except Problem:  # the request was destroyed
        return set()
