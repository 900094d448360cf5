"""Leaving a worker: how a job's lease ends, whoever ends it."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from server.problems import KINDS, Problem
from server.queue import accounts, tallies
from server.queue.change import change
from server.queue.job import Job
from server.queue.tallies import Seen
from server.states import JobState


def leave(
    connection: Connection,
    job: Job,
    state: JobState,
    now: float,
    price_per_gpu_hour: float,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> Job:
    """Move a leased job on to where no worker has it, settling what was used.

    columns  of the results; usage["gpu_seconds"] of all its clips and what was spent beside them
    """
    error = columns.get("error")
    billed = error is None or KINDS[error["code"]].billed
    used = replace(job, usage=columns.get("usage") or {})
    left = change(connection, job, state, now, data, charged_seconds=0.0, **columns)
    accounts.settle(connection, used, now, price_per_gpu_hour, billed=billed)
    return left


def hand_back(
    connection: Connection, job: Job, now: float, price_per_gpu_hour: float, **columns: Any
) -> Job:
    """End the lease of a job whose worker goes, as what was asked of that worker says."""
    data: dict[str, Any] = {}
    if job.stop in ("cancel", "delete"):
        state, columns = JobState.CANCELLED, columns | {"error": cancelled(job)}
    elif job.stop == "deadline":
        state, columns = JobState.FAILED, columns | {"error": overrun(job)}
    elif job.stop == "pause":
        state = JobState.PAUSED
    else:
        state, data = JobState.INTERRUPTED, {"resume_from_clip": job.clips_completed}
    return leave(connection, job, state, now, price_per_gpu_hour, data, **columns)


def lost(
    connection: Connection, job: Job, now: float, price_per_gpu_hour: float, max_losses: int
) -> Job:
    """End the lease of a job whose worker has died or been silent for too long."""
    tallies.add(connection, [Seen("lease_lost")])
    losses = job.losses + 1
    if job.stop is not None or losses < max_losses:
        return hand_back(connection, job, now, price_per_gpu_hour, losses=losses)
    error = Problem(
        "worker_lost",
        f"{losses} workers went away while they made it, the most that is tried (max_losses); "
        "look into the workers' logs, then resume it.",
        extra=made_so_far(job),
    ).as_dict()
    return leave(
        connection, job, JobState.FAILED, now, price_per_gpu_hour, losses=losses, error=error
    )


def cancelled(job: Job) -> dict[str, Any]:
    """Return the error of a job that ends because someone asked for it."""
    return Problem(
        "cancelled",
        f"It was cancelled with {job.clips_completed} of {job.clips} clips made; "
        "resume it to go on from there.",
        extra=made_so_far(job),
    ).as_dict()


def overrun(job: Job) -> dict[str, Any]:
    """Return the error of a job that ran for longer than it was allowed to."""
    limit = "" if job.run_limit_seconds is None else f" of {job.run_limit_seconds:g} s"
    return Problem(
        "deadline_exceeded",
        f"It ran for longer than its limit{limit}, with "
        f"{job.clips_completed} of {job.clips} clips made; resume it with a longer limit.",
        extra=made_so_far(job),
    ).as_dict()


def made_so_far(job: Job) -> dict[str, Any]:
    """Return the members of an error that say what can be fetched of an unfinished job."""
    return {"partial": job.clips_completed > 0, "clips_completed": job.clips_completed}
