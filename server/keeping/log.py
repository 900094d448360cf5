"""SQLite's write-ahead log, which keeps old contents of the file until it is emptied."""

from server.database.open import BUSY_SECONDS, Database

_WAIT_MS = 2000  # writers stand still meanwhile


def truncate_log(db: Database) -> bool:
    """Empty the log; return False when a reader was in the way, and True on Postgres.

    The file itself holds no deleted content: secure_delete is on.
    """
    if not db.is_sqlite:
        return True
    connection = db.engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_WAIT_MS}")
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = cursor.fetchone()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        cursor.close()
    finally:
        connection.close()
    return found is not None and found[0] == 0
