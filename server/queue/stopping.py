"""Stopping and going on: cancel, pause, deadline and delete; resume and retry."""

from typing import Literal

from sqlalchemy import Connection, delete

from server.database.tables import clips
from server.problems import Problem
from server.queue.change import change, write
from server.queue.job import Job
from server.queue.leaving import cancelled
from server.states import LEASED, TERMINAL, JobState

Stop = Literal["cancel", "pause", "delete", "deadline"]

# A stop that was asked for gives way only to a stronger one.
_STRENGTH: dict[str | None, int] = {None: 0, "pause": 1, "deadline": 2, "cancel": 3, "delete": 4}


def ask_stop(connection: Connection, job: Job, what: Stop, now: float) -> Job:
    """Stop a locked job at once if no worker has it, else ask its worker to.

    A job that has ended, or is paused and shall pause, stays as it is when it is what was asked.
    Raises  Problem conflict when it has ended otherwise, or for a deadline when no worker has it
    """
    if job.state in TERMINAL:
        return _ended(job, what)
    if job.state not in LEASED:
        return _stop_waiting(connection, job, what, now)
    if _STRENGTH[what] <= _STRENGTH[job.stop]:
        return job
    if what == "pause" or job.state is JobState.CANCELLING:
        return write(connection, job, {"stop": what, "stop_at": now, "updated_at": now})
    told = {"stop": what}
    return change(connection, job, JobState.CANCELLING, now, told, stop=what, stop_at=now)


def _ended(job: Job, what: Stop) -> Job:
    if what == "delete" or (what == "cancel" and job.state is JobState.CANCELLED):
        return job
    raise Problem(
        "conflict", f"{job.id} is {job.state} already, so that it cannot {_verb(what)} any more."
    )


def _stop_waiting(connection: Connection, job: Job, what: Stop, now: float) -> Job:
    if what == "pause":
        paused = job.state is JobState.PAUSED
        return job if paused else change(connection, job, JobState.PAUSED, now)
    if what == "deadline":
        raise Problem("conflict", f"{job.id} is {job.state}: no worker has it that could overrun.")
    error = cancelled(job)
    return change(connection, job, JobState.CANCELLED, now, error=error, stop=what, stop_at=now)


def _verb(what: Stop) -> str:
    return {"deadline": "overrun its limit"}.get(what, what)


def check_resume(job: Job) -> int:
    """Return the clip at which a paused, failed, cancelled or expired job would go on.

    Raises  Problem conflict in another state; Problem gone when its clips were deleted
    """
    if job.state is not JobState.PAUSED and job.state not in _AGAIN:
        raise Problem(
            "conflict",
            f"{job.id} is {job.state}; only a paused, failed, cancelled or expired job resumes.",
        )
    _check_kept(job)
    return job.clips_completed


def check_retry(job: Job, from_clip: int | None) -> int:
    """Return the clip from which a job that failed, was cancelled or expired would run again.

    from_clip  0..clips made; None: the next one
    Raises     Problem conflict in another state; Problem gone when its clips were deleted; Problem
               invalid_request for such a clip
    """
    if job.state not in _AGAIN:
        raise Problem(
            "conflict", f"{job.id} is {job.state}; only a failed, cancelled or expired job retries."
        )
    _check_kept(job)
    start = job.clips_completed if from_clip is None else from_clip
    if not 0 <= start <= job.clips_completed:
        raise Problem(
            "invalid_request",
            f"from_clip={start} must be in 0..{job.clips_completed}: so many clips are made.",
            param="from_clip",
        )
    return start


_AGAIN = TERMINAL - {JobState.COMPLETED}


def _check_kept(job: Job) -> None:
    if job.artifacts_gone_at is not None:
        raise Problem("gone", f"What {job.id} had made was deleted; send its request again.")


def again(connection: Connection, job: Job, start: int, now: float) -> Job:
    """Let a locked job wait for a worker in a new run; clips from `start` on are made anew."""
    later = (clips.c.job_id == job.id) & (clips.c.idx >= start)
    connection.execute(delete(clips).where(later))
    return change(
        connection,
        job,
        JobState.QUEUED,
        now,
        {"run": job.run + 1, "resume_from_clip": start},
        run=job.run + 1,
        losses=0,
        clips_completed=start,
        progress=99 * start // job.clips,
        phase=None,
        step=None,
        steps=None,
        stop=None,
        stop_at=None,
        started_at=None,
        completed_at=None,
        expires_at=None,
        queue_deadline_at=None,
        trashed_at=None,
        artifacts={},
        usage={},
        error=None,
        report=None,
    )
