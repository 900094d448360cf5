"""Usage: the ledger added up."""

import datetime
from typing import Any

from sqlalchemy import func, select

from server.database.open import Database
from server.database.tables import usage
from server.problems import Problem
from server.queue.accounts import day_of

GROUPS = ("tenant", "model", "day")


def usage_summary(
    db: Database,
    tenant: str | None,
    group_by: tuple[str, ...] = (),
    since: float | None = None,
    until: float | None = None,
) -> list[dict[str, Any]]:
    """Return the sums of the ledger, one row for each value of what it is grouped by.

    tenant        None: all of them
    group_by      of GROUPS; none: one row
    since, until  whole days (UTC): those that the times lie in are both counted
    Returns       gpu_seconds, unbilled_gpu_seconds, clips, frames, jobs, price, and the groups.
                  Price counts what is billed only.
    Raises        Problem invalid_request for another group
    """
    unknown = [name for name in group_by if name not in GROUPS]
    if unknown:
        raise Problem(
            "invalid_request",
            f"group_by={unknown[0]!r} must be of {', '.join(GROUPS)}.",
            param="group_by",
        )
    groups = [usage.c[name] for name in group_by]
    summed = select(
        *groups,
        _sum(usage.c.gpu_seconds).label("gpu_seconds"),
        _sum(usage.c.gpu_seconds, ~usage.c.billed).label("unbilled_gpu_seconds"),
        _sum(usage.c.clips).label("clips"),
        _sum(usage.c.frames).label("frames"),
        func.count(usage.c.job_id.distinct()).label("jobs"),
        _sum(usage.c.price, usage.c.billed).label("price"),
    )
    if tenant is not None:
        summed = summed.where(usage.c.tenant == tenant)
    if since is not None:
        summed = summed.where(usage.c.day >= day_of(since))
    if until is not None:
        summed = summed.where(usage.c.day <= day_of(until))
    with db.read() as connection:
        rows = connection.execute(summed.group_by(*groups).order_by(*groups)).all()
    return [dict(row._mapping) for row in rows]


def _sum(column: Any, only: Any = None) -> Any:
    total = func.sum(column)
    return func.coalesce(total if only is None else total.filter(only), 0)


def start_of_day(day: str) -> float:
    """Return the time at which a day written as YYYY-MM-DD begins, UTC.

    Raises  Problem invalid_request for anything else
    """
    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:
        raise Problem("invalid_request", f"{day!r} is not a day such as 2026-11-29.") from None
    return datetime.datetime.combine(date, datetime.time(), datetime.UTC).timestamp()
