"""Line: the order in which fair sharing serves what waits, and what is before a job.

A job is due at the virtual time that its tenant has reached when it is its turn: what the tenant
was served, and its own jobs before this one over its weight. Other tenants' jobs are before it when
they are due before, or then and came earlier.
"""

from collections import defaultdict
from collections.abc import Collection
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
    case,
    func,
    literal_column,
    or_,
    select,
    union_all,
)

from server.database.tables import jobs, tenants
from server.queue.job import Job
from server.queue.rows import among, order_key, remaining_cost
from server.settings import ServerSettings
from server.states import CLAIMABLE, LEASED, WAITING, JobState

_KEY, _COST = order_key(bindparam("ageing", type_=Float)), remaining_cost()
_IN_LINE = and_(among(CLAIMABLE), jobs.c.pool == bindparam("pool"))
# Of the job itself
_TENANT, _ITS_KEY = bindparam("tenant", type_=String), bindparam("its_key", type_=Float)
_OPEN = LEASED | WAITING | {JobState.PAUSED}
# Workers have it; it is in line; it waits for something else; it was stopped and is kept.
_STAGE = case(
    (among(LEASED), literal_column("0")),
    (among(CLAIMABLE), literal_column("1")),
    (among(WAITING), literal_column("2")),
    else_=literal_column("3"),
)


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


def ahead_of_each(
    connection: Connection, settings: ServerSettings, ids: Collection[str]
) -> dict[str, list[Ahead]]:
    """Return the same for all of some jobs at once, by id; those that no worker could claim lack.

    It costs as much for one as for many.
    """
    before: defaultdict[str, dict[str, Ahead]] = defaultdict(dict)  # by pool and model
    found = {}
    for row in connection.execute(_IN_ORDER, {"ageing": settings.ageing_seconds}):
        sums = before[row.pool]
        if row.id in ids:
            found[row.id] = list(sums.values())
        so_far = sums.get(row.model, Ahead(row.model, 0, 0.0))
        sums[row.model] = Ahead(row.model, so_far.number + 1, so_far.seconds + row.seconds)
    return found


def _ahead() -> CompoundSelect[Any]:
    earlier = _earlier(_KEY, jobs.c.id)
    own = _summed(jobs.c.model, _COST).where(_IN_LINE, jobs.c.tenant == _TENANT, earlier).cte("own")
    return union_all(select(own), _sooner(_its_turn(own)))


def _earlier(key: ColumnElement[float], id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether another job came before the job."""
    return or_(key < _ITS_KEY, and_(key == _ITS_KEY, id < bindparam("its_id")))


def _its_turn(own: CTE) -> CTE:
    """Return the virtual time at which the job is due."""
    before = func.coalesce(select(func.sum(own.c.seconds)).scalar_subquery(), 0.0)
    due = tenants.c.served + before / tenants.c.weight
    return select(due.label("due")).where(tenants.c.id == _TENANT).cte("its_turn")


def _sooner(its_turn: CTE) -> Select[str, int, Any]:
    """Select what other tenants have that is due before the job."""
    cost, key, due = _COST.label("cost"), _KEY.label("key"), _due().label("due")
    others = (
        select(jobs.c.id, jobs.c.model, cost, key, due)
        .join(tenants, tenants.c.id == jobs.c.tenant)
        .where(_IN_LINE, jobs.c.tenant != _TENANT)
        .where(tenants.c.served <= select(its_turn.c.due).scalar_subquery())
        .subquery()
    )
    then = and_(others.c.due == its_turn.c.due, _earlier(others.c.key, others.c.id))
    before = or_(others.c.due < its_turn.c.due, then)
    return _summed(others.c.model, others.c.cost).join(its_turn, before)


def _due(*alike: ColumnElement[Any]) -> ColumnElement[float]:
    """Return when it is a job's turn among those of its tenant that are alike."""
    own = func.sum(_COST).over(
        partition_by=(jobs.c.tenant, *alike), order_by=(_KEY, jobs.c.id), rows=(None, -1)
    )
    return tenants.c.served + func.coalesce(own, 0.0) / tenants.c.weight


def _summed(model: ColumnElement[str], cost: ColumnElement[Any]) -> Select[str, int, Any]:
    summed = select(model, func.count().label("number"), func.sum(cost).label("seconds"))
    return summed.group_by(model)


def _line() -> CTE:
    """Number all jobs that have not ended as they will run: what workers have comes first.

    Of pools, whoever is due first. What is not in line comes behind it: first what is held, as it
    would be served, then what is paused.
    """
    due = case((among(WAITING), _due(jobs.c.pool, _STAGE)), else_=0.0)
    each = (
        select(jobs.c.id, jobs.c.tenant, jobs.c.pool, jobs.c.model, _COST.label("seconds"),
               _STAGE.label("stage"), due.label("due"), _KEY.label("key"))
        .join(tenants, tenants.c.id == jobs.c.tenant)
        .where(among(_OPEN))
        .subquery()
    )  # fmt: skip
    order = (each.c.stage, each.c.due, each.c.key, each.c.id)
    return select(each, func.row_number().over(order_by=order).label("number")).cte("line")


_AHEAD = _ahead()
LINE = _line()  # wants the parameter ageing
_IN_ORDER = (
    select(LINE.c.id, LINE.c.pool, LINE.c.model, LINE.c.seconds)
    .where(LINE.c.stage == literal_column("1"))
    .order_by(LINE.c.number)
)
