"""Folders of unfinished work whose jobs are finished or gone, and what uploads left behind."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import and_, or_, select

from server.database.open import Database
from server.database.tables import jobs
from server.ids import pattern_of
from server.inputs.uploads import INCOMING
from server.keeping.files import delete_folder
from server.problems import Problem
from server.settings import ServerSettings
from server.states import JobState

GRACE_SECONDS = 3600  # for a worker that is just finishing
INCOMING_SECONDS = 86400
_JOB = re.compile(pattern_of("video"))
_BATCH = 500


def sweep_work(
    db: Database,
    settings: ServerSettings,
    clock: Callable[[], float] = time.time,
    limit: int = 100,
) -> tuple[int, int]:
    """Delete at most `limit` folders on this machine; return how many, and how many failed.

    Jobs that failed, were cancelled or are paused keep theirs as long as they can be resumed,
    finished chains for a while: forks and new takes of theirs share the clips.
    """
    done = failed = 0
    for folder in _unwanted(db, settings, clock()):
        if done + failed == limit:
            break
        try:
            delete_folder(folder)
            done += 1
        except Problem:
            failed += 1
    return done, failed


def _unwanted(db: Database, settings: ServerSettings, now: float) -> Iterator[Path]:
    root, keep = Path(settings.work), settings.chain_work_seconds
    found = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    names = [name for name in found if _JOB.fullmatch(name)]
    old = [name for name in names if _age(root / name, now) > GRACE_SECONDS]
    for first in range(0, len(old), _BATCH):
        batch = old[first : first + _BATCH]
        wanted = _wanted(db, batch, now - keep)
        yield from (root / name for name in batch if name not in wanted)
    incoming = root / INCOMING
    for path in sorted(incoming.iterdir()) if incoming.is_dir() else []:
        if _age(path, now) > INCOMING_SECONDS:
            yield path


def _age(path: Path, now: float) -> float:
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:  # its owner was quicker
        return 0.0


def _wanted(db: Database, job_ids: list[str], since: float) -> set[str]:
    """Return those of some jobs that may still go on, and the chains that ended since a time."""
    forkable = and_(jobs.c.kind == "chain", ~jobs.c.zdr, jobs.c.completed_at >= since)
    chosen = select(jobs.c.id).where(
        jobs.c.id.in_(job_ids),
        or_(jobs.c.state != JobState.COMPLETED.value, forkable),
        jobs.c.artifacts_gone_at.is_(None),
    )
    with db.read() as connection:
        return set(connection.execute(chosen).scalars())
