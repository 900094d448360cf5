"""Inputs: the uploads that a job names, held in the transaction that writes the job down."""

from collections.abc import Collection

from sqlalchemy import Connection, case, select, update

from server.database.tables import uploads
from server.problems import Problem


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
    later = case((uploads.c.expires_at < until, until), else_=uploads.c.expires_at)
    connection.execute(update(uploads).where(uploads.c.id.in_(found)).values(expires_at=later))
