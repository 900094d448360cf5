"""Worker processes that are killed, stopped, drained or stuck lose nothing and do nothing twice."""

import signal
import time
from pathlib import Path

import pytest

from server.database import open_database
from server.queue import fleet
from server.states import JobState
from server.worker.stop import EXIT_STUCK
from tests.server.postgres import Cluster
from tests.server.worker.floor import Floor

pytestmark = pytest.mark.slow


def ready(floor: Floor, count: int = 1) -> None:
    """Wait until so many workers wait for jobs."""
    floor.until(lambda: len(fleet.list_workers(floor.db)) >= count, f"{count} workers")


def at_clip(floor: Floor, clip: int) -> None:
    """Wait until a clip is being made."""
    floor.until(lambda: any(call["clip"] == clip for call in floor.calls()), f"clip {clip}")


def test_killed_in_clip_3_of_4_another_goes_on_at_3(floor: Floor) -> None:
    job = floor.job("a ball steps=8 step=0.1", clips=4)
    with floor.worker(0) as one:
        at_clip(floor, 2)
        one.kill()
        one.wait()
        with floor.worker(1):
            done = floor.ended(job)
    assert (done.state, done.losses) == (JobState.COMPLETED, 1)
    assert [call["clip"] for call in floor.calls("begin")] == [0, 1, 2, 2, 3]
    assert [call["clip"] for call in floor.calls("end")] == [0, 1, 2, 3]
    rows = floor.jobs.clips(job.id)
    assert [row.epoch for row in rows] == [1, 1, 2, 2]
    assert len(floor.calls("finish")) == 1


def test_one_that_wakes_up_after_its_lease_changes_nothing(floor: Floor) -> None:
    job = floor.job("a ball steps=10 step=0.1", clips=3)
    with floor.worker(0) as one:
        at_clip(floor, 1)
        floor.freeze(one)
        with floor.worker(1):
            done = floor.ended(job)
            before = floor.jobs.clips(job.id), floor.events(job)
            one.send_signal(signal.SIGCONT)
        again = floor.job("another ball")  # for the one that woke up: it has let go of what it lost
        floor.ended(again)
    assert floor.calls("finish", again)[0]["pid"] == one.pid
    assert done.state is JobState.COMPLETED
    assert (floor.jobs.clips(job.id), floor.events(job)) == before
    assert floor.get(job) == done
    videos = [path for path in floor.home.rglob("video.mp4") if f"store/jobs/{job.id}" in str(path)]
    assert len(videos) == 1
    assert len(floor.calls("finish", job)) == 1


def test_a_drained_worker_hands_its_job_back(floor: Floor) -> None:
    job = floor.job("a ball steps=400 step=0.1", clips=3, cost_seconds=1000.0)
    with floor.worker(0) as one, floor.worker(1) as two:
        ready(floor, 2)
        at_clip(floor, 0)
        first = floor.calls()[0]["pid"]
        ending = one if one.pid == first else two
        ending.send_signal(signal.SIGTERM)
        assert ending.wait(60) == 0
        floor.until(lambda: len(floor.calls()) >= 2, "the other worker")
        interrupted = floor.events(job, "job.interrupted")
        floor.jobs.ask_stop(job.id, None, "cancel")
        done = floor.ended(job)
    assert len(interrupted) == 1
    assert done.losses == 0
    assert (done.error or {})["code"] == "cancelled"
    assert floor.events(job, "video.failed") == []
    assert {call["pid"] for call in floor.calls()} == {one.pid, two.pid}


def test_a_drained_worker_finishes_what_ends_soon(floor: Floor) -> None:
    job = floor.job("a ball steps=20 step=0.1", clips=1)
    later = floor.job("another ball")
    with floor.worker(0, drain_seconds=30.0) as one:
        at_clip(floor, 0)
        one.send_signal(signal.SIGTERM)
        assert one.wait(60) == 0
    assert floor.get(job).state is JobState.COMPLETED
    assert floor.get(later).state in (JobState.QUEUED, JobState.HELD)


def test_workers_never_run_one_job_at_once_nor_two_in_one(floor: Floor) -> None:
    jobs = [floor.job("a ball steps=2 step=0.05", clips=2) for _ in range(9)]
    with floor.worker(0), floor.worker(1), floor.worker(2):
        for job in jobs:
            assert floor.ended(job).state is JobState.COMPLETED
    begins, ends = floor.calls("begin"), floor.calls("end")
    assert len(begins) == len(ends) == 18
    for key in ("pid", "job"):
        for name in {call[key] for call in begins}:
            mine = sorted(
                [(call["at"], 1) for call in begins if call[key] == name]
                + [(call["at"], -1) for call in ends if call[key] == name]
            )
            running = 0
            for _, change in mine:
                running += change
                assert running in (0, 1)
    assert len({call["pid"] for call in begins}) >= 2


def test_a_device_has_one_worker(floor: Floor) -> None:
    with floor.worker(0):
        ready(floor)
        with floor.worker(0) as second:
            assert second.wait(60) == 75
    assert "Another worker runs on cpu-0" in floor.log(0)


def test_a_stuck_worker_ends_itself_and_the_job_goes_on(floor: Floor) -> None:
    job = floor.job("a ball hang@0=1 steps=2")
    with floor.worker(0, watchdog_seconds=0.5) as one:
        assert one.wait(60) == EXIT_STUCK
    assert "has done no step for" in floor.log(0)
    assert floor.get(job).state is not JobState.FAILED
    floor.until(lambda: fleet.reap(floor.db, floor.settings), "the lost lease")
    assert floor.get(job).state in (JobState.INTERRUPTED, JobState.HELD)


def test_asked_twice_a_worker_ends_at_once(floor: Floor) -> None:
    floor.job("a ball steps=1000 step=5", cost_seconds=1.0)
    with floor.worker(0, drain_seconds=60.0) as one:
        at_clip(floor, 0)
        one.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        one.send_signal(signal.SIGTERM)
        assert one.wait(4) == 128 + signal.SIGTERM


def test_a_database_that_is_away_for_a_while(
    cluster: Cluster, postgres_template: str, tmp_path: Path
) -> None:
    name = cluster.create(postgres_template)
    floor = Floor(open_database(cluster.url(name)), tmp_path / "home", lease_seconds=30.0)
    job = floor.job("a ball steps=20 step=0.1", clips=3)
    cluster.stop("fast")
    with floor.worker(0):
        floor.until(lambda: "cannot be reached" in floor.log(0), "a look at no database")
        cluster.start()
        at_clip(floor, 1)
        cluster.stop("fast")
        time.sleep(2)
        cluster.start()
        floor.db.engine.dispose()
        done = floor.ended(job)
    floor.db.close()
    cluster.drop(name)
    assert (done.state, done.losses) == (JobState.COMPLETED, 0)
    assert [call["clip"] for call in floor.calls("begin")] == [0, 1, 2]
