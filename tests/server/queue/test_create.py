"""A request becomes a job once, or it is refused and nothing of it is left."""

import threading
from typing import Any

import pytest
from sqlalchemy import func, select

from server.database import Database
from server.database.tables import job_secrets, jobs
from server.problems import Problem
from server.queue import events, tenants
from server.queue.jobs import Filters
from server.queue.sealed import open_sealed, payload_of, seal
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import GIB, Scene, new_job, run_through


def count(db: Database) -> int:
    with db.read() as connection:
        return int(connection.execute(select(func.count()).select_from(jobs)).scalar_one())


def test_a_job_waits_with_its_event(scene: Scene) -> None:
    scene.work()
    job, replayed = scene.jobs.create(new_job(loras=("x",), tags=("t",), title="Ball", priority=1))
    assert not replayed
    assert (job.state, job.status, job.progress) == (JobState.QUEUED, "queued", 0)
    assert (job.loras, job.tags, job.created_at) == (["x"], ["t"], scene.clock.now)
    assert job.retention_seconds == scene.settings.retention_seconds
    assert scene.jobs.get(job.id, "a") == job
    [event] = events.after(scene.db, job.id, 0)
    assert (event.type, event.data["state"]) == ("job.queued", "queued")


def test_a_job_is_there_for_its_tenant_only(scene: Scene) -> None:
    job = scene.ask("a")
    calls: list[Any] = [
        lambda: scene.jobs.get(job.id, "b"),
        lambda: scene.jobs.ask_stop(job.id, "b", "cancel"),
        lambda: scene.jobs.resume(job.id, "b"),
        lambda: scene.jobs.retry(job.id, "b"),
        lambda: scene.jobs.hold(job.id, "x", "b"),
        lambda: scene.jobs.annotate(job.id, "b", title="mine"),
        lambda: scene.jobs.page("b", after=job.id),
        lambda: scene.jobs.get("video_none", "a"),
    ]
    for call in calls:
        with pytest.raises(Problem) as caught:
            call()
        assert caught.value.code == "not_found"
    assert scene.jobs.page("b").jobs == []
    assert scene.jobs.get(job.id, "a") == job


def test_an_idempotency_key_makes_one_job_for_a_day(scene: Scene) -> None:
    first, _ = scene.jobs.create(new_job("a", idempotency_key="k", body_hash="1"))
    scene.clock.forward(86399)
    assert scene.jobs.create(new_job("a", idempotency_key="k", body_hash="1")) == (first, True)
    with pytest.raises(Problem) as caught:
        scene.jobs.create(new_job("a", idempotency_key="k", body_hash="2"))
    assert caught.value.code == "idempotency_mismatch"
    others, replayed = scene.jobs.create(new_job("b", idempotency_key="k", body_hash="2"))
    assert not replayed
    assert others.tenant == "b"
    scene.clock.forward(1)
    later, replayed = scene.jobs.create(new_job("a", idempotency_key="k", body_hash="2"))
    assert not replayed
    assert later.id != first.id
    assert scene.jobs.get(first.id, "a").idempotency_key is None


def test_a_clients_blind_retry_finds_its_job(scene: Scene) -> None:
    asked = {"key_id": "key_1", "body_hash": "h"}
    first, _ = scene.jobs.create(new_job("a", **asked))
    scene.clock.forward(1)
    again, replayed = scene.jobs.create(new_job("a", **asked))  # the same, but meant
    assert not replayed
    scene.clock.forward(598)
    assert scene.jobs.create(new_job("a", **asked, blind_retry=True)) == (again, True)
    for changes in ({"key_id": "key_2"}, {"key_id": None}, {"body_hash": "other"}):
        _, replayed = scene.jobs.create(new_job("a", **(asked | changes), blind_retry=True))
        assert not replayed, changes
    scene.clock.forward(2)
    assert not scene.jobs.create(new_job("b", **asked, blind_retry=True))[1]
    scene.clock.forward(600)
    assert not scene.jobs.create(new_job("a", **asked, blind_retry=True))[1]
    assert first.id != again.id


def test_a_replay_is_answered_when_the_queue_is_full(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=1)
    first, _ = scene.jobs.create(new_job(idempotency_key="k", body_hash="1"))
    assert scene.jobs.create(new_job(idempotency_key="k", body_hash="1")) == (first, True)
    with pytest.raises(Problem, match="1 jobs wait"):
        scene.ask()
    assert count(database) == 1


def test_creators_at_once_make_one_job_and_keep_the_bound(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=6)
    made: list[str] = []
    refused: list[str] = []

    def create(number: int) -> None:
        key = {"idempotency_key": "same", "body_hash": "1"} if number % 2 else {}
        try:
            made.append(scene.jobs.create(new_job(**key))[0].id)
        except Problem as problem:
            refused.append(problem.code)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        keyed = select(func.count()).where(jobs.c.idempotency_key == "same")
        assert connection.execute(keyed).scalar_one() <= 1
    assert count(database) == 6 == len(set(made))
    assert set(refused) == {"queue_full"}


