"""Jobs: all that can be done with jobs but making them; each method is one transaction."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy import Connection, delete, select

from server.database.open import Database
from server.database.tables import clips, jobs
from server.problems import Problem
from server.queue import creating, library, order, stopping
from server.queue.admission import (
    admit,
    free_disk_of,
    known_workers,
    refuse_if_none_could,
)
from server.queue.change import change, write
from server.queue.holds import live_workers
from server.queue.inputs import hold_uploads
from server.queue.job import ClipRow, Job
from server.queue.library import Filters, Page
from server.queue.new_job import NewJob
from server.queue.place import Place, place_of, places_of
from server.queue.rows import find, find_locked
from server.queue.standing import standing_of
from server.queue.stopping import Stop
from server.queue.tenants import get as tenant_of
from server.queue.worker import LIVE
from server.settings import ServerSettings
from server.states import CLAIMABLE, TERMINAL, WAITING, JobState

__all__ = ["Filters", "Jobs", "NewJob", "Page", "Place"]

_EDITABLE = frozenset(
    "payload cipher options decided model loras tokens cost_seconds device_bytes disk_bytes "
    "priority clips queue_deadline_at run_limit_seconds retention_seconds search title tags".split()
)
_ALL = Filters()


class Jobs:
    """The jobs of a database.

    Every method that takes `tenant` raises Problem not_found for another tenant's job; None: any.
    """

    def __init__(
        self,
        db: Database,
        settings: ServerSettings,
        clock: Callable[[], float] = time.time,
        free_disk: Callable[[ServerSettings], int | None] = free_disk_of,
    ) -> None:
        """Open them. free_disk: bytes where jobs are made and kept, None: not to be known here."""
        self.db = db
        self.settings = settings
        self._clock = clock
        self._free_disk = free_disk

    def create(self, new: NewJob) -> tuple[Job, bool]:
        """Write down a new job if there is room; return it, and whether it was there before.

        Raises  Problem: idempotency_mismatch, no_worker_fits, queue_full, quota_exceeded,
                budget_exceeded, storage_full, not_found for the tenant or an input
        """
        free_disk = self._free_disk(self.settings)
        with self.db.write("admit") as connection:
            return creating.create(connection, self.settings, new, self._clock(), free_disk)

    def get(self, job_id: str, tenant: str | None) -> Job:
        """Return a job."""
        with self.db.read() as connection:
            return find(connection, job_id, tenant)

    def page(
        self,
        tenant: str | None,
        *,
        after: str | None = None,
        limit: int = 20,
        order: Literal["asc", "desc", "queue"] = "desc",
        filters: Filters = _ALL,
    ) -> Page:
        """Return at most `limit` jobs behind another one, by age or as they will run."""
        with self.db.read() as connection:
            if order == "queue":
                return library.queue_page(connection, self.settings, tenant, after, limit, filters)
            return library.page(connection, tenant, after, limit, order, filters)

    def place(self, job: Job) -> Place:
        """Return where a job is in the queue, and when it will begin and end."""
        with self.db.read() as connection:
            return place_of(connection, self.settings, job, self._clock())

    def places(self, found: Sequence[Job]) -> dict[str, Place]:
        """Return the places of all of some jobs that a worker could claim, by id."""
        with self.db.read() as connection:
            return places_of(connection, self.settings, found, self._clock())

    def clips(self, job_id: str) -> list[ClipRow]:
        """Return the finished clips of a job, in order."""
        chosen = select(clips).where(clips.c.job_id == job_id).order_by(clips.c.idx)
        with self.db.read() as connection:
            return [ClipRow.of(row) for row in connection.execute(chosen)]

    def ask_stop(self, job_id: str, tenant: str | None, what: Stop) -> Job:
        """Stop a job at once if it waits, else ask its worker to; see `stopping.ask_stop`."""
        with self.db.write() as connection:
            job = find_locked(connection, job_id, tenant)
            return stopping.ask_stop(connection, job, what, self._clock())

    def resume(self, job_id: str, tenant: str | None) -> Job:
        """Let a job that is paused, failed, cancelled or expired go on at its next clip.

        Raises  Problem conflict, gone, and what admission refuses with
        """
        with self.db.write("admit") as connection:
            job = find_locked(connection, job_id, tenant)
            return self._again(connection, job, stopping.check_resume(job))

    def retry(self, job_id: str, tenant: str | None, from_clip: int | None = None) -> Job:
        """Let a job that failed, was cancelled or expired run again from a clip on.

        Raises  Problem conflict, gone, invalid_request, and what admission refuses with
        """
        with self.db.write("admit") as connection:
            job = find_locked(connection, job_id, tenant)
            return self._again(connection, job, stopping.check_retry(job, from_clip))

    def hold(self, job_id: str, reason: str, tenant: str | None = None) -> Job:
        """Hold a waiting job until someone releases it.

        Raises  Problem conflict when it does not wait
        """
        with self.db.write() as connection:
            job = self._locked(connection, job_id, tenant, WAITING, "be held")
            held = {"held_by": "person", "hold_reason": reason}
            if job.state is JobState.HELD:
                return write(connection, job, {**held, "updated_at": self._clock()})
            told = {"reason": reason}
            return change(connection, job, JobState.HELD, self._clock(), told, **held)

    def release(self, job_id: str, tenant: str | None = None) -> Job:
        """Let a held job wait for a worker again.

        Raises  Problem conflict when it is not held
        """
        with self.db.write("claim") as connection:
            job = self._locked(connection, job_id, tenant, {JobState.HELD}, "be released")
            return change(connection, job, JobState.QUEUED, self._clock())

    def move(
        self,
        job_id: str,
        tenant: str | None = None,
        *,
        before: str | None = None,
        after: str | None = None,
        first: bool = False,
        last: bool = False,
    ) -> Job:
        """Move a waiting job among those of its tenant; exactly one place is named.

        Raises  Problem conflict when it or the other one does not wait; Problem invalid_request
        """
        with self.db.write("claim") as connection:
            job = self._locked(connection, job_id, tenant, WAITING, "be moved")
            place = order.Target(before, after, first, last)
            order.move(connection, self.settings, job, place)
            return write(connection, job, {"updated_at": self._clock()})

    def edit(
        self,
        job_id: str,
        columns: dict[str, Any],
        tenant: str | None = None,
        *,
        seen: Job | None = None,
        inputs: tuple[str, ...] = (),
    ) -> Job:
        """Change what a job asks while no worker has begun it.

        columns  of those that say what is asked, as they are in the table
        seen     the job as it was when the columns were decided
        inputs   as of a new job
        Raises   Problem conflict when it was begun, has ended or was changed meanwhile; as for a
                 new job when it asks for more than before and there is no room for that, or an
                 input is gone
        """
        assert columns.keys() <= _EDITABLE, columns.keys() - _EDITABLE
        with self.db.write("admit") as connection:
            job = self._locked(connection, job_id, tenant, _UNBEGUN, "be edited")
            if job.clips_completed or job.started_at is not None:
                raise Problem("conflict", f"{job.id} was begun already; send a new request.")
            if seen is not None and (job.payload, job.options) != (seen.payload, seen.options):
                raise Problem("conflict", f"{job.id} was changed meanwhile; look at it anew.")
            self._admit_more(connection, job, columns)
            now = self._clock()
            until = now + self.settings.retention_seconds
            hold_uploads(connection, job.tenant, inputs, until, now)
            return write(connection, job, {**columns, "updated_at": now})

    def annotate(
        self,
        job_id: str,
        tenant: str | None = None,
        *,
        title: str | None = None,
        tags: Sequence[str] | None = None,
        starred: bool | None = None,
    ) -> Job:
        """Change what a person notes about a job; None leaves it as it is, "" ends a title."""
        with self.db.write() as connection:
            job = find_locked(connection, job_id, tenant)
            values: dict[str, Any] = {"updated_at": self._clock()}
            if title is not None:
                text = None if job.search is None else job.search.rpartition("\n")[0]
                values |= {"title": title or None, "search": creating.searched(text, title)}
            if tags is not None:
                values["tags"] = list(dict.fromkeys(tags))
            if starred is not None:
                values["starred"] = starred
            return write(connection, job, values)

    def trash(self, job_id: str, tenant: str | None = None) -> Job:
        """Put a job that has ended into the trash, from where it is deleted later.

        Raises  Problem conflict when it has not ended
        """
        with self.db.write() as connection:
            job = self._locked(connection, job_id, tenant, TERMINAL, "be put into the trash")
            now = self._clock()
            at = now if job.trashed_at is None else job.trashed_at
            return write(connection, job, {"trashed_at": at, "updated_at": now})

    def restore(self, job_id: str, tenant: str | None = None) -> Job:
        """Take a job out of the trash.

        Raises  Problem gone when its deletion has begun
        """
        with self.db.write() as connection:
            job = find_locked(connection, job_id, tenant)
            if job.stop == "delete":
                raise Problem("gone", f"{job.id} is being deleted and cannot be restored.")
            return write(connection, job, {"trashed_at": None, "updated_at": self._clock()})

    def remove(self, job_id: str, tenant: str | None = None) -> None:
        """Delete the rows of a job that has ended, with its clips, events and key; usage stays.

        Raises  Problem conflict when it has not ended
        """
        with self.db.write() as connection:
            job = self._locked(connection, job_id, tenant, TERMINAL, "be deleted")
            connection.execute(delete(jobs).where(jobs.c.id == job.id))

    def _admit_more(self, connection: Connection, job: Job, columns: dict[str, Any]) -> None:
        if columns.get("payload", {}) == job.payload:
            return  # the same is asked; only what is predicted for it may have changed
        needs = ("cost_seconds", "device_bytes", "disk_bytes")
        after = replace(job, **{name: columns[name] for name in needs if name in columns})
        if all(getattr(after, name) <= getattr(job, name) for name in needs):
            return
        now = self._clock()
        known = known_workers(connection, now)
        refuse_if_none_could(known, after)
        live = [worker for worker in known if worker.state in LIVE]
        others = standing_of(connection, job.tenant, without=job.id)
        tenant, free_disk = tenant_of(connection, job.tenant), self._free_disk(self.settings)
        admit(connection, self.settings, tenant, after, now, others, live, free_disk)

    def _again(self, connection: Connection, job: Job, start: int) -> Job:
        now = self._clock()
        tenant = tenant_of(connection, job.tenant)
        standing = standing_of(connection, job.tenant)
        live = live_workers(connection)
        free_disk = self._free_disk(self.settings)
        admit(connection, self.settings, tenant, job, now, standing, live, free_disk)
        return stopping.again(connection, job, start, now)

    def _locked(
        self,
        connection: Connection,
        job_id: str,
        tenant: str | None,
        states: frozenset[JobState] | set[JobState],
        deed: str,
    ) -> Job:
        job = find_locked(connection, job_id, tenant)
        if job.state not in states:
            allowed = ", ".join(sorted(states))
            raise Problem("conflict", f"{job.id} is {job.state} and cannot {deed}: only {allowed}.")
        return job


_UNBEGUN = CLAIMABLE | {JobState.HELD, JobState.PAUSED}
