"""Inputs: the uploads that a job names, held in the transaction that writes the job down."""

from collections.abc import Collection

from sqlalchemy import Connection, select, update

from server.database.tables import uploads
from server.inputs.fields import ids_of, references
from server.inputs.upload import PREFIX
from server.problems import Problem
from server.queue.job import Job


def hold_uploads(
    connection: Connection, tenant: str, upload_ids: Collection[str], until: float, now: float
) -> None:
    """Keep uploads until a time at least; nobody deletes them before the transaction has ended.

    Raises  Problem not_found when one expired or was deleted since it was looked at
    """
    if not upload_ids:
        return
    alive = (uploads.c.tenant == tenant, uploads.c.expires_at > now)
    chosen = select(uploads.c.id).where(uploads.c.id.in_(upload_ids), *alive)
    found = set(connection.execute(chosen.order_by(uploads.c.id).with_for_update()).scalars())
    gone = sorted(set(upload_ids) - found)
    if gone:
        raise Problem("not_found", f"The upload {gone[0]!r} is gone; send its file again.")
    _extend(connection, found, until)


def keep_with_results(connection: Connection, job: Job) -> None:
    """Keep what a job that has just ended names for as long as its results, for forks of it."""
    if job.payload is None or job.expires_at is None:
        return
    _extend(connection, ids_of(references(job.payload), PREFIX), job.expires_at)


def _extend(connection: Connection, upload_ids: Collection[str], until: float) -> None:
    """Move the end of uploads to a time, if it is before that; what is marked stays marked."""
    mine = (uploads.c.id.in_(upload_ids), uploads.c.expires_at > 0, uploads.c.expires_at < until)
    if upload_ids:
        connection.execute(update(uploads).where(*mine).values(expires_at=until))
