"""The order within a tenant: priorities that age, moves and holds."""

import pytest

from server.problems import Problem
from server.queue import fleet
from server.states import JobState
from tests.server.queue.making import Scene, served


def test_priorities_come_first_until_the_others_have_aged(scene: Scene) -> None:
    scene.work()
    ageing = scene.settings.ageing_seconds
    low = scene.ask(priority=-1)
    scene.clock.forward(1)
    normal = scene.ask()
    scene.clock.forward(ageing - 2)
    high = scene.ask(priority=1)  # overtakes what came less than ageing_seconds before it ..
    scene.clock.forward(1)
    late = scene.ask(priority=1)  # .. and comes to wait behind, the later it comes
    scene.clock.forward(1)
    later = scene.ask(priority=1)
    assert served(scene, 5) == [high.id, late.id, normal.id, later.id, low.id]


def test_the_bound_of_ageing(scene: Scene) -> None:
    """A job is overtaken by one priority only if that came less than ageing_seconds later."""
    scene.work()
    normal = scene.ask()
    scene.clock.forward(scene.settings.ageing_seconds - 0.5)
    before = scene.ask(priority=1)
    scene.clock.forward(1)
    after = scene.ask(priority=1)
    assert served(scene, 3) == [before.id, normal.id, after.id]


def test_moved_jobs_keep_their_place(scene: Scene) -> None:
    scene.work()
    ids = [scene.ask(priority=number % 2).id for number in range(6)]
    scene.jobs.move(ids[4], "a", first=True)
    scene.jobs.move(ids[1], "a", last=True)
    scene.jobs.move(ids[0], "a", before=ids[3])
    scene.jobs.move(ids[2], "a", after=ids[5])
    # 1 3 5 0 2 4 -> 4 1 3 5 0 2 -> 4 3 5 0 2 1 -> 4 0 3 5 2 1 -> the same
    assert served(scene, 6) == [ids[number] for number in (4, 0, 3, 5, 2, 1)]


def test_moves_find_room_any_number_of_times(scene: Scene) -> None:
    scene.work()
    ids = [scene.ask().id for _ in range(3)]
    for _ in range(61):
        ids = [ids[0], ids[2], ids[1]]
        scene.jobs.move(ids[1], "a", after=ids[0])
    assert served(scene, 3) == ids


def test_moves_that_make_no_sense(scene: Scene) -> None:
    scene.work()
    running, waiting, others = scene.ask(), scene.ask(), scene.ask("b")
    scene.claim()
    for target in ({}, {"first": True, "last": True}, {"first": True, "after": waiting.id}):
        with pytest.raises(Problem) as caught:
            scene.jobs.move(waiting.id, "a", **target)
        assert caught.value.code == "invalid_request"
    for job, target in (
        (running, {"first": True}),
        (waiting, {"after": running.id}),
        (waiting, {"before": others.id}),
        (waiting, {"before": waiting.id}),
    ):
        with pytest.raises(Problem) as caught:
            scene.jobs.move(job.id, "a", **target)
        assert caught.value.code == "conflict"


def test_a_person_holds_and_releases(scene: Scene) -> None:
    scene.work()
    job = scene.ask()
    held = scene.jobs.hold(job.id, "wait for the client")
    assert (held.state, held.hold_reason, held.held_by) == (
        JobState.HELD,
        "wait for the client",
        "person",
    )
    assert fleet.rehold(scene.db, scene.clock) == []
    assert scene.none_for("w1")
    assert scene.jobs.hold(job.id, "and wait").hold_reason == "and wait"
    freed = scene.jobs.release(job.id)
    assert (freed.state, freed.hold_reason, freed.held_by) == (JobState.QUEUED, None, None)
    with pytest.raises(Problem):
        scene.jobs.release(job.id)
    assert not scene.none_for("w1")
    with pytest.raises(Problem):
        scene.jobs.hold(job.id, "too late")
