"""Who runs next: what fits, fair shares, priorities that age, warm workers, moves and holds."""

from collections import Counter
from typing import Any

import pytest

from server.database import Database
from server.queue import events, fleet, tenants
from server.queue.held import Held
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import GIB, Scene, clip_row, run_through, served


def served_tenants(scene: Scene, number: int) -> list[str]:
    return [scene.jobs.get(id, None).tenant for id in served(scene, number)]


def test_a_claim_gives_a_lease(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    held = scene.claim()
    got = scene.jobs.get(job.id, "a")
    assert (got.state, got.lease_owner, got.lease_epoch) == (JobState.ASSIGNED, "w1", 1)
    assert got.lease_until == scene.clock.now + scene.settings.lease_seconds
    assert got == held.claimed
    assert [event.type for event in events.after(scene.db, job.id, 0)] == [
        "job.queued",
        "job.assigned",
    ]
    [worker] = fleet.list_workers(scene.db)
    assert (worker.state, worker.job_id) == ("busy", job.id)


def test_an_answer_that_was_lost_is_given_again(scene: Scene) -> None:
    scene.work()
    scene.ask()
    scene.ask()
    held = scene.claim()
    assert scene.claim() == held
    held.move(JobState.RUNNING)
    assert scene.none_for("w1")


def test_nobody_claims_who_is_not_at_work(scene: Scene) -> None:
    scene.work()
    scene.ask()
    assert scene.none_for("stranger")
    for state in ("draining", "gone"):
        scene.beat("w1", state=state)
        assert scene.none_for("w1")
    scene.beat("w1")
    assert not scene.none_for("w1")


def test_one_device_has_one_job(scene: Scene) -> None:
    scene.work("w1", device="gpu")
    scene.work("w2", device="gpu")
    scene.work("w3", device="gpu", host="another")
    for _ in range(3):
        scene.ask()
    scene.claim("w1")
    assert scene.none_for("w2")
    scene.claim("w3")


@pytest.mark.parametrize(
    ("worker", "job"),
    [
        ({"pool": "other"}, {}),
        ({"tenants": ["b"]}, {}),
        ({"models": ["wan"]}, {}),
        ({}, {"device_bytes": 8 * GIB + 1}),
        ({"free_bytes": GIB}, {"device_bytes": GIB + 1}),
    ],
)
def test_a_worker_gets_only_what_it_fits(
    scene: Scene, worker: dict[str, object], job: dict[str, object]
) -> None:
    scene.work("w1", **worker)
    scene.work("w2", profile={"name": "cpu", "memory_bytes": 9 * GIB}, free_bytes=9 * GIB)
    scene.ask(**job)
    assert scene.none_for("w1")
    assert not scene.none_for("w2")


def test_what_does_not_fit_holds_up_nothing_else(scene: Scene) -> None:
    scene.work("w1")
    scene.work("w2", profile={"name": "cpu", "memory_bytes": 16 * GIB}, free_bytes=16 * GIB)
    scene.ask(device_bytes=10 * GIB)
    small = scene.ask()
    assert scene.claim("w1").claimed.id == small.id


def test_a_lone_job_comes_next_after_a_hundred_of_another(scene: Scene) -> None:
    scene.work()
    for _ in range(100):
        scene.ask("a")
    served(scene, 3)
    held = scene.claim()
    scene.clock.forward(5)
    scene.ask("b")
    run_through(held)
    scene.beat("w1")
    assert served_tenants(scene, 1) == ["b"]


def test_weights_share_the_workers(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=200)
    tenants.set_bounds(scene.db, "a", weight=3.0)
    scene.work()
    for tenant in ("b", "a"):
        for _ in range(80):
            scene.ask(tenant)
    shares = Counter(served_tenants(scene, 80))
    assert shares == {"a": 60, "b": 20}  # 3 to 1


def test_a_share_is_of_seconds_not_of_jobs(scene: Scene) -> None:
    scene.work()
    for _ in range(12):
        scene.ask("a", cost_seconds=40.0)
    for _ in range(40):
        scene.ask("b", cost_seconds=10.0)
    shares = Counter(served_tenants(scene, 25))
    assert shares == {"a": 5, "b": 20}


def test_what_was_measured_corrects_the_share(scene: Scene) -> None:
    scene.work()
    scene.ask("a")
    scene.ask("b")
    scene.ask("b")
    run_through(scene.claim(), seconds=35.0)  # of a, predicted 10
    scene.beat("w1")
    scene.ask("a")
    assert served_tenants(scene, 3) == ["b", "b", "a"]


def test_idling_earns_no_credit(scene: Scene) -> None:
    scene.work()
    for _ in range(20):
        scene.ask("a")
    served(scene, 10)
    for _ in range(10):
        scene.ask("b")
    shares = served_tenants(scene, 10)
    assert Counter(shares) == {"a": 5, "b": 5}


def test_nor_does_idling_while_another_sends_jobs_one_by_one(scene: Scene) -> None:
    scene.work()
    for _ in range(5):
        scene.ask("a")
        served(scene, 1)
    for tenant in ("b", "a"):
        for _ in range(4):
            scene.ask(tenant)
    assert Counter(served_tenants(scene, 4)) == {"a": 2, "b": 2}


def test_a_pool_has_its_own_time(scene: Scene) -> None:
    """One who is served little, but in another pool, lends no credit to those who come here."""
    tenants.ensure(scene.db, "c", scene.clock)
    scene.work("w1")
    scene.work("w2", pool="other")
    for _ in range(20):
        scene.ask("a")
    scene.ask("c", pool="other")
    served(scene, 10)
    for _ in range(10):
        scene.ask("b")
    assert Counter(served_tenants(scene, 6)) == {"a": 3, "b": 3}


def test_an_interruption_gives_back_what_was_not_made(scene: Scene) -> None:
    scene.work()
    job = scene.ask("a", clips=4, cost_seconds=40.0)
    held = scene.claim()
    assert tenants.list_tenants(scene.db)[0].served == 40.0
    held.move(JobState.RUNNING)
    held.clip_done(clip_row(held, 0, seconds=12.0))
    held.move(JobState.INTERRUPTED)
    assert tenants.list_tenants(scene.db)[0].served == 12.0
    scene.beat("w1")
    again = scene.claim()
    assert again.claimed.id == job.id
    assert again.claimed.charged_seconds == 30.0
    assert tenants.list_tenants(scene.db)[0].served == 42.0
    run_through(again, seconds=10.0)
    assert tenants.list_tenants(scene.db)[0].served == 42.0


def test_a_warm_worker_is_preferred_within_a_bound(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, affinity_seconds=30.0)
    scene.work("w1", warm={"model": "wan", "loras": ["x"]})
    cold = scene.ask("a")
    scene.clock.forward(14)
    half = scene.ask("a", model="wan")
    scene.clock.forward(15)
    warm = scene.ask("a", model="wan", loras=("x",))
    scene.clock.forward(2)
    too_late = scene.ask("a", model="wan", loras=("x",))

    def claimed() -> Held:
        held = scene.claim()
        run_through(held)
        scene.beat("w1", warm={"model": "wan", "loras": ["x"]})
        return held

    order = [claimed().claimed.id for _ in range(4)]
    assert order == [half.id, warm.id, cold.id, too_late.id]


def test_a_warm_worker_leaves_no_tenant_behind_for_long(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, affinity_seconds=30.0)
    warm = {"model": "wan", "loras": []}
    scene.work("w1", warm=warm)
    scene.ask("b")
    for _ in range(8):
        scene.ask("a", model="wan")
    order = []
    for _ in range(6):
        held = scene.claim()
        order.append(held.claimed.tenant)
        run_through(held)
        scene.beat("w1", warm=warm)
    assert order == ["a", "a", "a", "b", "a", "a"]  # 3 jobs of 10 s: 30 s


def test_a_tenants_bound_on_running_jobs(scene: Scene) -> None:
    tenants.set_bounds(scene.db, "a", max_running=1)
    for id in ("w1", "w2", "w3"):
        scene.work(id)
    for tenant in ("a", "a", "b"):
        scene.ask(tenant)
    assert scene.claim("w1").claimed.tenant == "a"
    assert scene.claim("w2").claimed.tenant == "b"
    assert scene.none_for("w3")


def test_an_idle_worker_locks_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite has one writer at a time: many idle workers must not stand in the API's way."""
    scene.work()
    scene.jobs.ask_stop(scene.ask().id, None, "pause")
    write, written = Database.write, []

    def noted(db: Database, lock: str | None = None) -> Any:
        written.append(lock)
        return write(db, lock)

    monkeypatch.setattr(Database, "write", noted)
    assert scene.none_for()
    assert written == []
    scene.ask()
    written.clear()
    held = scene.claim()
    assert written == ["claim"]
    assert scene.claim() == held  # an answer that was lost is given again, with nothing waiting
