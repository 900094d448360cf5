"""Positions and times, by cases computed by hand."""

import pytest

from server.database import Database
from server.queue import rates, tenants
from server.queue.job import Job
from server.queue.place import Place, begin_after
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import Scene, clip_row, end_at_once

PRIOR90 = 1.5**1.2816  # nothing was measured: a spread of 1.5, at the 90th percentile


def place(scene: Scene, job: Job) -> Place:
    return scene.jobs.place(scene.jobs.get(job.id, None))


def test_work_is_shared_by_workers_as_they_become_free() -> None:
    assert begin_after([7.0], 0.0) == 7.0
    assert begin_after([0.0, 100.0], 0.0) == 0.0
    assert begin_after([0.0, 100.0], 60.0) == 60.0  # the second one comes too late to help
    assert begin_after([0.0, 10.0], 60.0) == 35.0  # 35 + 25
    assert begin_after([0.0, 0.0, 0.0], 60.0) == 20.0


def test_one_worker(scene: Scene) -> None:
    scene.work()
    scene.ask(cost_seconds=100.0)
    first, second = scene.ask(cost_seconds=20.0), scene.ask(cost_seconds=30.0)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.progress("denoise", 1, 10, 40.0)
    assert place(scene, first) == Place(
        1, (60.0, pytest.approx(60 * PRIOR90)), (80.0, pytest.approx(80 * PRIOR90))
    )
    then = place(scene, second)
    assert then.position == 2
    assert then.eta_start == (80.0, pytest.approx(80 * PRIOR90))
    held.progress("denoise", 2, 10, 41.0, eta_at=scene.clock.now + 44)
    assert place(scene, first).eta_start == (44.0, 44.0)
    assert place(scene, held.job()) == Place(0, (0.0, 0.0), (44.0, 44.0))
    done = end_at_once(held, 1.0)
    assert place(scene, done) == Place(None, None, None)


def test_an_idle_worker_begins_at_once(scene: Scene) -> None:
    scene.work("w1")
    scene.work("w2")
    scene.ask(cost_seconds=100.0)
    scene.claim("w1")
    job = scene.ask(cost_seconds=10.0)
    found = place(scene, job)
    assert found.eta_start == (0.0, 0.0)
    assert found.eta_end == (10.0, pytest.approx(10 * PRIOR90))


def test_other_tenants_are_before_it_by_fair_share(scene: Scene) -> None:
    """a: 10 10 10, b (weight 2): 20 20; due at a: 0 10 20, b: 0 10, earlier ones first."""
    scene.work()
    tenants.set_bounds(scene.db, "b", weight=2.0)
    a = [scene.ask("a", cost_seconds=10.0) for _ in range(3)]
    scene.clock.forward(1)
    b = [scene.ask("b", cost_seconds=20.0) for _ in range(2)]
    order = [a[0], b[0], a[1], b[1], a[2]]
    assert [place(scene, job).position for job in order] == [1, 2, 3, 4, 5]
    begins = [0.0, 10.0, 30.0, 40.0, 60.0]
    assert [(place(scene, job).eta_start or (-1,))[0] for job in order] == begins
    claimed = []
    for _ in range(5):  # and that is the order in which they are claimed
        held = scene.claim()
        claimed.append(held.claimed.id)
        end_at_once(held, held.claimed.cost_seconds)
        scene.beat("w1")
    assert claimed == [job.id for job in order]


def test_moves_priorities_and_holds_show(scene: Scene) -> None:
    scene.work()
    first, second, third = scene.ask(), scene.ask(), scene.ask(priority=1)
    assert [place(scene, job).position for job in (third, first, second)] == [1, 2, 3]
    scene.jobs.move(second.id, "a", first=True)
    assert [place(scene, job).position for job in (second, third, first)] == [1, 2, 3]
    scene.jobs.hold(third.id, "wait")
    assert [place(scene, job).position for job in (second, first)] == [1, 2]
    held = place(scene, third)
    assert (held.position, held.eta_start) == (2, None)


def test_nobody_can_say_without_a_worker(scene: Scene) -> None:
    first, second = scene.ask(), scene.ask()
    assert place(scene, first) == place(scene, second) == Place(1, None, None)
    scene.work(models=["wan"])
    assert place(scene, first).eta_start is None


def test_what_is_made_already_takes_no_time(scene: Scene) -> None:
    scene.work()
    job = scene.ask(clips=4, cost_seconds=40.0)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.clip_done(clip_row(held, 0))
    held.move(JobState.INTERRUPTED)
    scene.beat("w1")
    assert place(scene, job).eta_end == (30.0, pytest.approx(30 * PRIOR90))


def test_more_before_it_never_means_sooner(scene: Scene) -> None:
    scene.work("w1")
    scene.work("w2")
    job = scene.ask("a")
    begins = []
    for number in range(4):
        found = place(scene, job)
        assert found.eta_start is not None
        assert found.eta_end is not None
        assert found.eta_start[0] <= found.eta_start[1] <= found.eta_end[1]
        begins.append((found.position, *found.eta_start))
        scene.ask("a", priority=1, cost_seconds=5.0 + number)
    assert begins == sorted(begins)
    assert begins[-1][0] == 4


def test_rates_learn_what_was_measured(database: Database, clock: Clock) -> None:
    assert rates.corrected(database, "toyworld") == (1.0, pytest.approx(PRIOR90))
    rates.record(database, "toyworld", "cpu", "topk", 10.0, 40.0, clock)
    # half a step from 1 to 4 in log2: 2; variance (log2(1.5)^2 + 0.5 * 2^2) / 2
    middle, high = rates.corrected(database, "toyworld", "cpu", "topk")
    assert middle == pytest.approx(2.0)
    assert high == pytest.approx(2.0 * 2 ** (1.2816 * ((0.3421871 + 2.0) / 2) ** 0.5), rel=1e-5)
    for _ in range(80):
        rates.record(database, "toyworld", "cpu", "topk", 10.0, 40.0, clock)
    middle, high = rates.corrected(database, "toyworld", "cpu", "topk")
    assert middle == pytest.approx(4.0, rel=0.01)
    assert middle < high < 1.1 * middle
    assert rates.corrected(database, "toyworld", "cpu", "dense")[0] == 1.0
    assert rates.corrected(database, "wan")[0] == 1.0
    assert rates.corrected(database, "toyworld") == rates.corrected(database, "toyworld", "cpu")


def test_what_was_measured_narrows_the_times(scene: Scene) -> None:
    scene.work()
    for _ in range(40):
        rates.record(scene.db, "toyworld", "cpu", "topk", 10.0, 20.0, scene.clock)
    job = scene.ask(cost_seconds=10.0)  # the cost of a job is corrected when it is planned
    found = place(scene, job)
    assert found.eta_end is not None
    assert found.eta_end[0] == 10.0
    assert 10.0 < found.eta_end[1] < 11.5
