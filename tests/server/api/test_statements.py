"""What a create and a retrieve ask of the database: how often, and nothing row by row of jobs."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from server.api import devices
from server.database import Database
from server.queue.keys import create_key
from server.queue.tenants import set_bounds
from tests.server.api.site import Site

Asked = list[tuple[str, Any]]
_GROWING = r"(jobs|events|clips|usage|deliveries)"  # tables of which no page should be all read

# In order: who calls, how far off predictions are; the transaction that admits: the tenant, the
# workers, all that is open, the job, its event; its place: what is before it, the workers, what
# they have, how far off predictions are.
CREATE = ["api_keys", "rates", "tenants", "workers", "jobs", "jobs", "events", "jobs", "workers",
          "jobs", "rates"]  # fmt: skip
RETRIEVE = ["api_keys", "jobs", "jobs", "workers", "jobs", "rates"]
# The page; then of all its jobs what is before them, and the rest of a place.
QUEUE = ["api_keys", "jobs", "jobs", "workers", "jobs", "rates"]


@contextmanager
def listening(db: Database) -> Iterator[Asked]:
    """Collect the statements of a block, without those that begin a transaction."""
    found: Asked = []

    def note(_connection: Any, _cursor: Any, text: str, values: Any, *_: Any) -> None:
        if not text.startswith("BEGIN"):
            found.append((text, values))

    event.listen(db.engine, "before_cursor_execute", note)
    yield found
    event.remove(db.engine, "before_cursor_execute", note)


def tables(asked: Asked) -> list[str]:
    """Return the first table of each statement."""
    return [re.search(r"(?:FROM|INTO|UPDATE) (\w+)", text)[1] for text, _ in asked]  # type: ignore[index]


def plans(db: Database, asked: Asked) -> list[list[str]]:
    """Return the steps in which SQLite finds the rows of each statement."""
    with db.read() as connection:
        return [
            [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)]
            for text, values in asked
        ]


@pytest.fixture
def long_queue(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a site with a worker, jobs that wait and the devices known already."""
    monkeypatch.setattr(devices, "FRESH_SECONDS", 1e9)
    site.worker()
    for number in range(3):
        site.created(seed=number)
    return site


def test_the_statements_of_a_create_are_these(long_queue: Site) -> None:
    with listening(long_queue.floor.db) as asked:
        long_queue.created(seed=9)
    assert tables(asked) == CREATE


def test_a_longer_queue_asks_no_more(long_queue: Site) -> None:
    for number in range(20):
        long_queue.created(seed=100 + number)
    with listening(long_queue.floor.db) as asked:
        made = long_queue.created(seed=9)
    assert made["queue_position"] == 24
    assert tables(asked) == CREATE


def test_the_statements_of_a_retrieve_are_these(long_queue: Site) -> None:
    made = long_queue.created(seed=9)
    with listening(long_queue.floor.db) as asked:
        assert long_queue.http.get(f"/v1/videos/{made['id']}").json() == made
    assert tables(asked) == RETRIEVE


def test_a_longer_queue_is_listed_with_no_more_statements(long_queue: Site) -> None:
    for number in range(30):
        long_queue.created(seed=100 + number)
    with listening(long_queue.floor.db) as asked:
        found = long_queue.http.get("/v1/videos?order=queue&limit=30").json()["data"]
    assert [video["queue_position"] for video in found] == list(range(1, 31))
    assert tables(asked) == QUEUE
    whole = re.compile(rf"SCAN {_GROWING}\b")
    steps = [step for plan in plans(long_queue.floor.db, asked) for step in plan]
    assert [step for step in steps if whole.search(step)] == []


def test_no_table_that_grows_is_read_as_a_whole(long_queue: Site) -> None:
    db = long_queue.floor.db
    _, key = create_key(db, "bounded", "k", ["create", "read"])
    set_bounds(db, "bounded", gpu_seconds_per_day=1e6, budget_per_month=1e6, max_queued=100)
    long_queue.http.headers["Authorization"] = f"Bearer {key}"
    body = {"prompt": "a ball", "seed": 1}
    with listening(db) as asked:
        made = long_queue.http.post("/v1/videos", json=body, headers={"Idempotency-Key": "k"})
        again = long_queue.http.post("/v1/videos", json=body,
                                     headers={"x-stainless-retry-count": "1"})  # fmt: skip
        assert again.json()["id"] == made.json()["id"]
        long_queue.http.get(f"/v1/videos/{made.json()['id']}")
    steps = plans(db, asked)
    assert {"jobs", "events", "usage", "tenants"} <= set(tables(asked))
    whole = re.compile(rf"SCAN {_GROWING}\b|AUTOMATIC")
    assert [step for plan in steps for step in plan if whole.search(step)] == []


def test_sums_over_jobs_read_an_index_alone(long_queue: Site) -> None:
    db = long_queue.floor.db
    with listening(db) as asked:
        long_queue.created(seed=9)
        long_queue.http.get("/v1/queue")
    sums = [pair for pair in asked if re.search(r"\b(sum|count)\(.*FROM jobs", pair[0], re.DOTALL)]
    assert len(sums) == 4  # all that is open, what is before the job, and both for the queue
    touched = [step for plan in plans(db, sums) for step in plan if " jobs " in step]
    assert len(touched) >= len(sums)
    assert [step for step in touched if "USING COVERING INDEX" not in step] == []
