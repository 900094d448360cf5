"""The sweep: all that has had its time is deleted, a bounded piece of work each turn.

Several processes may sweep at once. What a failing store keeps is tried again in the next turn.
"""

import functools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, func, or_, select, update

from server.database.open import Database
from server.database.tables import deliveries, events, jobs, uploads, webhook_endpoints
from server.inputs.deleting import delete_marked, mark_uploads
from server.inputs.fields import ids_of
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.keeping.erase import erase
from server.keeping.files import delete_files
from server.keeping.log import truncate_log
from server.keeping.needed import still_needed
from server.keeping.orphans import sweep_orphans
from server.keeping.shred import SHRED_SECONDS, shred
from server.keeping.work import sweep_work
from server.problems import Problem
from server.queue.tallies import fold
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store

DELIVERY_SECONDS = 7 * 86400
ORPHANS_EVERY_SECONDS = 3600
log = logging.getLogger("vidgen.server")
_ENDED = jobs.c.state.in_(sorted(state.value for state in TERMINAL))


@dataclass(frozen=True, slots=True)
class Swept:
    """How many of each kind were deleted, and how many could not be."""

    results: int = 0
    trash: int = 0
    uploads: int = 0
    shredded: int = 0
    folders: int = 0
    orphans: int = 0
    deliveries: int = 0
    failed: int = 0


def sweep(
    db: Database,
    store: Store,
    settings: ServerSettings,
    clock: Callable[[], float] = time.time,
    limit: int = 100,
    *,
    orphans: bool | None = None,
) -> Swept:
    """Delete at most `limit` things of each kind.

    orphans  whether the store is listed for files that no row knows; None: every hour
    """
    turn = _Turn(db, store, settings, clock, limit)
    now = clock()
    if orphans is None:
        # Twice the time between turns, which are not quite regular.
        orphans = now % ORPHANS_EVERY_SECONDS < 2 * settings.sweep_seconds
    shredded = turn.each(turn.shreddable(now), turn.shred)
    trash = turn.each(turn.trashed(now), turn.erase)
    results = turn.each(turn.expired(now), turn.let_go)
    kept = turn.each(turn.expired_uploads(now), turn.delete_upload)
    folders, stuck = sweep_work(db, settings, clock, limit)
    lost, unlisted = _orphans(db, store, now, limit) if orphans else (0, 0)
    told = turn.delete_deliveries(now)
    fold(db)
    truncate_log(db)
    failed = turn.failed + stuck + unlisted
    return Swept(results, trash, kept, shredded, folders, lost, told, failed)


class _Turn:
    def __init__(
        self,
        db: Database,
        store: Store,
        settings: ServerSettings,
        clock: Callable[[], float],
        limit: int,
    ) -> None:
        self.failed = 0
        self._db = db
        self._store = store
        self._settings = settings
        self._clock = clock
        self._limit = limit

    def each(self, ids: Iterable[str], deed: Callable[[str], bool]) -> int:
        """Do one deed for each; what fails is left for the next turn and hinders no other."""
        done = 0
        for found in ids:
            try:
                done += deed(found)
            except Problem as problem:
                self.failed += problem.code not in ("not_found", "conflict")  # someone was quicker
                log.warning("sweeping %s: %s", found, problem.code)
        return done

    def shreddable(self, now: float) -> list[str]:
        """Zero-retention jobs past their time, and those whose shredding was broken off."""
        past = or_(
            jobs.c.expires_at <= now,
            jobs.c.completed_at <= now - SHRED_SECONDS,
            jobs.c.artifacts_gone_at.is_not(None),
        )
        return self._jobs(jobs.c.zdr, jobs.c.expires_at.is_not(None), past)

    def shred(self, job_id: str) -> bool:
        shred(self._db, self._store, self._settings, job_id, self._clock)
        return True

    def trashed(self, now: float) -> list[str]:
        return self._jobs(jobs.c.trashed_at <= now - self._settings.trash_seconds)

    def erase(self, job_id: str) -> bool:
        erase(self._db, self._store, self._settings, job_id, self._clock)
        return True

    def expired(self, now: float) -> list[str]:
        """Jobs whose results nobody may fetch any more and no other job needs; also those whose
        results were let go before and whose files could not be deleted.
        """
        found = self._jobs(*_expired(now))
        needed = ids_of(self._needed, JOB_PREFIX) if found else []
        return self._jobs(*_expired(now), jobs.c.id.not_in(needed)) if needed else found

    def let_go(self, job_id: str) -> bool:
        """Delete a job's files and previews; the row stays and says that they are gone.

        While files are left of it, the row has artifacts_gone_at and expires_at.
        """
        now = self._clock()
        gone = func.coalesce(jobs.c.artifacts_gone_at, now)
        mine = update(jobs).where(jobs.c.id == job_id, *_expired(now))
        with self._db.write() as connection:
            if not connection.execute(mine.values(artifacts_gone_at=gone)).rowcount:
                return False
            previews = delete(events).where(events.c.job_id == job_id, events.c.type == "preview")
            connection.execute(previews)
        delete_files(self._store, self._settings, job_id)
        with self._db.write() as connection:
            return connection.execute(mine.values(expires_at=None)).rowcount == 1

    def expired_uploads(self, now: float) -> list[str]:
        """Uploads past their time that no other job needs."""
        chosen = select(uploads.c.id).where(uploads.c.expires_at <= now)
        chosen = chosen.order_by(uploads.c.expires_at).limit(self._limit)
        with self._db.read() as connection:
            found = list(connection.execute(chosen).scalars())
        needed = ids_of(self._needed, PREFIX) if found else []
        if not needed:
            return found
        with self._db.read() as connection:
            return list(connection.execute(chosen.where(uploads.c.id.not_in(needed))).scalars())

    def delete_upload(self, upload_id: str) -> bool:
        mine = select(uploads.c.id).where(
            uploads.c.id == upload_id, uploads.c.expires_at <= self._clock()
        )
        with self._db.write() as connection:
            if connection.execute(mine.with_for_update()).first() is None:
                return False  # it was named anew and lasts longer
            mark_uploads(connection, [upload_id])
        return delete_marked(self._db, self._store, [upload_id]) == 1

    def delete_deliveries(self, now: float) -> int:
        """Delete old records of webhooks, and secrets that sign no more."""
        old = select(deliveries.c.id).where(deliveries.c.created_at <= now - DELIVERY_SECONDS)
        table = webhook_endpoints
        spent = update(table).where(table.c.old_secret_until <= now)
        with self._db.write() as connection:
            connection.execute(spent.values(old_secret=None, old_secret_until=None))
            mine = delete(deliveries).where(deliveries.c.id.in_(old.limit(self._limit)))
            return connection.execute(mine).rowcount

    @functools.cached_property
    def _needed(self) -> frozenset[str]:
        return still_needed(self._db)

    def _jobs(self, *conditions: ColumnElement[bool]) -> list[str]:
        chosen = select(jobs.c.id).where(_ENDED, *conditions)
        with self._db.read() as connection:
            found = connection.execute(chosen.order_by(jobs.c.completed_at).limit(self._limit))
            return list(found.scalars())


def _expired(now: float) -> tuple[ColumnElement[bool], ...]:
    return _ENDED, ~jobs.c.zdr, jobs.c.expires_at <= now


def _orphans(db: Database, store: Store, now: float, limit: int) -> tuple[int, int]:
    try:
        return sweep_orphans(db, store, now, limit)
    except Problem as problem:  # it cannot be listed
        log.warning("sweeping the store: %s", problem.code)
        return 0, 1
