"""The order in which jobs will run: that of the claims, of the places, and page by page."""

import random

import pytest

from server.problems import Problem
from server.queue import tenants
from server.queue.job import Job
from server.queue.jobs import Filters
from server.states import CLAIMABLE, JobState
from tests.server.queue.making import Scene, end_at_once, served


def line(scene: Scene, tenant: str | None = None) -> list[str]:
    """Return the ids of the jobs that have not ended, as they are said to run."""
    return [job.id for job in scene.jobs.page(tenant, order="queue", limit=100).jobs]


def fill(scene: Scene, number: int, drawn: random.Random) -> list[Job]:
    """Let two tenants of different weights ask, in turn, for jobs of all costs and priorities."""
    tenants.set_bounds(scene.db, "b", weight=2.0)
    made = []
    for _ in range(number):
        cost, priority = float(drawn.randint(1, 40)), drawn.choice((-1, 0, 0, 1))
        made.append(scene.ask(drawn.choice("ab"), cost_seconds=cost, priority=priority))
        scene.clock.forward(drawn.randint(0, 3))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_jobs_are_claimed_in_the_order_of_the_line(scene: Scene, seed: int) -> None:
    scene.work()
    drawn = random.Random(seed)
    made = fill(scene, 24, drawn)
    for job in drawn.sample(made, 3):
        scene.jobs.move(job.id, None, first=True)
    told = line(scene)
    assert served(scene, len(made)) == told
    assert line(scene) == []


def test_the_line_has_the_places_in_order(scene: Scene) -> None:
    scene.work()
    made = fill(scene, 12, random.Random(7))
    assert [scene.jobs.place(scene.jobs.get(id, None)).position for id in line(scene)] == [
        *range(1, len(made) + 1)
    ]


def test_two_that_come_at_once_have_two_places(scene: Scene) -> None:
    scene.work()
    for tenant in "ab":
        scene.ask(tenant)
    told = line(scene)
    assert [scene.jobs.place(scene.jobs.get(id, None)).position for id in told] == [1, 2]
    assert served(scene, 2) == told


def test_the_places_of_many_are_those_of_each(scene: Scene) -> None:
    scene.work()
    scene.work("w2", models=["toyworld"])
    scene.work("w3", pool="other")
    fill(scene, 10, random.Random(8))
    scene.claim().move(JobState.RUNNING)
    aside = [scene.ask(model="wan", cost_seconds=3.0), scene.ask("b", pool="other")]
    scene.ask("b", pool="other")
    scene.jobs.hold(scene.ask().id, "not yet")
    found = scene.jobs.page(None, order="queue", limit=100).jobs
    each = {job.id: scene.jobs.place(job) for job in found if job.state in CLAIMABLE}
    assert len(each) == 12
    assert {job.id for job in aside} <= each.keys()
    many = scene.jobs.places(found)
    assert many.keys() == each.keys()
    for id, place in each.items():  # sums of the same in another order
        assert many[id].position == place.position
        for mine, its in ((many[id].eta_start, place.eta_start), (many[id].eta_end, place.eta_end)):
            assert mine == (its if its is None else pytest.approx(its))


def test_what_runs_is_first_and_what_goes_on_for_nobody_last(scene: Scene) -> None:
    scene.work()
    scene.work("w2")
    running = [scene.ask().id for _ in range(2)]
    for name in ("w1", "w2"):
        scene.claim(name)
    paused, held, late, ended = (scene.ask() for _ in range(4))
    scene.jobs.ask_stop(paused.id, "a", "pause")
    scene.jobs.hold(held.id, "not yet")
    scene.jobs.ask_stop(ended.id, "a", "cancel")
    early = scene.ask(priority=1)
    assert line(scene) == [*running, early.id, late.id, held.id, paused.id]


def test_what_is_held_is_in_the_order_in_which_it_would_be_served(scene: Scene) -> None:
    scene.work()
    later, sooner = scene.ask(), scene.ask(priority=1)
    for job in (later, sooner):
        scene.jobs.hold(job.id, "not yet")
    assert line(scene) == [sooner.id, later.id]


def test_pages_leave_out_nothing_that_waits_while_others_begin_and_end(scene: Scene) -> None:
    scene.work()
    made = [scene.ask().id for _ in range(7)]
    seen: list[str] = []
    after = None
    for lap in range(10):
        page = scene.jobs.page("a", order="queue", limit=2, after=after)
        seen += [job.id for job in page.jobs]
        if not page.has_more:
            break
        after = page.last_id
        for _ in range(2 if lap < 2 else 0):  # also the one that the next page is to go on after
            end_at_once(scene.claim(), 1.0)
            scene.beat("w1")
    assert set(seen) == set(made)


def test_after_a_job_that_runs_or_has_ended(scene: Scene) -> None:
    scene.work()
    first, second, third = (scene.ask().id for _ in range(3))
    held = scene.claim()

    def after(job: str) -> list[str]:
        return [each.id for each in scene.jobs.page("a", order="queue", after=job).jobs]

    assert after(first) == [second, third]
    assert after(third) == []
    end_at_once(held, 1.0)
    assert after(first) == [second, third]  # from the start
    for job, tenant in ((first, "b"), ("video_none", "a")):
        with pytest.raises(Problem) as caught:
            scene.jobs.page(tenant, order="queue", after=job)
        assert caught.value.code == "not_found"


def test_others_are_not_seen_and_filters_change_no_place(scene: Scene) -> None:
    scene.work()
    theirs = scene.ask("b")
    scene.clock.forward(1)
    mine = [scene.ask(model=model) for model in ("toyworld", "wan", "toyworld")]
    page = scene.jobs.page("a", order="queue", filters=Filters(model="toyworld"))
    assert [job.id for job in page.jobs] == [mine[0].id, mine[2].id]
    places = scene.jobs.places(page.jobs)
    assert [places[job.id].position for job in page.jobs] == [2, 4]
    assert line(scene, "b") == [theirs.id]


@pytest.mark.parametrize(
    ("filters", "name"),
    [
        (Filters(states=(JobState.QUEUED, JobState.COMPLETED)), "state=completed"),
        (Filters(trashed=True), "trashed=true"),
    ],
)
def test_what_only_ended_jobs_meet_is_refused(scene: Scene, filters: Filters, name: str) -> None:
    with pytest.raises(Problem) as caught:
        scene.jobs.page("a", order="queue", filters=filters)
    assert caught.value.code == "invalid_request"
    assert name in caught.value.message
    assert caught.value.param == name.split("=")[0]
