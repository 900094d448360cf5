"""Which uploads and results of other jobs a job refers to, and who still needs them."""

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, or_, select

from server.database.open import Database
from server.database.tables import jobs, uploads
from server.inputs.fields import ids_of, references
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import payload_in
from server.states import TERMINAL

_WAITS = jobs.c.state.not_in(sorted(state.value for state in TERMINAL))
_CAN_BE_FORKED = and_(jobs.c.artifacts_gone_at.is_(None), ~jobs.c.zdr)


def still_needed(db: Database) -> frozenset[str]:
    """Return "upload:<id>" and "job:<id>" of all that jobs which have not ended refer to."""
    found: set[str] = set()
    with db.read() as connection:
        for row in connection.execute(select(jobs).where(_WAITS)).all():
            job = Job.of(row)
            if job.parent is not None:
                found.add(JOB_PREFIX + job.parent)
            found |= _references_of(connection, job)
    return frozenset(found)


def own_inputs(connection: Connection, job: Job) -> list[str]:
    """Return the ids of the uploads that came inside a job's request and no other job needs.

    Another one needs them while it waits for them or can be forked; of a zero-retention job, only
    while it waits. The uploads' rows are locked, so that no new job can name them before the
    transaction has ended.
    """
    ids = ids_of(_references_of(connection, job), PREFIX)
    others = _WAITS if job.zdr else or_(_WAITS, _CAN_BE_FORKED)
    return _unneeded(connection, ids, and_(jobs.c.id != job.id, others))


def replaced_inputs(connection: Connection, job: Job) -> list[str]:
    """Return the same of a job whose row holds another request by now.

    job  as it was before
    """
    ids = ids_of(_references_of(connection, job), PREFIX)
    return _unneeded(connection, ids, or_(_WAITS, _CAN_BE_FORKED))


def _unneeded(connection: Connection, ids: list[str], by: ColumnElement[bool]) -> list[str]:
    if not ids:
        return []
    chosen = select(uploads).where(uploads.c.id.in_(ids))
    rows = connection.execute(chosen.order_by(uploads.c.id).with_for_update()).all()
    inline = [row.id for row in rows if row.facts.get("inline")]
    tenants = jobs.c.tenant.in_({row.tenant for row in rows})
    needed = _needed_of(connection, inline, and_(tenants, by)) if inline else set()
    return [found for found in inline if PREFIX + found not in needed]


def _needed_of(connection: Connection, upload_ids: list[str], by: ColumnElement[bool]) -> set[str]:
    """Return what some jobs refer to, of those that may refer to one of some uploads."""
    told = [cast(jobs.c.payload, Text).contains(found) for found in upload_ids]
    chosen = select(jobs).where(by, or_(jobs.c.cipher.is_not(None), *told))
    return {
        name
        for row in connection.execute(chosen).all()
        for name in _references_of(connection, Job.of(row))
    }


def _references_of(connection: Connection, job: Job) -> set[str]:
    try:
        return references(payload_in(connection, job))
    except Problem:  # the request was destroyed
        return set()
