"""LocalDesk: the jobs of all tenants in a database that this machine can open, server or none."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from server.api.shape import video_of
from server.cli.report import visible
from server.database import Database
from server.problems import Problem
from server.queue import events
from server.queue.fleet import list_workers
from server.queue.job import Job
from server.queue.jobs import Filters, Jobs
from server.settings import ServerSettings
from server.states import TERMINAL, JobState
from server.store import open_store
from vidgen.errors import BadRequest, NotFound, VidgenError

POLL_SECONDS = 0.5
_Result = TypeVar("_Result")


class LocalDesk:
    """Everything is allowed: whoever can write the database is its owner."""

    def __init__(self, db: Database, settings: ServerSettings) -> None:
        self._db = db
        self._settings = settings
        self._jobs = Jobs(db, settings)

    def jobs(self, states: tuple[str, ...], newest: bool) -> Iterator[dict[str, Any]]:
        """Yield jobs in some states, or in all, by the time they were made."""
        filters = Filters(states=tuple(JobState(state) for state in states))
        after: str | None = None
        while True:
            page = self._jobs.page(
                None,
                after=after,
                limit=100,
                order="desc" if newest else "asc",
                filters=filters,
            )
            for job in page.jobs:
                yield self._shown(job, placed=False)
            if not page.has_more:
                return
            after = page.last_id

    def show(self, job_id: str) -> dict[str, Any]:
        """Return a job with its place in the queue."""
        return told(lambda: self._shown(self._jobs.get(job_id, None), placed=True))

    def act(self, job_id: str, action: str, data: dict[str, Any]) -> dict[str, Any]:
        """Do one of the actions, or move."""
        return told(lambda: self._shown(self._act(job_id, action, data), placed=True))

    def _act(self, job_id: str, action: str, data: dict[str, Any]) -> Job:
        jobs = self._jobs
        if action == "cancel":
            return jobs.ask_stop(job_id, None, "cancel")
        if action == "pause":
            return jobs.ask_stop(job_id, None, "pause")
        if action == "resume":
            return jobs.resume(job_id, None)
        if action == "retry":
            return jobs.retry(job_id, None)
        if action == "hold":
            return jobs.hold(job_id, str(data["reason"]))
        if action == "release":
            return jobs.release(job_id)
        assert action == "move"
        return jobs.move(
            job_id,
            before=data.get("before"),
            after=data.get("after"),
            first=data.get("to") == "first",
            last=data.get("to") == "last",
        )

    def events(self, job_id: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, data): all of one job until it ends, or of all jobs from now on."""
        if job_id is None:
            tail = events.Tail(self._db)
            while True:
                yield from map(_event, tail.read())
                time.sleep(POLL_SECONDS)
        seen = 0
        while True:
            ended = told(lambda: self._jobs.get(job_id, None)).state in TERMINAL
            found = events.after(self._db, job_id, seen)
            for event in found:
                seen = event.seq
                yield _event(event)
            if found:
                continue
            if ended:
                return
            time.sleep(POLL_SECONDS)

    def fetch(self, job_id: str, variant: str, out: Path) -> None:
        """Write a file of a job."""
        job = told(lambda: self._jobs.get(job_id, None))
        found = job.artifacts.get(variant)
        if found is None or job.artifacts_gone_at is not None:
            there = ", ".join(job.artifacts) if job.artifacts_gone_at is None else ""
            raise NotFound(f"{job_id} is {job.state} and has no {variant}; it has: {there or '-'}.")
        told(lambda: open_store(self._settings).get_file(found["key"], out))

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers, those that went away within a day too."""
        return [dataclasses.asdict(worker) for worker in list_workers(self._db, gone=True)]

    def _shown(self, job: Job, *, placed: bool) -> dict[str, Any]:
        place = self._jobs.place(job) if placed else None
        shown = video_of(job, time.time(), place=place, payload=job.payload)
        return {**shown.model_dump(mode="json"), "tenant": job.tenant}


def _event(event: events.Event) -> tuple[str, dict[str, Any]]:
    return event.type, {"id": event.job_id, "seq": event.seq, "ts": event.ts, **event.data}


def told(do: Callable[[], _Result]) -> _Result:
    """Do something and turn a refusal of the queue into an error of the program."""
    try:
        return do()
    except Problem as problem:
        raise error_of(problem) from None


def error_of(problem: Problem) -> VidgenError:
    """Return the program's error for a refusal of the queue."""
    kind = NotFound if problem.code == "not_found" else BadRequest
    return kind(visible(problem.message), code=problem.code, field=problem.param)
