"""Standing: what is open in the queue, counted in one statement that reads one index only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select

from server.database.tables import jobs
from server.queue.rows import among, remaining_cost
from server.states import CLAIMABLE, LEASED, WAITING

_OPEN = (
    select(
        jobs.c.state,
        jobs.c.tenant,
        func.count().label("number"),
        func.sum(remaining_cost()).label("seconds"),
        func.sum(jobs.c.disk_bytes).label("disk_bytes"),
        func.sum(jobs.c.charged_seconds).label("charged"),
        func.max(jobs.c.rank).label("last_rank"),
    )
    .where(among(WAITING | LEASED))
    .group_by(jobs.c.state, jobs.c.pool, jobs.c.tenant)
)


@dataclass(frozen=True, slots=True)
class Load:
    """What waits, of all tenants or of one. backlog: predicted seconds."""

    queued: int
    backlog: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What is open, of all tenants and of one.

    everyone, its  what waits
    disk_bytes     that all open jobs may need
    charged        predicted seconds of its jobs that workers have
    last_rank      of its waiting jobs; None: none waits
    claimable      whether a worker could claim one of its jobs
    """

    everyone: Load
    its: Load
    disk_bytes: int
    charged: float
    last_rank: float | None
    claimable: bool


def standing_of(
    connection: Connection, tenant: str | None = None, without: str | None = None
) -> Standing:
    """Count what is open now.

    tenant   whose own share is told too, None: nobody's
    without  a job that is not counted
    """
    chosen = _OPEN if without is None else _OPEN.where(jobs.c.id != without)
    rows = connection.execute(chosen).all()
    its = [row for row in rows if row.tenant == tenant]
    ranks = [float(row.last_rank) for row in its if row.state in WAITING]
    return Standing(
        everyone=_load(rows),
        its=_load(its),
        disk_bytes=sum(int(row.disk_bytes) for row in rows),
        charged=sum(float(row.charged) for row in its if row.state in LEASED),
        last_rank=max(ranks, default=None),
        claimable=any(row.state in CLAIMABLE for row in its),
    )


def _load(rows: Sequence[Row[Any]]) -> Load:
    waiting = [row for row in rows if row.state in WAITING]
    return Load(sum(int(row.number) for row in waiting), sum(float(row.seconds) for row in waiting))
