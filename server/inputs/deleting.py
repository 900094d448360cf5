"""Deleting uploads: marked in a transaction, then their files outside any, and the rows last.

Marked is what has expired since the beginning of time: nobody finds it any more, and the sweep goes
on with what was broken off.
"""

from collections.abc import Collection

from sqlalchemy import Connection, delete, update

from server.database.open import Database
from server.database.tables import uploads
from server.store import Store

_MARK = 0.0


def mark_uploads(connection: Connection, upload_ids: Collection[str]) -> None:
    """Let no request name some uploads any more."""
    mine = update(uploads).where(uploads.c.id.in_(upload_ids))
    connection.execute(mine.values(expires_at=_MARK))


def delete_marked(db: Database, store: Store, upload_ids: Collection[str]) -> int:
    """Delete marked uploads, the files and then the rows; return how many others had not yet.

    Raises  Problem storage_failed, which leaves the rows for the sweep
    """
    if not upload_ids:
        return 0
    for upload_id in upload_ids:
        store.delete_prefix(f"uploads/{upload_id}/")
    mine = delete(uploads).where(uploads.c.id.in_(upload_ids), uploads.c.expires_at == _MARK)
    with db.write() as connection:
        return connection.execute(mine).rowcount
