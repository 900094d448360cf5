"""Random operations on jobs: whatever is done in whatever order, the states stay lawful."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from server.database import Database
from server.database.tables import jobs, metadata
from server.problems import Problem
from server.queue import events, fleet
from server.queue.change import IllegalMoveError
from server.queue.claim import claim
from server.queue.held import Held, LeaseLost
from server.queue.job import Job
from server.states import LEASED, TERMINAL, WAITING, JobState, may_move
from tests.server.conftest import Clock
from tests.server.queue.making import Scene, clip_row

WORKERS = ("w1", "w2", "w3")
_KEPT = ("locks", "alembic_version")


class QueueMachine(RuleBasedStateMachine):
    """Tenants, workers and time act on a queue; after each act the laws are checked."""

    db: Database

    def __init__(self) -> None:
        super().__init__()
        with self.db.write() as connection:
            for table in reversed(metadata.sorted_tables):
                if table.name not in _KEPT:
                    connection.execute(table.delete())
        self.clock = Clock()
        self.scene = Scene(self.db, self.clock, max_losses=2)
        for id in WORKERS:
            self.scene.work(id)
        self.ids: list[str] = []
        self.holds: dict[str, Held] = {}  # the newest of each worker
        self.stale: list[Held] = []
        self.seen: dict[str, Job] = {}
        self.seq = events.latest(self.db)
        self.going_on: set[str] = set()  # jobs that were resumed or tried again just now

    @initialize(clips=st.integers(1, 3))
    def begin(self, clips: int) -> None:
        for tenant in "aba":
            self.create(tenant, clips, paused=False)

    def job(self, number: int) -> Job | None:
        """Return one of the jobs, None when there is none."""
        if not self.ids:
            return None
        return self.scene.jobs.get(self.ids[number % len(self.ids)], None)

    @contextlib.contextmanager
    def working(self, id: str) -> Iterator[Held | None]:
        """Let a worker act on what it has; it learns so when it has it no more."""
        held = self.holds.get(id)
        try:
            yield held
        except LeaseLost:
            assert held is not None
            got = self.scene.jobs.get(held.claimed.id, None)
            assert (got.lease_owner, got.lease_epoch) != (id, held.epoch)
            self.stale.append(self.holds.pop(id))

    @rule(tenant=st.sampled_from("ab"), clips=st.integers(1, 3), paused=st.booleans())
    def create(self, tenant: str, clips: int, paused: bool) -> None:
        after: Any = "paused" if paused else "queued"
        limits = {"run_limit_seconds": 60.0, "queue_deadline_at": self.clock.now + 100}
        self.ids.append(self.scene.ask(tenant, clips=clips, state_after=after, **limits).id)

    @rule(id=st.sampled_from(WORKERS))
    def claim(self, id: str) -> None:
        held = claim(self.db, self.scene.settings, id, self.clock)
        if held is None:
            return
        before = self.seen[held.claimed.id]
        if before.lease_owner != id:
            assert before.state in WAITING
            assert held.epoch == before.lease_epoch + 1
        last = self.holds.get(id)
        if last is not None and (last.claimed.id, last.epoch) != (held.claimed.id, held.epoch):
            self.stale.append(last)
        self.holds[id] = held

    @rule(id=st.sampled_from(WORKERS), percent=st.floats(-10, 200))
    def progress(self, id: str, percent: float) -> None:
        with self.working(id) as held:
            if held is not None:
                held.progress("denoise", 1, 8, percent)

    @rule(id=st.sampled_from(WORKERS))
    def clip(self, id: str) -> None:
        with self.working(id) as held:
            if held is not None and (job := held.job()).clips_completed < job.clips:
                assert held.clip_done(clip_row(held, job.clips_completed))

    @rule(
        id=st.sampled_from(WORKERS),
        state=st.sampled_from(
            [
                JobState.ASSIGNED,
                JobState.RUNNING,
                JobState.RETRYING,
                JobState.FINALIZING,
                JobState.INTERRUPTED,
                JobState.PAUSED,
            ]
        ),
    )
    def work(self, id: str, state: JobState) -> None:
        with self.working(id) as held:
            if held is None:
                return
            old = held.job().state
            stays = old is state or (old is JobState.CANCELLING and state not in _AWAY)
            lawful = stays or may_move(old, state) or state is JobState.INTERRUPTED
            with contextlib.nullcontext() if lawful else pytest.raises(IllegalMoveError):
                held.move(state)
            if lawful and state in _AWAY:
                self.stale.append(self.holds.pop(id))

    @rule(id=st.sampled_from(WORKERS), state=st.sampled_from(sorted(TERMINAL)))
    def finish(self, id: str, state: JobState) -> None:
        with self.working(id) as held:
            if held is None:
                return
            good = state is JobState.COMPLETED
            error = None if good else Problem("internal", "It broke.").as_dict()
            lawful = may_move(held.job().state, state)
            with contextlib.nullcontext() if lawful else pytest.raises(IllegalMoveError):
                held.finish(state, error=error)
            if lawful:
                self.stale.append(self.holds.pop(id))

    @rule(number=st.integers(0, 9), what=st.sampled_from(["cancel", "pause", "delete", "deadline"]))
    def stop(self, number: int, what: Any) -> None:
        if (job := self.job(number)) is None:
            return
        with contextlib.suppress(Problem):
            asked = self.scene.jobs.ask_stop(job.id, job.tenant, what)
            assert asked.state in TERMINAL | {JobState.PAUSED} or asked.stop is not None
        if what == "delete":
            got = self.scene.jobs.get(job.id, None)
            if got.state not in TERMINAL:  # a worker has not stopped yet
                with pytest.raises(Problem):
                    self.scene.jobs.remove(job.id)
                return
            self.scene.jobs.remove(job.id)
            self.ids.remove(job.id)
            self.seen.pop(job.id, None)

    @rule(number=st.integers(0, 9), retry=st.booleans(), from_clip=st.integers(0, 3))
    def go_on(self, number: int, retry: bool, from_clip: int) -> None:
        if (job := self.job(number)) is None:
            return
        with contextlib.suppress(Problem):
            if retry:
                self.scene.jobs.retry(job.id, job.tenant, from_clip)
            else:
                self.scene.jobs.resume(job.id, job.tenant)
            self.going_on.add(job.id)

    @rule(number=st.integers(0, 9), deed=st.sampled_from(["hold", "release", "first", "last"]))
    def person(self, number: int, deed: str) -> None:
        if (job := self.job(number)) is None:
            return
        with contextlib.suppress(Problem):
            if deed == "hold":
                self.scene.jobs.hold(job.id, "wait")
            elif deed == "release":
                self.scene.jobs.release(job.id)
            else:
                self.scene.jobs.move(job.id, first=deed == "first", last=deed == "last")

    @rule(seconds=st.sampled_from([1.0, 20.0, 31.0]), alive=st.sets(st.sampled_from(WORKERS)))
    def time_passes(self, seconds: float, alive: set[str]) -> None:
        self.clock.forward(seconds)
        for id in sorted(alive):
            with self.working(id) as held:
                self.scene.beat(id, held)
        self.scene.reap()
        self.scene.expire()

    @rule(id=st.sampled_from(WORKERS))
    def dies(self, id: str) -> None:
        fleet.retire(self.db, self.scene.settings, id, self.clock)
        self.scene.beat(id)

    @invariant()
    def what_is_stale_writes_nothing(self) -> None:
        for held in self.stale[-3:]:
            with pytest.raises(LeaseLost):
                held.event("preview", {})
            assert held.orders().lost

    @invariant()
    def rows_make_sense(self) -> None:
        with self.db.read() as connection:
            found = [Job.of(row) for row in connection.execute(select(jobs))]
        owners = [job.lease_owner for job in found if job.lease_owner is not None]
        assert len(owners) == len(set(owners))
        assert sorted(job.id for job in found) == sorted(self.ids)
        for job in found:
            leased = job.state in LEASED
            assert leased == (job.lease_owner is not None) == (job.lease_until is not None)
            assert leased or job.charged_seconds == 0
            assert (job.state is JobState.HELD) == (job.hold_reason is not None)
            assert (job.state in TERMINAL) == (job.completed_at is not None)
            assert (job.progress == 100) == (job.state is JobState.COMPLETED)
            assert 0 <= job.progress <= 100
            assert job.clips_completed == len(self.scene.jobs.clips(job.id))
            self._follows(job)

    def _follows(self, job: Job) -> None:
        """Check how a job came from what it was at the last look to what it is now."""
        told = events.after(self.db, job.id, self.seq if job.id in self.seen else 0)
        before = self.seen.get(job.id)
        state = None if before is None else before.state
        for event in told:
            new = JobState(event.data["state"]) if "state" in event.data else state
            assert new is not None
            if state is not None and new is not state:
                assert may_move(state, new), (state, new)
            state = new
        assert state is job.state, "each change has its event"
        if before is not None:
            if before.state in TERMINAL and job != before:
                assert job.id in self.going_on
            assert job.run == before.run + (job.id in self.going_on)
            assert job.lease_epoch >= before.lease_epoch
            assert job.run > before.run or job.progress >= before.progress
        self.seen[job.id] = job

    def _looked(self) -> None:
        self.seq = events.latest(self.db)
        self.going_on.clear()

    def check_invariants(self, *arguments: Any, **named: Any) -> None:
        """Check, and only then look at all as seen."""
        super().check_invariants(*arguments, **named)
        self._looked()


_AWAY = frozenset({JobState.INTERRUPTED, JobState.PAUSED})
_EXAMPLES = {"sqlite": 12, "postgresql": 6}


@pytest.mark.slow
def test_any_order_of_operations_is_lawful(database: Database) -> None:
    assert WAITING.isdisjoint(LEASED)
    machine = type("Machine", (QueueMachine,), {"db": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=_EXAMPLES[database.url.get_backend_name()],
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            phases=(Phase.generate,),  # what failed is read from its steps; shrinking takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
