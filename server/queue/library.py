"""Library: finding jobs of a tenant, a page at a time, by age or as they will run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, and_, cast, func, or_, select

from server.database.tables import jobs
from server.problems import Problem
from server.queue.job import Job
from server.queue.line import LINE
from server.queue.rows import among, find
from server.settings import ServerSettings
from server.states import TERMINAL, JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which jobs are looked for; all that are given must hold.

    text          words that prompt and title contain, in any case
    tags          all of them
    trashed       False: those not in the trash; True: only those in it
    since, until  created at or after, and before
    """

    text: str | None = None
    model: str | None = None
    states: tuple[JobState, ...] = ()
    tags: tuple[str, ...] = ()
    starred: bool | None = None
    trashed: bool = False
    parent: str | None = None
    since: float | None = None
    until: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs in order. last_id: from where the next page goes on."""

    jobs: list[Job]
    has_more: bool
    last_id: str | None


def page(
    connection: Connection,
    tenant: str | None,
    after: str | None,
    limit: int,
    order: Literal["asc", "desc"],
    filters: Filters,
) -> Page:
    """Return the jobs behind another one, by the time they were made.

    Raises  Problem not_found when that one is not the tenant's
    """
    chosen = select(jobs).where(*_conditions(connection, filters))
    if tenant is not None:
        chosen = chosen.where(jobs.c.tenant == tenant)
    if after is not None:
        last = find(connection, after, tenant)
        chosen = chosen.where(_behind(last, order))
    by = (jobs.c.created_at, jobs.c.id)
    ordered = by if order == "asc" else tuple(column.desc() for column in by)
    return _page(connection.execute(chosen.order_by(*ordered).limit(limit + 1)).all(), limit)


def queue_page(
    connection: Connection,
    settings: ServerSettings,
    tenant: str | None,
    after: str | None,
    limit: int,
    filters: Filters,
) -> Page:
    """Return the jobs that have not ended behind another one, in the order in which they will run.

    All are behind one that has ended: what moves on while pages are read may come twice.
    Raises  Problem not_found when that one is not the tenant's, invalid_request for filters that
            only jobs that have ended meet
    """
    _check_open(filters)
    mine = [] if tenant is None else [LINE.c.tenant == tenant]
    if after is not None:
        find(connection, after, tenant)
        last = LINE.alias("last")
        its = select(last.c.number).where(last.c.id == after).scalar_subquery()
        mine.append(LINE.c.number > func.coalesce(its, 0))
    # Rows of jobs are wide: only those of the page are read whole.
    first = (
        select(LINE.c.id, LINE.c.number)
        .join(jobs, jobs.c.id == LINE.c.id)
        .where(*mine, *_conditions(connection, filters))
        .order_by(LINE.c.number)
        .limit(limit + 1)
        .subquery()
    )
    chosen = select(jobs).join(first, first.c.id == jobs.c.id).order_by(first.c.number)
    rows = connection.execute(chosen, {"ageing": settings.ageing_seconds}).all()
    return _page(rows, limit)


def _page(rows: Sequence[Row[Any]], limit: int) -> Page:
    found = [Job.of(row) for row in rows[:limit]]
    return Page(found, len(rows) > limit, found[-1].id if found else None)


def _check_open(filters: Filters) -> None:
    ended = sorted(TERMINAL.intersection(filters.states))
    asked = ("state", f"state={ended[0]}") if ended else ("trashed", "trashed=true")
    if ended or filters.trashed:
        name, text = asked
        raise Problem(
            "invalid_request",
            f"order=queue lists jobs that have not ended, and {text} is of those that have; leave "
            "it out, or ask for order=asc or order=desc.",
            param=name,
        )


def _behind(last: Job, order: Literal["asc", "desc"]) -> ColumnElement[bool]:
    at, id = jobs.c.created_at, jobs.c.id
    if order == "asc":
        return or_(at > last.created_at, and_(at == last.created_at, id > last.id))
    return or_(at < last.created_at, and_(at == last.created_at, id < last.id))


def _conditions(connection: Connection, filters: Filters) -> list[ColumnElement[bool]]:
    trashed = jobs.c.trashed_at.is_not(None) if filters.trashed else jobs.c.trashed_at.is_(None)
    words = (filters.text or "").lower().split()
    found: list[ColumnElement[bool]] = [trashed]
    found += [jobs.c.search.contains(word, autoescape=True) for word in words]
    found += [_tagged(connection, tag) for tag in filters.tags]
    if filters.states:
        found.append(among(filters.states))
    if filters.seed is not None:
        seed = cast(jobs.c.decided["seed"].as_string(), BigInteger)
        found.append(seed == filters.seed)
    if filters.since is not None:
        found.append(jobs.c.created_at >= filters.since)
    if filters.until is not None:
        found.append(jobs.c.created_at < filters.until)
    same = {"model": filters.model, "starred": filters.starred, "parent": filters.parent}
    found += [jobs.c[name] == value for name, value in same.items() if value is not None]
    return found


def _tagged(connection: Connection, tag: str) -> ColumnElement[bool]:
    listed: Any = (
        func.json_each(jobs.c.tags)
        if connection.dialect.name == "sqlite"
        else func.json_array_elements_text(jobs.c.tags)
    )
    each = listed.table_valued("value")
    return select(each.c.value).where(each.c.value == tag).exists()
