"""Changing a job's state: the one place where it happens, always with its event and tally."""

from typing import Any

from sqlalchemy import Connection, bindparam, update

from server.database.tables import jobs
from server.queue import accounts, events, tallies
from server.queue.counting import of_change
from server.queue.inputs import keep_with_results
from server.queue.job import Job
from server.states import CLAIMABLE, LEASED, TERMINAL, JobState, may_move
from server.webhooks.outbox import announce

_EVENT_OF: dict[JobState, str] = {
    JobState.QUEUED: "job.queued",
    JobState.HELD: "job.held",
    JobState.ASSIGNED: "job.assigned",
    JobState.RUNNING: "job.started",
    JobState.RETRYING: "clip.retried",
    JobState.CANCELLING: "job.cancelling",
    JobState.FINALIZING: "progress",
    JobState.INTERRUPTED: "job.interrupted",
    JobState.PAUSED: "job.paused",
    JobState.COMPLETED: "video.completed",
    JobState.FAILED: "video.failed",
    JobState.CANCELLED: "video.cancelled",
    JobState.EXPIRED: "video.failed",
}


_UPDATE = (
    update(jobs)
    .where(jobs.c.id == bindparam("its_id"), jobs.c.state == bindparam("its_state"))
    .returning(*jobs.c)
)


class IllegalMoveError(RuntimeError):
    """A change of state that does not exist was tried: a fault in our own code."""


def change(
    connection: Connection,
    job: Job,
    state: JobState,
    now: float,
    data: dict[str, Any] | None = None,
    **columns: Any,
) -> Job:
    """Move a job that this transaction has locked; return it as it is now.

    data     added to the event
    columns  written along
    Raises   IllegalMoveError when there is no such move
    """
    if not may_move(job.state, state):
        raise IllegalMoveError(f"{job.id} may not go from {job.state} to {state}.")
    if state is JobState.QUEUED and job.state not in CLAIMABLE:
        accounts.join(connection, job.tenant, job.pool)
    values = {"state": state.value, "updated_at": now, **_left(job.state, state)}
    if state in TERMINAL:
        values |= {"completed_at": now, "expires_at": now + job.retention_seconds, "eta_at": None}
    changed = write(connection, job, {**values, **columns})
    if state in TERMINAL:
        keep_with_results(connection, changed)
    told(connection, changed, event_of(job.state, state), now, data)
    tallies.add(connection, of_change(job, changed, now))
    return changed


def write(connection: Connection, job: Job, values: dict[str, Any]) -> Job:
    """Write columns of a job that this transaction has locked; return it as it is now."""
    mine = {"its_id": job.id, "its_state": job.state.value}
    return Job.of(connection.execute(_UPDATE, {**mine, **values}).one())


def told(
    connection: Connection, job: Job, type: str, now: float, data: dict[str, Any] | None = None
) -> None:
    """Write the event of a new state, and announce it to webhooks when it is an end."""
    said: dict[str, Any] = {
        "state": job.state.value,
        "status": job.status,
        "progress": job.progress,
    }
    if job.state in TERMINAL and job.error is not None:
        said["error"] = job.error
    events.append(connection, job.id, type, {**said, **(data or {})}, now)
    if job.state in TERMINAL:
        announce(connection, job, type, now)


def event_of(old: JobState | None, new: JobState) -> str:
    """Return the type of the event that says that a job went from one state to another."""
    if old is JobState.RETRYING and new is JobState.RUNNING:
        return "progress"
    return _EVENT_OF[new]


def _left(old: JobState, new: JobState) -> dict[str, Any]:
    """Return the columns that mean nothing any more once the old state is left."""
    values: dict[str, Any] = {}
    if old in LEASED and new not in LEASED:
        values |= {"lease_owner": None, "lease_until": None, "eta_at": None}
        if new not in TERMINAL:
            values |= {"stop": None, "stop_at": None}
    if old is JobState.HELD:
        values |= {"hold_reason": None, "held_by": None}
    return values
