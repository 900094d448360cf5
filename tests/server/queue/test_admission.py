"""Refusals: each says what is full, the bound and the way out, and when to come again."""

from typing import Any

import pytest

from server.database import Database
from server.problems import Problem
from server.queue import tenants
from server.queue.admission import free_disk_of
from server.queue.jobs import Jobs
from server.settings import ServerSettings
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import Scene, clip_row, new_job, run_through

MIB = 1024**2


def refused(scene: Scene, tenant: str = "a", **changes: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        scene.jobs.create(new_job(tenant, **changes))
    return caught.value


def test_too_many_jobs(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=3)
    for worker in ("w1", "w2"):
        scene.work(worker)
    for _ in range(3):
        scene.ask(cost_seconds=60.0)
    problem = refused(scene, "b")
    assert (problem.code, problem.kind.http) == ("queue_full", 429)
    # a job of 60 s ends somewhere every 30 s with two workers
    assert str(problem) == "3 jobs wait, and at most 3 may; come again in 30 s."
    assert problem.headers == {"Retry-After": "30"}
    assert problem.as_dict()["queue_depth"] == 3
    assert problem.as_dict()["eta_s"] == 180
    scene.claim()
    scene.ask("b")


@pytest.mark.parametrize(("over", "wait"), [(0.0, 1), (40.0, 40), (4000.0, 300)])
def test_too_much_work(database: Database, clock: Clock, over: float, wait: int) -> None:
    scene = Scene(database, clock, max_backlog_seconds=100.0)
    scene.work()
    scene.ask(cost_seconds=100.0 + over)  # a job longer than the bound is let in alone
    problem = refused(scene)
    assert problem.code == "queue_full"
    assert problem.headers["Retry-After"] == str(wait)
    assert f"take {100 + over:.0f} s, and at most 100 s" in str(problem)


def test_clips_that_are_made_are_no_work(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_backlog_seconds=100.0)
    scene.work()
    scene.ask(cost_seconds=120.0, clips=4)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.clip_done(clip_row(held, 0))
    held.move(JobState.INTERRUPTED)
    scene.ask(cost_seconds=9.0)
    scene.ask(cost_seconds=2.0)
    assert "take 101 s" in str(refused(scene))


def test_a_tenants_own_bounds(scene: Scene) -> None:
    tenants.set_bounds(scene.db, "a", max_queued=1)
    scene.ask("a")
    problem = refused(scene, "a")
    assert problem.code == "quota_exceeded"
    assert "1 of your jobs wait, and at most 1 may" in str(problem)
    scene.ask("b")
    tenants.set_bounds(scene.db, "a", max_queued=0)
    assert refused(scene, "a").headers["Retry-After"] == "10"


def test_the_installations_bound_on_a_tenant(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, tenant_max_queued=1)
    scene.ask("a")
    assert refused(scene, "a").code == "quota_exceeded"
    tenants.set_bounds(scene.db, "a", max_queued=2)
    scene.ask("a")


def test_seconds_a_day(scene: Scene) -> None:
    tenants.set_bounds(scene.db, "a", gpu_seconds_per_day=100.0)
    scene.work()
    scene.ask("a", cost_seconds=40.0)
    run_through(scene.claim(), seconds=50.0)
    scene.beat("w1")
    scene.ask("a", cost_seconds=20.0)
    scene.claim()
    scene.ask("a", cost_seconds=15.0)
    problem = refused(scene, "a", cost_seconds=16.0)
    assert problem.code == "quota_exceeded"
    assert "used 50 GPU-seconds today" in str(problem)
    assert "open jobs will use 35; 16 more are above your 100 a day" in str(problem)
    assert problem.headers["Retry-After"] == "300"
    scene.ask("a", cost_seconds=15.0)
    scene.ask("b", cost_seconds=1000.0)


def test_a_budget_a_month(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, price_per_gpu_hour=360.0)  # 0.1 a second
    tenants.set_bounds(scene.db, "a", budget_per_month=10.0)
    scene.work()
    scene.ask("a", cost_seconds=40.0)
    run_through(scene.claim())
    problem = refused(scene, "a", cost_seconds=61.0)
    assert problem.code == "budget_exceeded"
    assert "spent 4.00 this month" in str(problem)
    assert "budget is 10.00" in str(problem)
    scene.ask("a", cost_seconds=60.0)
    assert refused(scene, "a", cost_seconds=0.1).code == "budget_exceeded"


def test_a_full_disk(database: Database, clock: Clock) -> None:
    free = 2000 * MIB
    scene = Scene(database, clock, disk_reserve_mib=1000)
    scene.jobs = Jobs(database, scene.settings, clock, lambda _: free)
    scene.ask(disk_bytes=600 * MIB)
    problem = refused(scene, disk_bytes=401 * MIB)
    assert (problem.code, problem.kind.http) == ("storage_full", 507)
    assert str(problem) == (
        "It needs 401 MiB of disk and open jobs need 600 MiB; 2000 MiB are free, of which 1000 MiB "
        "stay in reserve: delete results, or come later."
    )
    scene.ask(disk_bytes=400 * MIB)


def test_the_disk_that_counts_is_where_jobs_are_made(tmp_path: Any) -> None:
    assert free_disk_of(ServerSettings()) is None
    assert free_disk_of(ServerSettings(store="s3://bucket/x")) is None
    new = ServerSettings(work=str(tmp_path / "not" / "yet"), store="s3://bucket/x")
    assert (free_disk_of(new) or 0) > 0


def test_going_on_is_admitted_like_a_new_job(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=1)
    paused = scene.jobs.ask_stop(scene.ask().id, "a", "pause")
    scene.ask()
    with pytest.raises(Problem) as caught:
        scene.jobs.resume(paused.id, "a")
    assert caught.value.code == "queue_full"
    assert scene.state(paused) is JobState.PAUSED


def test_nothing_of_a_refused_job_is_left(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=1)
    scene.ask()
    refused(scene, idempotency_key="k", body_hash="1")
    scene.jobs.ask_stop(scene.jobs.page("a").jobs[0].id, "a", "cancel")
    assert not scene.jobs.create(new_job(idempotency_key="k", body_hash="1"))[1]
