"""Work that is recorded is not done again, whoever goes on with it; on both databases."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from sqlalchemy import create_engine, text

from server.database import Database, open_database
from server.worker.steps import CHAIN_SCHEMA_VERSION, Steps, steps_file
from server.worker.stop import Left


class Bench:
    """A job of four steps, of which one can be left."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.done: list[int] = []
        self.leave_at: int | None = None
        self.leaves: BaseException = Left()
        self.steps: Steps

    @contextmanager
    def worker(self, name: str) -> Iterator[Steps]:
        self.steps = Steps(self.db.url, name, self.body)
        self.steps.open()
        yield self.steps
        self.steps.close()

    def body(self, job_id: str) -> None:
        for idx in range(4):
            found = self.steps.step(f"clip {idx}", self.work(job_id, idx))
            assert found == {"job": job_id, "clip": idx}

    def work(self, job_id: str, idx: int) -> Callable[[], dict[str, Any]]:
        def do() -> dict[str, Any]:
            self.done.append(idx)
            if idx == self.leave_at:
                raise self.leaves
            return {"job": job_id, "clip": idx}

        return do


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database)


def test_another_worker_goes_on_at_the_step_that_was_left(bench: Bench) -> None:
    bench.leave_at = 2
    with bench.worker("host:cpu-0:a") as steps:
        steps.run("video_1", 0)
    assert bench.done == [0, 1, 2]
    bench.leave_at = None
    with bench.worker("host:cpu-1:b") as steps:
        steps.run("video_1", 0)
        assert bench.done == [0, 1, 2, 2, 3]
        steps.run("video_1", 1)  # a later run of the job does all of it
    assert bench.done == [0, 1, 2, 2, 3, 0, 1, 2, 3]


def test_an_error_in_a_step_is_raised_and_not_kept(bench: Bench) -> None:
    bench.leave_at, bench.leaves = 1, ValueError("stopped")
    met: list[str] = []
    body = bench.body

    def minding(job_id: str) -> None:
        try:
            body(job_id)
        except ValueError as error:
            met.append(str(error))
            raise Left from None

    bench.body = minding  # type: ignore[method-assign]
    with bench.worker("host:cpu-0:a") as steps:
        steps.run("video_1", 0)
        assert met == ["stopped"]
        bench.leave_at = None
        steps.run("video_1", 0)
    assert bench.done == [0, 1, 1, 2, 3]


def test_an_ended_workflow_of_a_job_that_has_not_ended_runs_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench.worker("host:cpu-0:a") as steps:
        with monkeypatch.context() as crashed:
            crashed.setattr(DBOS, "delete_workflow", lambda _id: None)
            steps.run("video_1", 0)
        status = DBOS.get_workflow_status("video_1:0")
        assert status is not None
        assert status.status == "SUCCESS"
        steps.run("video_1", 0)
        assert DBOS.get_workflow_status("video_1:0") is None
    assert bench.done == [0, 1, 2, 3] * 2


def test_an_error_of_a_body_leaves_the_job_to_others(bench: Bench) -> None:
    def fails(_job_id: str) -> None:
        raise ValueError("a fault")

    steps = Steps(bench.db.url, "host:cpu-0:a", fails)
    steps.open()
    steps.run("video_1", 0)
    steps.close()
    with bench.worker("host:cpu-1:b") as again:
        again.run("video_1", 0)
    assert bench.done == [0, 1, 2, 3]


def test_what_is_stored_is_json_and_names_the_job_only(bench: Bench) -> None:
    bench.leave_at = 1
    with bench.worker("host:cpu-0:a") as steps:
        steps.run("video_1", 0)
        ((inputs,),) = _rows(bench.db, "SELECT inputs FROM", "workflow_input")
        ((form, version, executor, queue),) = _rows(
            bench.db,
            "SELECT serialization, application_version, executor_id, queue_name FROM",
            "workflow_status",
        )
    assert json.loads(inputs) == {"namedArgs": {}, "positionalArgs": ["video_1"]}
    assert form == "portable_json"
    assert version == CHAIN_SCHEMA_VERSION
    assert executor == queue == "host:cpu-0:a"


def _rows(db: Database, statement: str, table: str) -> list[tuple[Any, ...]]:
    if db.is_sqlite:
        with sqlite3.connect(steps_file(db.url)) as connection:
            return list(connection.execute(f"{statement} {table}"))
    engine = create_engine(db.url)
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text(f"{statement} dbos.{table}"))]
    engine.dispose()
    return found


def test_readers_of_the_file_need_not_wait(tmp_path: Path) -> None:
    bench = Bench(open_database(f"sqlite:///{tmp_path / 'vidgen.db'}"))
    with bench.worker("host:cpu-0:a"), sqlite3.connect(tmp_path / "vidgen-steps.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    bench.db.close()


def test_queues_of_workers_that_are_gone_are_swept(bench: Bench) -> None:
    with bench.worker("host:cpu-0:a") as steps:
        DBOS.register_queue("host:cpu-9:dead")
        steps.sweep({"host:cpu-9:dead"})
        assert [queue.name for queue in DBOS.list_queues()] == ["host:cpu-0:a"]
