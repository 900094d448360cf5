"""Events: what happened to a job, in order; a change of state and its event are one transaction."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from server.database.open import Database
from server.database.tables import events

SETTLE_SECONDS = 10.0
_INSERT = insert(events).returning(events.c.seq)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; seq grows, within a job in the order in which it became visible."""

    seq: int
    job_id: str
    ts: float
    type: str
    data: dict[str, Any]


def append(connection: Connection, job_id: str, type: str, data: dict[str, Any], now: float) -> int:
    """Write an event and return its number.

    The transaction must have written or locked the job's row before: that makes the numbers of one
    job become visible in their order.
    """
    row = {"job_id": job_id, "ts": now, "type": type, "data": data}
    return int(connection.execute(_INSERT, row).scalar_one())


def after(db: Database, job_id: str, seq: int, limit: int = 1000) -> list[Event]:
    """Return a job's events with a number above `seq`, oldest first."""
    chosen = select(events).where(events.c.job_id == job_id, events.c.seq > seq)
    with db.read() as connection:
        rows = connection.execute(chosen.order_by(events.c.seq).limit(limit)).all()
    return [Event(**row._mapping) for row in rows]


def latest(db: Database, job_id: str | None = None) -> int:
    """Return the highest number so far, of one job or of all; 0 when there is none."""
    highest = select(func.max(events.c.seq))
    if job_id is not None:
        highest = highest.where(events.c.job_id == job_id)
    with db.read() as connection:
        return int(connection.execute(highest).scalar_one() or 0)


class Tail:
    """Events of all jobs from now on, each given once.

    Between jobs a lower number may become visible after a higher one. So the last few seconds are
    read anew each time, and what was given already is left out; a transaction that stays open for
    longer than SETTLE_SECONDS is missed.
    """

    def __init__(
        self, db: Database, since: int | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Begin behind the event numbered `since`, or behind the last one."""
        self._db = db
        self._clock = clock
        self._floor = latest(db) if since is None else since
        self._given: dict[int, float] = {}

    def read(self, limit: int = 1000) -> list[Event]:
        """Return at most `limit` events that were not given before, by number."""
        chosen = select(events).where(events.c.seq > self._floor)
        if self._given:
            chosen = chosen.where(events.c.seq.not_in(list(self._given)))
        with self._db.read() as connection:
            rows = connection.execute(chosen.order_by(events.c.seq).limit(limit)).all()
        fresh = [Event(**row._mapping) for row in rows]
        now = self._clock()
        self._given.update((event.seq, now) for event in fresh)
        self._settle(now - SETTLE_SECONDS)
        return fresh

    def _settle(self, before: float) -> None:
        old = [seq for seq, given_at in self._given.items() if given_at < before]
        self._floor = max([self._floor, *old])
        self._given = {seq: at for seq, at in self._given.items() if seq > self._floor}


__all__ = ["SETTLE_SECONDS", "Event", "Tail", "after", "append", "latest"]
