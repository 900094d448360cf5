"""Held: a job in the hands of one worker; each write proves that the worker still has it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select

from server.database.open import Database
from server.database.tables import clips, jobs
from server.queue import events, tallies
from server.queue.change import change, write
from server.queue.counting import of_clip
from server.queue.job import ClipRow, Job
from server.queue.leaving import hand_back, leave
from server.queue.rows import locked_where
from server.states import LEASED, TERMINAL, JobState

_WORKING = frozenset({JobState.ASSIGNED, JobState.RUNNING, JobState.RETRYING, JobState.FINALIZING})


class LeaseLost(BaseException):
    """Another worker may have the job: stop at once and write nothing more of it.

    It passes `except Exception`, so that no step records it as its own failure.
    """


@dataclass(frozen=True, slots=True)
class Orders:
    """What is asked of a worker. stop: cancel, pause, delete or deadline; lost: it lost the job."""

    stop: str | None
    lost: bool


@dataclass(frozen=True, slots=True)
class Held:
    """A job under a lease. Every method but `orders` raises LeaseLost once the lease is lost."""

    db: Database
    claimed: Job
    owner: str
    epoch: int
    clock: Callable[[], float] = time.time
    price_per_gpu_hour: float = 0.0

    def job(self) -> Job:
        """Read the job anew."""
        chosen = select(jobs).where(jobs.c.id == self.claimed.id, *self._fence())
        with self.db.read() as connection:
            row = connection.execute(chosen).one_or_none()
        if row is None:
            raise self._lost()
        return Job.of(row)

    def orders(self) -> Orders:
        """Read what is asked of the worker."""
        chosen = select(jobs.c.stop).where(jobs.c.id == self.claimed.id, *self._fence())
        with self.db.read() as connection:
            row = connection.execute(chosen).one_or_none()
        return Orders(None, lost=True) if row is None else Orders(row.stop, lost=False)

    def move(self, state: JobState, data: dict[str, Any] | None = None, **columns: Any) -> Job:
        """Move it to another state that is not an end; return it as it is now.

        Once a stop is asked for it stays cancelling, whatever it would be working at. Moving to
        interrupted hands it back: what was asked of the worker then decides where it goes.

        data     added to the event
        columns  written along, e.g. phase, or for paused the usage
        """
        assert state not in TERMINAL, "finish() ends a job"
        now = self.clock()
        with self._mine() as (connection, job):
            if state is JobState.INTERRUPTED:
                return hand_back(connection, job, now, self.price_per_gpu_hour, **columns)
            if state is JobState.PAUSED:
                return leave(connection, job, state, now, self.price_per_gpu_hour, data, **columns)
            if state is job.state or (job.state is JobState.CANCELLING and state in _WORKING):
                return write(connection, job, {"updated_at": now, **columns})
            if state is JobState.RUNNING and job.started_at is None:
                columns = {"started_at": now, **columns}
            return change(connection, job, state, now, data, **columns)

    def progress(
        self,
        phase: str,
        step: int | None,
        steps: int | None,
        percent: float,
        eta_at: float | None = None,
        preview_event: dict[str, Any] | None = None,
    ) -> Job:
        """Say how far it is; the percentage never falls and stays below 100.

        percent        0..100 of the whole job
        preview_event  data of a preview that was stored
        """
        now = self.clock()
        with self._mine() as (connection, job):
            seen = max(job.progress, min(99, int(percent)))
            said = {"phase": phase, "step": step, "steps": steps, "eta_at": eta_at}
            values = {**said, "progress": seen, "updated_at": now}
            told = {**said, "state": job.state.value, "progress": seen}
            events.append(connection, job.id, "progress", told, now)
            if preview_event is not None:
                events.append(connection, job.id, "preview", preview_event, now)
            return write(connection, job, values)

    def clip_done(self, clip: ClipRow) -> bool:
        """Write down a finished clip; False when it was before, and that one stays."""
        assert (clip.job_id, clip.worker, clip.epoch) == (self.claimed.id, self.owner, self.epoch)
        now = self.clock()
        with self._mine() as (connection, job):
            same = (clips.c.job_id == clip.job_id) & (clips.c.idx == clip.idx)
            if connection.execute(select(clips.c.idx).where(same)).first() is not None:
                return False
            row = {column.name: getattr(clip, column.name) for column in clips.c}
            connection.execute(insert(clips).values(row))
            counted = select(func.count()).where(clips.c.job_id == job.id)
            made = int(connection.execute(counted).scalar_one())
            seen = max(job.progress, 99 * made // job.clips)
            values = {"clips_completed": made, "progress": seen, "updated_at": now}
            write(connection, job, values)
            told: dict[str, Any] = {"clip": clip.idx, "attempt": clip.attempt, "seed": clip.seed}
            told |= {"num_frames": clip.num_frames, "clips_completed": made, "progress": seen}
            told |= {"clips": job.clips, "artifacts": sorted(clip.artifacts)}
            events.append(connection, job.id, "clip.completed", told, now)
            tallies.add(connection, of_clip(job, clip))
            return True

    def event(self, type: str, data: dict[str, Any]) -> int:
        """Write an event that changes nothing of the job; return its number."""
        with self._mine() as (connection, job):
            return events.append(connection, job.id, type, data, self.clock())

    def finish(
        self,
        state: JobState,
        *,
        artifacts: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
        report: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
    ) -> Job:
        """End the job; return it as it is now.

        usage  gpu_seconds in it counts all the job's clips and what was spent beside them
        error  Problem.as_dict(), for every end but completed
        """
        assert state in TERMINAL, "move() goes between the other states"
        assert (error is None) == (state is JobState.COMPLETED), "an end is good or says why not"
        columns: dict[str, Any] = {
            "artifacts": artifacts or {},
            "usage": usage or {},
            "report": report,
        }
        if state is JobState.COMPLETED:
            columns["progress"] = 100
        with self._mine() as (connection, job):
            price = self.price_per_gpu_hour
            return leave(connection, job, state, self.clock(), price, error=error, **columns)

    def _fence(self) -> tuple[Any, ...]:
        return (
            jobs.c.lease_owner == self.owner,
            jobs.c.lease_epoch == self.epoch,
            jobs.c.state.in_(sorted(state.value for state in LEASED)),
        )

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"{self.owner} no longer has {self.claimed.id} (epoch {self.epoch}).")

    @contextlib.contextmanager
    def _mine(self) -> Iterator[tuple[Connection, Job]]:
        """Open a transaction in which no one takes the job away."""
        with self.db.write() as connection:
            job = locked_where(connection, self.claimed.id, *self._fence())
            if job is None:
                raise self._lost()
            yield connection, job
