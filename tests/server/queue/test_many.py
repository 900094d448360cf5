"""Several processes at one queue, and databases that go away for a moment."""

import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from server.database import Database, open_database
from server.database.tables import events as events_table
from server.queue import tenants
from server.queue.claim import claim
from server.queue.events import Tail
from server.queue.retrying import passes, retrying
from server.states import JobState
from tests.server.conftest import Clock, url_of
from tests.server.postgres import Cluster
from tests.server.queue.making import Scene, run_through

JOBS = 60
WORK = """
import sys, time
from server.database import open_database
from server.queue.claim import claim
from server.queue.fleet import heartbeat, reap
from server.settings import ServerSettings
from tests.server.queue.making import GIB, run_through

url, me, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
db, settings = open_database(url), ServerSettings()
misses = 0
while misses < 40:
    held = claim(db, settings, me)
    if held is None:
        misses += 1
        time.sleep(0.05)
        continue
    misses = 0
    held.progress("denoise", 1, 2, 50)
    run_through(held)
    reap(db, settings)
    heartbeat(db, settings, me, state="idle", free_bytes=GIB, warm={})
    print(held.claimed.id, flush=True)
"""


@pytest.mark.slow
def test_processes_never_share_a_job(database: Database) -> None:
    scene = Scene(database, Clock(), tenant_max_queued=JOBS)
    scene.clock.now = 4e9  # nobody falls silent by the real clock that the processes have
    names = ("w1", "w2", "w3")
    for name in names:
        scene.work(name)
    tail = Tail(database)
    for number in range(10):
        scene.ask("ab"[number % 2])
    root = Path(__file__).parents[3]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WORK, url_of(database), name, str(JOBS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        for name in names
    ]
    for number in range(10, JOBS):
        scene.ask("ab"[number % 2])
        scene.jobs.page("a")
    made: list[str] = []
    for process in running:
        out, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        made += out.split()
    assert Counter(made) == dict.fromkeys(made, 1)
    assert len(made) == JOBS
    with database.read() as connection:
        types = Counter(connection.execute(select(events_table.c.type)).scalars())
    assert types["job.assigned"] == types["video.completed"] == JOBS
    assert types["clip.completed"] == JOBS
    seqs = [event.seq for _ in range(2) for event in tail.read(10000)]
    assert len(seqs) == len(set(seqs)) == types.total()


def test_a_killed_connection_is_tried_again(
    cluster: Cluster, postgres_template: str, clock: Clock
) -> None:
    name = cluster.create(postgres_template)
    db = open_database(cluster.url(name))
    scene = Scene(db, clock)
    scene.work()
    job = scene.ask()
    tries: list[int] = []

    def cut_once() -> None:
        tries.append(1)
        with db.write() as connection:
            served = text("UPDATE tenants SET served = served + 1 WHERE id = 'a'")
            connection.execute(served)
            if len(tries) == 1:
                cluster.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    f"WHERE datname = '{name}' AND pid <> pg_backend_pid()"
                )
            connection.execute(served)

    retrying(cut_once, sleep=lambda _: None)
    assert len(tries) == 2
    assert tenants.list_tenants(db)[0].served == 2.0  # the first try left nothing
    held = retrying(lambda: claim(db, scene.settings, "w1", clock))
    assert held is not None
    assert run_through(held).state is JobState.COMPLETED
    assert held.claimed.id == job.id
    db.close()
    cluster.drop(name)


def test_a_server_that_is_away_is_waited_for_within_a_bound() -> None:
    db = open_database("postgresql://nobody@/none?host=/nowhere")
    waits: list[float] = []
    with pytest.raises(OperationalError):
        retrying(lambda: tenants.list_tenants(db), tries=7, sleep=waits.append)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


def test_a_locked_file_is_tried_again(tmp_path: Path) -> None:
    waits: list[float] = []

    def locked(message: str) -> Callable[[], None]:
        def fail() -> None:
            raise OperationalError("", {}, sqlite3.OperationalError(message))

        return fail

    with pytest.raises(OperationalError):
        retrying(locked("database is locked"), tries=3, sleep=waits.append)
    assert len(waits) == 2
    with pytest.raises(OperationalError):
        retrying(locked("no such table: jobs"), tries=3, sleep=waits.append)
    assert len(waits) == 2


def test_our_own_faults_are_not_tried_again(scene: Scene) -> None:
    calls: list[int] = []

    def twice() -> None:
        calls.append(1)
        with scene.db.write() as connection:
            connection.execute(text("INSERT INTO locks VALUES ('claim')"))

    with pytest.raises(DBAPIError) as caught:
        retrying(twice, sleep=lambda _: None)
    assert isinstance(caught.value, IntegrityError)
    assert len(calls) == 1


def test_a_tail_gives_each_event_once_also_when_it_comes_late(scene: Scene) -> None:
    tail = Tail(scene.db, clock=scene.clock)
    first = scene.ask()
    second = scene.ask()
    [one, two] = tail.read()
    assert (one.job_id, two.job_id) == (first.id, second.id)
    assert tail.read() == []
    if scene.db.is_sqlite:  # numbers become visible in their order there
        return
    slow = scene.db.engine.connect()
    begun = slow.begin()
    insert = "INSERT INTO events (job_id, ts, type, data) VALUES (:id, 0, 'late', '{}')"
    slow.execute(text(insert), {"id": first.id})
    third = scene.ask()
    assert [event.job_id for event in tail.read()] == [third.id]
    begun.commit()
    slow.close()
    assert [event.type for event in tail.read()] == ["late"]
    scene.clock.forward(11)
    assert tail.read() == []
    fourth = scene.ask()
    assert [event.job_id for event in tail.read()] == [fourth.id]


def test_a_frozen_transaction_is_ended_by_postgres(
    cluster: Cluster, postgres_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a worker that is stopped with SIGSTOP between two statements."""
    monkeypatch.setattr("server.database.open.IDLE_SECONDS", 1)
    url = cluster.url(cluster.create(postgres_template))
    frozen, other = open_database(url), open_database(url)

    def fall_asleep() -> None:
        with frozen.write("claim") as held:
            with other.write("claim") as connection:  # waits until the frozen one is ended
                tenants_left = connection.execute(text("select count(*) from tenants"))
                assert tenants_left.scalar_one() == 0
            held.execute(text("select 1"))  # it wakes up

    with pytest.raises(DBAPIError, match="idle-in-transaction") as caught:
        fall_asleep()
    assert passes(caught.value)
    with frozen.read() as connection:
        assert connection.execute(text("select 1")).scalar_one() == 1
    frozen.close()
    other.close()
