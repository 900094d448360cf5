"""Files in the store that no row knows: left by a process that died between file and row."""

from collections.abc import Iterator

from sqlalchemy import select

from server.database.open import Database
from server.database.tables import jobs, uploads
from server.problems import Problem
from server.store import Store

ORPHAN_SECONDS = 86400
_BATCH = 500


def sweep_orphans(db: Database, store: Store, now: float, limit: int) -> tuple[int, int]:
    """Delete at most `limit` orphans older than a day; return how many, and how many failed."""
    done = failed = 0
    for prefix in _orphans(db, store):
        if done + failed == limit:
            break
        try:
            if store.modified(prefix) < now - ORPHAN_SECONDS:
                store.delete_prefix(prefix)
                done += 1
        except Problem:
            failed += 1
    return done, failed


def _orphans(db: Database, store: Store) -> Iterator[str]:
    for top in ("jobs/", "uploads/"):
        names = store.folders(top)
        for first in range(0, len(names), _BATCH):
            batch = names[first : first + _BATCH]
            known = _known(db, top, batch)
            yield from (f"{top}{name}/" for name in batch if name not in known)


def _known(db: Database, top: str, names: list[str]) -> set[str]:
    """Return the names whose rows still speak of files."""
    if top == "uploads/":
        chosen = select(uploads.c.id).where(uploads.c.id.in_(names))
    else:
        chosen = select(jobs.c.id).where(jobs.c.id.in_(names), jobs.c.artifacts_gone_at.is_(None))
    with db.read() as connection:
        return set(connection.execute(chosen).scalars())