def test_a_sealed_payload_needs_its_key(scene: Scene) -> None:
    payload = {"request": {"prompt": "a secret"}}
    cipher, key = seal(payload)
    assert b"secret" not in cipher
    job = scene.ask(payload=None, cipher=cipher, secret=key, zdr=True, search=None)
    assert job.payload is None
    assert job.search is None
    assert job.retention_seconds == 3600
    assert payload_of(scene.db, job) == payload
    with pytest.raises(Problem) as caught:
        open_sealed(cipher, seal(payload)[1])
    assert caught.value.code == "gone"
    with scene.db.write() as connection:
        connection.execute(job_secrets.delete())
    with pytest.raises(Problem) as caught:
        payload_of(scene.db, job)
    assert caught.value.code == "gone"


def test_pages_follow_each_other_in_both_orders(scene: Scene) -> None:
    made = []
    for number in range(5):
        made.append(scene.ask("a").id)
        scene.ask("b")
        scene.clock.forward(number % 2)  # some at the same time
    for order in ("asc", "desc"):
        seen: list[str] = []
        after = None
        while True:
            page = scene.jobs.page("a", after=after, limit=2, order=order)
            seen += [job.id for job in page.jobs]
            after = page.last_id
            if not page.has_more:
                break
        times = [scene.jobs.get(id, "a").created_at for id in seen]
        assert times == sorted(times, reverse=order == "desc")
        assert sorted(seen) == sorted(made)
        assert len(seen) == 5


def test_filters_find_jobs(scene: Scene) -> None:
    big = 2**40 + 1
    red = scene.ask(search="A RED ball", title="First", tags=("x", "y"), decided={"seed": big})
    scene.clock.forward(10)
    blue = scene.ask(search="100% blue", model="wan", tags=('", "',), parent=red.id)
    both = [blue.id, red.id]

    def found(**filters: Any) -> list[str]:
        return [job.id for job in scene.jobs.page("a", filters=Filters(**filters)).jobs]

    assert found() == both
    assert found(text="red BALL") == [red.id]
    assert found(text="first") == [red.id]
    assert found(text="0%") == [blue.id]
    assert found(text="%red") == []
    assert found(tags=("x", "y")) == [red.id]
    assert found(tags=("x", "z")) == []
    assert found(tags=('", "',)) == [blue.id]
    assert found(model="wan") == found(parent=red.id) == [blue.id]
    assert found(seed=big) == [red.id]
    assert found(states=(JobState.HELD,)) == both
    assert found(states=(JobState.QUEUED,)) == []
    assert found(since=blue.created_at) == [blue.id]
    assert found(until=blue.created_at) == [red.id]
    scene.jobs.annotate(red.id, "a", title="Second One", starred=True, tags=["n", "n"])
    assert found(starred=True) == found(text="second ball") == found(tags=("n",)) == [red.id]
    assert found(text="first") == []
    assert scene.jobs.get(red.id, "a").tags == ["n"]
    assert scene.jobs.annotate(red.id, "a", title="").title is None


def test_the_trash_takes_what_has_ended(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    for deed in (scene.jobs.trash, scene.jobs.remove):
        with pytest.raises(Problem) as caught:
            deed(job.id, "a")
        assert caught.value.code == "conflict"
    run_through(scene.claim())
    assert scene.jobs.trash(job.id, "a").trashed_at == scene.clock.now
    assert scene.jobs.page("a").jobs == []
    assert len(scene.jobs.page("a", filters=Filters(trashed=True)).jobs) == 1
    scene.jobs.restore(job.id, "a")
    assert len(scene.jobs.page("a").jobs) == 1
    scene.jobs.remove(job.id, "a")
    assert count(scene.db) == 0
    assert events.after(scene.db, job.id, 0) == []
    assert events.latest(scene.db) == 0


def test_a_job_is_edited_until_it_was_begun(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    assert scene.jobs.edit(job.id, {"cost_seconds": 3.0, "device_bytes": GIB}).cost_seconds == 3.0
    scene.claim().move(JobState.RUNNING)
    with pytest.raises(Problem) as caught:
        scene.jobs.edit(job.id, {"cost_seconds": 4.0})
    assert caught.value.code == "conflict"


def test_an_edit_asks_for_room_like_a_new_job(scene: Scene) -> None:
    """What grows is admitted anew, without the job's own share; what shrinks always may."""
    scene.work()
    tenants.set_bounds(scene.db, "a", gpu_seconds_per_day=25.0)
    job, other = scene.ask(cost_seconds=10.0), scene.ask(cost_seconds=10.0)
    assert scene.jobs.edit(job.id, {"cost_seconds": 14.0}).cost_seconds == 14.0
    with pytest.raises(Problem) as caught:
        scene.jobs.edit(job.id, {"cost_seconds": 16.0})
    assert caught.value.code == "quota_exceeded"
    with pytest.raises(Problem) as caught:
        scene.jobs.edit(other.id, {"device_bytes": 1 << 50})
    assert caught.value.code == "no_worker_fits"
    assert scene.jobs.edit(job.id, {"cost_seconds": 5.0}).cost_seconds == 5.0


def test_of_two_edits_of_one_sight_the_second_is_told(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    scene.jobs.edit(job.id, {"payload": {"request": {"prompt": "b"}}}, seen=job)
    with pytest.raises(Problem) as caught:
        scene.jobs.edit(job.id, {"payload": {"request": {"prompt": "c"}}}, seen=job)
    assert caught.value.code == "conflict"
    assert scene.jobs.get(job.id, None).payload == {"request": {"prompt": "b"}}
