"""Line: what fair sharing serves before a job, asked in one statement.

A job is due at the virtual time that its tenant has reached when it is its turn: what the tenant
was served, and its own jobs before this one over its weight. Other tenants' jobs are before it when
they are due before, or then and came earlier.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    Connection,
    Float,
    Select,
    String,
    and_,
    bindparam,
    func,
    or_,
    select,
    union_all,
)

from server.database.tables import jobs, tenants
from server.queue.job import Job
from server.queue.rows import among, order_key, remaining_cost
from server.settings import ServerSettings
from server.states import CLAIMABLE

_KEY, _COST = order_key(bindparam("ageing", type_=Float)), remaining_cost()
_IN_LINE = and_(among(CLAIMABLE), jobs.c.pool == bindparam("pool"))
# Of the job itself
_TENANT, _ITS_KEY = bindparam("tenant", type_=String), bindparam("its_key", type_=Float)


@dataclass(frozen=True, slots=True)
class Ahead:
    """Jobs of one model that are before a job, and the predicted seconds of all of them."""

    model: str
    number: int
    seconds: float


def ahead_of(connection: Connection, settings: ServerSettings, job: Job) -> list[Ahead]:
    """Return what is served before a waiting job, of its own tenant and of others."""
    asked = {
        "tenant": job.tenant,
        "pool": job.pool,
        "its_id": job.id,
        "its_key": job.rank - job.priority * settings.ageing_seconds,
        "ageing": settings.ageing_seconds,
    }
    return [Ahead(**row._mapping) for row in connection.execute(_AHEAD, asked)]


def _ahead() -> CompoundSelect[Any]:
    earlier = or_(_KEY < _ITS_KEY, and_(_KEY == _ITS_KEY, jobs.c.id < bindparam("its_id")))
    own = _summed(jobs.c.model, _COST).where(_IN_LINE, jobs.c.tenant == _TENANT, earlier).cte("own")
    return union_all(select(own), _sooner(_its_turn(own)))


def _its_turn(own: CTE) -> CTE:
    """Return the virtual time at which the job is due."""
    before = func.coalesce(select(func.sum(own.c.seconds)).scalar_subquery(), 0.0)
    due = tenants.c.served + before / tenants.c.weight
    return select(due.label("due")).where(tenants.c.id == _TENANT).cte("its_turn")


def _sooner(its_turn: CTE) -> Select[str, int, Any]:
    """Select what other tenants have that is due before the job."""
    until = func.sum(_COST).over(partition_by=jobs.c.tenant, order_by=(_KEY, jobs.c.id))
    due = tenants.c.served + (until - _COST) / tenants.c.weight
    others = (
        select(jobs.c.model, _COST.label("cost"), _KEY.label("key"), due.label("due"))
        .join(tenants, tenants.c.id == jobs.c.tenant)
        .where(_IN_LINE, jobs.c.tenant != _TENANT)
        .where(tenants.c.served <= select(its_turn.c.due).scalar_subquery())
        .subquery()
    )
    then = and_(others.c.due == its_turn.c.due, others.c.key < _ITS_KEY)
    before = or_(others.c.due < its_turn.c.due, then)
    return _summed(others.c.model, others.c.cost).join(its_turn, before)


def _summed(model: ColumnElement[str], cost: ColumnElement[Any]) -> Select[str, int, Any]:
    summed = select(model, func.count().label("number"), func.sum(cost).label("seconds"))
    return summed.group_by(model)


_AHEAD = _ahead()
