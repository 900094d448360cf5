"""Load: how much waits."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from server.database.tables import jobs
from server.queue.rows import among, remaining_cost
from server.states import WAITING


@dataclass(frozen=True, slots=True)
class Load:
    """Waiting jobs, and the seconds that they are predicted to take."""

    queued: int
    backlog: float


def load_of(connection: Connection, tenant: str | None = None) -> Load:
    """Return what waits, of one tenant or of all."""
    counted = select(func.count(), func.coalesce(func.sum(remaining_cost()), 0.0))
    counted = counted.where(among(WAITING))
    if tenant is not None:
        counted = counted.where(jobs.c.tenant == tenant)
    queued, backlog = connection.execute(counted).one()
    return Load(int(queued), float(backlog))
