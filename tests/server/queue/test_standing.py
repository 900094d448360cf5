"""Standing: what is open, counted over pools and tenants; and admission that stays exact."""

from concurrent.futures import ThreadPoolExecutor

from server.database import Database
from server.problems import Problem
from server.queue import fleet
from server.queue.standing import Load, standing_of
from server.states import JobState
from tests.server.conftest import Clock
from tests.server.queue.making import Scene, clip_row, new_job


def test_what_is_open_is_counted(scene: Scene) -> None:
    scene.work()
    scene.work("w2", pool="other")
    running = scene.ask(cost_seconds=7.0, disk_bytes=1)
    scene.claim().move(JobState.RUNNING)
    begun = scene.ask("b", cost_seconds=40.0, clips=4, disk_bytes=10, pool="other")
    held = scene.claim("w2")
    held.move(JobState.RUNNING)
    held.clip_done(clip_row(held, 0))
    fleet.retire(scene.db, scene.settings, "w2", scene.clock)  # no worker is left in its pool
    waiting = scene.ask(cost_seconds=5.0, disk_bytes=100)
    aside = scene.jobs.hold(scene.ask(cost_seconds=3.0, disk_bytes=1000).id, "not yet")
    for what in ("cancel", "pause"):
        scene.jobs.ask_stop(scene.ask(disk_bytes=10**6).id, "a", what)
    states = [scene.state(job) for job in (running, begun, waiting, aside)]
    assert states == [JobState.RUNNING, JobState.HELD, JobState.QUEUED, JobState.HELD]
    with scene.db.read() as connection:
        a, b, nobody = (standing_of(connection, tenant) for tenant in ("a", "b", None))
    assert a.everyone == b.everyone == nobody.everyone == Load(3, 30.0 + 5.0 + 3.0)
    assert (a.its, b.its, nobody.its) == (Load(2, 8.0), Load(1, 30.0), Load(0, 0))
    assert a.disk_bytes == b.disk_bytes == 1111
    assert (a.charged, b.charged) == (7.0, 0.0)
    assert (a.claimable, b.claimable, nobody.claimable) == (True, False, False)
    assert (a.last_rank, b.last_rank, nobody.last_rank) == (aside.rank, begun.rank, None)


def test_bounds_hold_when_many_ask_at_once(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, max_queued=9, tenant_max_queued=5)

    def ask(number: int) -> str:
        try:
            scene.jobs.create(new_job("ab"[number % 2]))
        except Problem as problem:
            return problem.code
        return "made"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(24)))
    with database.read() as connection:
        standing = standing_of(connection, "a")
    assert standing.everyone.queued == answers.count("made") == 9
    assert standing.its.queued in (4, 5)
    assert set(answers) == {"made", "queue_full"} | (set(answers) & {"quota_exceeded"})
