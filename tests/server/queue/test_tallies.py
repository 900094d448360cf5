"""Tallies: what is counted when, by hand-computed values, and that no sum ever falls."""

import random
import threading

import pytest
from sqlalchemy import func, select

from server.database import Database
from server.database.tables import tallies
from server.problems import Problem
from server.queue.tallies import FOLD_FROM, Seen, Tally, add, fold, read
from server.states import JobState
from tests.server.queue.making import Scene, clip_row, run_through

STAGES = {"encode": 1.0, "denoise": 6.0, "decode": 0.05, "condition": 0.0}


def counted(db: Database) -> dict[str, dict[tuple[str, ...], Tally]]:
    with db.read() as connection:
        return dict(read(connection))


def rows(db: Database) -> int:
    with db.read() as connection:
        return int(connection.execute(select(func.count()).select_from(tallies)).scalar_one())


def test_a_job_from_its_creation_to_its_video(scene: Scene) -> None:
    scene.work()
    scene.ask(decided={"steps": 30})
    scene.clock.forward(4)
    held = scene.claim()
    scene.clock.forward(3)
    held.move(JobState.RUNNING)
    held.move(JobState.RETRYING)
    held.move(JobState.RUNNING)
    scene.clock.forward(20)
    clip = clip_row(held, 0, 7.05, metrics={"seconds": STAGES})
    assert held.clip_done(clip)
    assert not held.clip_done(clip)  # told again, counted once
    held.move(JobState.FINALIZING)
    scene.clock.forward(0.5)
    held.finish(JobState.COMPLETED)
    model = ("toyworld",)
    assert counted(scene.db) == {
        "queue_wait_seconds": {(): Tally({15.0: 1}, 7_000_000)},
        "collapse": {(): Tally({None: 1})},
        "stage_seconds": {
            ("encode", *model): Tally({1.0: 1}, 1_000_000),
            ("denoise", *model): Tally({10.0: 1}, 6_000_000),
            ("decode", *model): Tally({0.1: 1}, 50_000),
        },
        "denoise_step_seconds": {model: Tally({0.25: 30}, 6_000_000)},
        "gpu_seconds": {("a",): Tally({None: 1}, 7_050_000)},
        "run_seconds": {("toyworld", "clip"): Tally({30.0: 1}, 20_500_000)},
        "jobs": {("completed", "", "toyworld", "clip"): Tally({None: 1})},
    }


def test_jobs_that_end_otherwise(scene: Scene) -> None:
    scene.work()
    waiting = scene.ask()
    scene.jobs.ask_stop(waiting.id, None, "cancel")
    scene.ask(kind="chain", clips=2)
    held = scene.claim()
    held.move(JobState.RUNNING)
    scene.jobs.ask_stop(held.claimed.id, None, "cancel")
    scene.clock.forward(0.75)
    held.finish(JobState.CANCELLED, error=Problem("cancelled", "x").as_dict())
    scene.ask()
    scene.claim().finish(JobState.FAILED, error=Problem("out_of_memory", "x").as_dict())
    found = counted(scene.db)
    assert found["jobs"] == {
        ("cancelled", "cancelled", "toyworld", "clip"): Tally({None: 1}),
        ("cancelled", "cancelled", "toyworld", "chain"): Tally({None: 1}),
        ("failed", "out_of_memory", "toyworld", "clip"): Tally({None: 1}),
    }
    # The one that waited needed no worker to stop.
    assert found["cancel_latency_seconds"] == {(): Tally({1.0: 1}, 750_000)}
    assert "run_seconds" not in found


def test_workers_that_go_away(scene: Scene) -> None:
    scene.work()
    scene.ask()
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.move(JobState.INTERRUPTED)  # handed back: nobody was lost
    found = counted(scene.db)
    assert found["interrupted"] == {(): Tally({None: 1})}
    assert "lease_lost" not in found
    scene.beat("w1")
    again = scene.claim()
    again.move(JobState.RUNNING)
    scene.clock.forward(scene.settings.lease_seconds + 1)
    assert scene.reap() == [held.claimed.id]
    found = counted(scene.db)
    assert found["interrupted"] == {(): Tally({None: 2})}
    assert found["lease_lost"] == {(): Tally({None: 1})}
    assert found["queue_wait_seconds"][()].times == {0.25: 1}  # it began once


def test_a_resumed_job_waited_for_a_person(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.finish(JobState.FAILED, error=Problem("internal", "x").as_dict())
    scene.beat("w1")
    scene.clock.forward(1000)
    scene.jobs.resume(job.id, None)
    run_through(scene.claim())
    assert counted(scene.db)["queue_wait_seconds"] == {(): Tally({0.25: 1}, 0)}


def test_no_sum_falls_when_jobs_are_deleted(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    run_through(scene.claim())
    before = counted(scene.db)
    scene.jobs.remove(job.id)
    assert counted(scene.db) == before


def test_what_is_rolled_back_is_not_counted(scene: Scene) -> None:
    def broken() -> None:
        with scene.db.write() as connection:
            add(connection, [Seen("collapse")])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert counted(scene.db) == {}


def test_folding_changes_no_sum(scene: Scene) -> None:
    draw = random.Random(5)
    seen = [
        Seen("stage_seconds", (draw.choice("abc"), "m"), draw.uniform(0, 20000)) for _ in range(900)
    ] + [Seen("interrupted")] * (FOLD_FROM - 901)
    with scene.db.write() as connection:
        add(connection, seen)
    before = counted(scene.db)
    fold(scene.db)
    assert rows(scene.db) == FOLD_FROM - 1  # few enough
    with scene.db.write() as connection:
        add(connection, [Seen("interrupted")])
    before["interrupted"][()].times[None] += 1
    threads = [threading.Thread(target=fold, args=(scene.db,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted(scene.db) == before
    assert rows(scene.db) <= 46
    micros = sum(round(item.seconds * 1e6) for item in seen)
    assert sum(tally.micros for tally in before["stage_seconds"].values()) == micros
