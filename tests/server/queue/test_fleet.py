"""Workers come, go and fall silent: leases, fences, losses, holds and deadlines."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from server.database import Database
from server.problems import Problem
from server.queue import events, fleet
from server.queue.held import Held, LeaseLost
from server.queue.usage import usage_summary
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import Scene, clip_row, run_through, worker


def types(scene: Scene, held: Held) -> list[str]:
    return [event.type for event in events.after(scene.db, held.claimed.id, 0)]


def test_a_heartbeat_keeps_the_lease(scene: Scene) -> None:
    scene.work()
    scene.ask()
    held = scene.claim()
    for _ in range(4):
        scene.clock.forward(20)
        scene.beat("w1", held)
        assert scene.reap() == []
    scene.clock.forward(30.1)
    assert scene.reap() == [held.claimed.id]
    assert scene.reap() == []
    with pytest.raises(LeaseLost):
        scene.beat("w1", held)
    [back] = fleet.list_workers(scene.db)  # alive again, with no job
    assert (back.state, back.job_id) == ("busy", None)


def test_a_heartbeat_with_another_epoch_keeps_nothing(scene: Scene) -> None:
    scene.work()
    scene.ask()
    held = scene.claim()
    until = held.job().lease_until
    scene.clock.forward(1)
    with pytest.raises(LeaseLost):
        scene.beat("w1", held, epoch=held.epoch - 1)
    assert held.job().lease_until == until


def test_a_stopped_worker_writes_nothing_once_it_goes_on(scene: Scene) -> None:
    """As under SIGSTOP past the lease, then SIGCONT."""
    scene.work("w1")
    job = scene.ask(clips=3)
    stale = scene.claim("w1")
    stale.move(JobState.RUNNING)
    stale.clip_done(clip_row(stale, 0))
    scene.clock.forward(31)
    scene.work("w2")
    assert scene.reap() == [job.id]
    assert scene.state(job) is JobState.INTERRUPTED
    fresh = scene.claim("w2")
    assert fresh.epoch == stale.epoch + 1
    assert fresh.claimed.clips_completed == 1

    before = scene.jobs.get(job.id, None), events.latest(scene.db)
    writes = [
        lambda: stale.job(),
        lambda: stale.move(JobState.RETRYING),
        lambda: stale.progress("denoise", 1, 8, 50),
        lambda: stale.clip_done(clip_row(stale, 1)),
        lambda: stale.event("preview", {}),
        lambda: stale.finish(JobState.FAILED, error=Problem("internal", "x").as_dict()),
        lambda: stale.move(JobState.INTERRUPTED),
    ]
    for write in writes:
        with pytest.raises(LeaseLost):
            write()
    assert stale.orders().lost
    assert not fresh.orders().lost
    assert (scene.jobs.get(job.id, None), events.latest(scene.db)) == before
    assert run_through(fresh).state is JobState.COMPLETED
    assert [clip.worker for clip in scene.jobs.clips(job.id)] == ["w1", "w2", "w2"]
    with pytest.raises(LeaseLost):
        fresh.event("preview", {})


def test_a_reaped_job_goes_back_to_the_same_worker_with_a_new_fence(scene: Scene) -> None:
    scene.work("w1")
    scene.ask()
    stale = scene.claim("w1")
    scene.clock.forward(31)
    scene.reap()
    scene.beat("w1")
    fresh = scene.claim("w1")
    assert fresh.owner == stale.owner
    with pytest.raises(LeaseLost):
        stale.event("preview", {})
    fresh.event("preview", {})


def test_a_clip_counts_once(scene: Scene) -> None:
    scene.work()
    scene.ask(clips=2)
    held = scene.claim()
    held.move(JobState.RUNNING)
    assert held.clip_done(clip_row(held, 0))
    assert not held.clip_done(clip_row(held, 0, seconds=9.0, sha256="f" * 64))
    [clip] = scene.jobs.clips(held.claimed.id)
    assert (clip.seconds, clip.sha256) == (4.0, "0" * 64)
    assert held.job().clips_completed == 1
    assert types(scene, held).count("clip.completed") == 1


def test_after_too_many_losses_a_job_fails_with_its_clips_kept(scene: Scene) -> None:
    job = scene.ask(clips=2)
    for number in range(3):
        scene.work(f"w{number}")
        held = scene.claim(f"w{number}")
        held.move(JobState.RUNNING)
        if number == 0:
            held.clip_done(clip_row(held, 0))
        scene.clock.forward(31)
        assert scene.reap() == [job.id]
    lost = scene.jobs.get(job.id, "a")
    assert (lost.state, lost.losses) == (JobState.FAILED, 3)
    assert lost.error is not None
    assert lost.error["code"] == "worker_lost"
    assert (lost.error["partial"], lost.error["clips_completed"]) == (True, 1)
    assert len(scene.jobs.clips(job.id)) == 1
    assert lost.expires_at == scene.clock.now + scene.settings.retention_seconds
    [last] = [e for e in events.after(scene.db, job.id, 0) if e.type == "video.failed"]
    assert last.data["error"]["code"] == "worker_lost"
    again = scene.jobs.resume(job.id, "a")
    assert (again.state, again.losses, again.run) == (JobState.QUEUED, 0, 1)
    assert (again.clips_completed, again.progress, again.error) == (1, 49, None)


def test_reapers_at_once_act_once(scene: Scene) -> None:
    for number in range(4):
        scene.work(f"w{number}")
        scene.ask()
    holds = [scene.claim(f"w{number}") for number in range(4)]
    scene.clock.forward(31)
    with ThreadPoolExecutor(4) as pool:
        reaped = [id for found in pool.map(lambda _: scene.reap(), range(4)) for id in found]
    assert sorted(reaped) == sorted(held.claimed.id for held in holds)
    for held in holds:
        assert scene.jobs.get(held.claimed.id, None).losses == 1
        assert types(scene, held).count("job.interrupted") == 1


@pytest.mark.parametrize(
    ("what", "state", "code"),
    [
        ("cancel", JobState.CANCELLED, "cancelled"),
        ("delete", JobState.CANCELLED, "cancelled"),
        ("pause", JobState.PAUSED, None),
        ("deadline", JobState.FAILED, "deadline_exceeded"),
    ],
)
def test_a_lost_worker_obeys_all_the_same(
    scene: Scene, what: str, state: JobState, code: str | None
) -> None:
    scene.work()
    job = scene.ask(run_limit_seconds=5.0)
    scene.claim().move(JobState.RUNNING)
    asked = scene.jobs.ask_stop(job.id, "a", what)
    assert asked.stop == what
    scene.clock.forward(31)
    scene.reap()
    found = scene.jobs.get(job.id, "a")
    assert found.state is state
    assert (found.error or {}).get("code") == code


def test_a_stop_gives_way_only_to_a_stronger_one(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    held = scene.claim()
    held.move(JobState.RUNNING)
    asked = ("pause", "deadline", "pause", "cancel", "deadline", "delete", "cancel", "pause")
    heard = []
    for what in asked:
        scene.jobs.ask_stop(job.id, "a", what)
        heard.append((held.orders().stop, held.job().state.value))
    assert heard == [
        ("pause", "running"),
        ("deadline", "cancelling"),
        ("deadline", "cancelling"),
        ("cancel", "cancelling"),
        ("cancel", "cancelling"),
        *[("delete", "cancelling")] * 3,
    ]


def test_who_is_known_to_be_dead_is_not_waited_for(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    held = scene.claim()
    assert fleet.retire(scene.db, scene.settings, "w1", scene.clock) == [job.id]
    found = scene.jobs.get(job.id, "a")
    assert (found.state, found.losses, found.held_by) == (JobState.HELD, 1, "fit")
    assert fleet.list_workers(scene.db) == []
    assert [w.state for w in fleet.list_workers(scene.db, gone=True)] == ["gone"]
    with pytest.raises(LeaseLost):
        held.event("preview", {})


def test_a_drained_job_is_no_loss(scene: Scene) -> None:
    scene.work("w1")
    scene.work("w2")
    scene.ask()
    held = scene.claim()
    held.move(JobState.RUNNING)
    job = held.move(JobState.INTERRUPTED)
    assert (job.state, job.losses, job.lease_owner) == (JobState.INTERRUPTED, 0, None)
    assert scene.claim("w2").claimed.id == job.id


def test_the_ledger_says_what_was_used(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, price_per_gpu_hour=3600.0)
    scene.work()
    scene.ask("a", clips=2)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.clip_done(clip_row(held, 0, seconds=5.0))
    held.move(JobState.INTERRUPTED)
    clock.forward(86400)
    scene.beat("w1")
    again = scene.claim()
    again.move(JobState.RUNNING)
    again.clip_done(clip_row(again, 1, seconds=6.0))
    again.move(JobState.FINALIZING)
    again.finish(JobState.COMPLETED, usage={"gpu_seconds": 12.5})
    scene.beat("w1")
    scene.ask("b")
    failing = scene.claim()
    failing.move(JobState.RUNNING)
    error = Problem("internal", "It broke.").as_dict()
    failing.finish(JobState.FAILED, usage={"gpu_seconds": 2.0}, error=error)

    days = usage_summary(database, "a", ("day",))
    assert [(row["gpu_seconds"], row["clips"], row["frames"]) for row in days] == [
        (5.0, 1, 16),
        (7.5, 1, 16),
    ]
    [a, b] = usage_summary(database, None, ("tenant", "model"))
    assert (a["tenant"], a["model"], a["jobs"], a["price"]) == ("a", "toyworld", 1, 12.5)
    assert (b["gpu_seconds"], b["unbilled_gpu_seconds"], b["price"]) == (2.0, 2.0, 0)
    [today] = usage_summary(database, "a", since=clock.now, until=clock.now)
    assert today["gpu_seconds"] == 7.5
    with pytest.raises(Problem):
        usage_summary(database, "a", ("hour",))


def test_a_worker_is_forgotten_after_a_day(scene: Scene) -> None:
    fleet.register(scene.db, worker(), scene.clock)
    scene.clock.forward(31)
    scene.reap()
    assert len(fleet.list_workers(scene.db, gone=True)) == 1
    scene.clock.forward(86400)
    scene.reap()
    assert fleet.list_workers(scene.db, gone=True) == []
