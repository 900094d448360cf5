"""Jobs that wait aside, with the reason in words, and jobs whose time is up."""

import pytest

from server.problems import Problem
from server.queue import events, fleet, tenants
from server.states import JobState
from tests.server.queue.making import GIB, Scene, new_job, run_through


def test_jobs_wait_aside_until_a_worker_fits(scene: Scene) -> None:
    small, large = scene.ask(), scene.ask(device_bytes=10 * GIB)
    other = scene.ask(pool="other")
    for job in (small, large, other):
        assert (job.state, job.held_by) == (JobState.HELD, "fit")
        assert job.hold_reason == "No worker is running; start one with `vidgen worker`."
    scene.work("w1")
    assert scene.state(small) is JobState.QUEUED
    waits = scene.jobs.get(large.id, "a")
    assert waits.state is JobState.HELD
    assert waits.hold_reason is not None
    assert "needs 10.0 GiB" in waits.hold_reason
    assert "has 8.0 GiB" in waits.hold_reason
    assert "serves pool 'other'" in (scene.jobs.get(other.id, "a").hold_reason or "")
    scene.work("w2", profile={"name": "cpu", "memory_bytes": 16 * GIB}, free_bytes=16 * GIB)
    freed = scene.jobs.get(large.id, "a")
    assert (freed.state, freed.hold_reason, freed.held_by) == (JobState.QUEUED, None, None)
    fleet.retire(scene.db, scene.settings, "w2", scene.clock)
    assert scene.state(large) is JobState.HELD
    scene.clock.forward(31)  # w1 falls silent
    scene.reap()
    assert scene.state(small) is JobState.HELD
    told = [e.type for e in events.after(scene.db, large.id, 0)]
    assert told == ["job.held", "job.queued", "job.held"]


def test_a_device_that_others_fill_is_waited_for(scene: Scene) -> None:
    scene.work(free_bytes=2 * GIB)
    job = scene.ask(device_bytes=4 * GIB)
    assert job.state is JobState.HELD
    scene.beat("w1", free_bytes=5 * GIB)
    fleet.rehold(scene.db, scene.clock)
    assert scene.state(job) is JobState.QUEUED


def test_what_no_worker_could_ever_take_is_refused(scene: Scene) -> None:
    scene.work()
    for changes in ({"device_bytes": 9 * GIB}, {"pool": "none"}):
        with pytest.raises(Problem) as caught:
            scene.ask(**changes)
        assert caught.value.code == "no_worker_fits"
    assert "9.0 GiB" in str(_refused(scene, device_bytes=9 * GIB))
    fleet.retire(scene.db, scene.settings, "w1", scene.clock)
    assert scene.ask().state is JobState.HELD
    assert _refused(scene, device_bytes=9 * GIB).code == "no_worker_fits"
    scene.clock.forward(3601)  # by now anything may come
    assert scene.ask(device_bytes=9 * GIB).state is JobState.HELD


def _refused(scene: Scene, **changes: object) -> Problem:
    with pytest.raises(Problem) as caught:
        scene.jobs.create(new_job(**changes))
    return caught.value


def test_who_has_nothing_left_waits_for_tomorrow(scene: Scene) -> None:
    scene.work()
    first, second = scene.ask("a", cost_seconds=60.0), scene.ask("a", cost_seconds=60.0)
    tenants.set_bounds(scene.db, "a", gpu_seconds_per_day=100.0)
    run_through(scene.claim(), seconds=100.0)
    scene.beat("w1")
    assert scene.none_for("w1")
    scene.reap()
    poor = scene.jobs.get(second.id, "a")
    assert (poor.state, poor.held_by) == (JobState.HELD, "budget")
    assert "used 100 of 100 GPU-seconds" in (poor.hold_reason or "")
    scene.clock.forward(86400)
    scene.beat("w1")
    scene.reap()
    assert scene.state(second) is JobState.QUEUED
    assert scene.state(first) is JobState.COMPLETED


def test_a_job_that_nobody_begins_in_time_expires(scene: Scene) -> None:
    waiting = scene.ask(queue_deadline_at=scene.clock.now + 60)
    held = scene.jobs.hold(scene.ask(queue_deadline_at=scene.clock.now + 60).id, "wait")
    paused = scene.ask(queue_deadline_at=scene.clock.now + 60, state_after="paused")
    scene.clock.forward(59)
    assert scene.expire() == []
    scene.clock.forward(1)
    assert sorted(scene.expire()) == sorted([waiting.id, held.id])
    over = scene.jobs.get(waiting.id, "a")
    assert over.state is JobState.EXPIRED
    assert over.error is not None
    assert over.error["code"] == "deadline_exceeded"
    assert "60 s in the queue" in over.error["message"]
    assert scene.state(paused) is JobState.PAUSED
    assert scene.jobs.resume(waiting.id, "a").queue_deadline_at is None
    assert scene.expire() == []


def test_a_job_past_its_time_in_the_queue_is_not_claimed(scene: Scene) -> None:
    scene.work()
    scene.ask(queue_deadline_at=scene.clock.now + 60)
    scene.clock.forward(60)
    scene.beat("w1")
    assert scene.none_for("w1")


def test_a_job_that_runs_for_too_long_is_told_to_stop(scene: Scene) -> None:
    scene.work()
    scene.ask(run_limit_seconds=10.0)
    held = scene.claim()
    scene.clock.forward(20)
    assert scene.expire() == []  # the time counts from the first step
    held.move(JobState.RUNNING)
    scene.clock.forward(10)
    assert scene.expire() == [held.claimed.id]
    assert scene.expire() == []
    assert held.orders().stop == "deadline"
    assert held.job().state is JobState.CANCELLING
    assert held.move(JobState.RETRYING).state is JobState.CANCELLING
    error = Problem("deadline_exceeded", "It was stopped.").as_dict()
    assert held.finish(JobState.FAILED, error=error).state is JobState.FAILED


def test_an_interrupted_job_past_its_time_fails(scene: Scene) -> None:
    scene.work()
    job = scene.ask(run_limit_seconds=10.0)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.move(JobState.INTERRUPTED)
    scene.clock.forward(10)
    assert scene.expire() == [job.id]
    assert (scene.jobs.get(job.id, "a").error or {})["code"] == "deadline_exceeded"
