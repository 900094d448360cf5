"""States of a job, the moves between them, and what clients of the videos API see of them."""

from enum import StrEnum
from typing import Literal

Status = Literal["queued", "in_progress", "completed", "failed"]


class JobState(StrEnum):
    """Where a job is.

    queued       waits for a worker
    held         waits for something else: a worker that fits, a budget, or a person (hold_reason)
    assigned     a worker has claimed it and prepares (loads weights, reads inputs)
    running      denoising has begun
    retrying     a clip came out unusable and is made again
    cancelling   a stop was asked for and the worker has not yet stopped
    finalizing   all clips are made; files are written and checked
    interrupted  its worker went away or drains; another one goes on at the first unfinished clip
    paused       stopped on request with everything kept, to be resumed
    completed, failed, cancelled, expired   ended; expired never began in time
    """

    QUEUED = "queued"
    HELD = "held"
    ASSIGNED = "assigned"
    RUNNING = "running"
    RETRYING = "retrying"
    CANCELLING = "cancelling"
    FINALIZING = "finalizing"
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


_S = JobState

WAITING = frozenset({_S.QUEUED, _S.HELD, _S.INTERRUPTED})  # no worker has it
CLAIMABLE = frozenset({_S.QUEUED, _S.INTERRUPTED})
LEASED = frozenset({_S.ASSIGNED, _S.RUNNING, _S.RETRYING, _S.CANCELLING, _S.FINALIZING})
TERMINAL = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.EXPIRED})

# Every move that exists. A terminal state is left only by an explicit resume or retry.
MOVES: dict[JobState, frozenset[JobState]] = {
    _S.QUEUED: frozenset({_S.ASSIGNED, _S.HELD, _S.PAUSED, _S.CANCELLED, _S.EXPIRED, _S.FAILED}),
    _S.HELD: frozenset({_S.QUEUED, _S.PAUSED, _S.CANCELLED, _S.EXPIRED, _S.FAILED}),
    _S.INTERRUPTED: frozenset({_S.ASSIGNED, _S.HELD, _S.PAUSED, _S.CANCELLED, _S.FAILED}),
    _S.ASSIGNED: frozenset(
        {_S.RUNNING, _S.FINALIZING, _S.CANCELLING, _S.INTERRUPTED, _S.PAUSED, _S.FAILED}
    ),
    _S.RUNNING: frozenset(
        {_S.RETRYING, _S.FINALIZING, _S.CANCELLING, _S.INTERRUPTED, _S.PAUSED, _S.FAILED}
    ),
    _S.RETRYING: frozenset(
        {_S.RUNNING, _S.FINALIZING, _S.CANCELLING, _S.INTERRUPTED, _S.PAUSED, _S.FAILED}
    ),
    _S.CANCELLING: frozenset({_S.CANCELLED, _S.COMPLETED, _S.FAILED, _S.INTERRUPTED}),
    _S.FINALIZING: frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLING, _S.INTERRUPTED, _S.PAUSED}),
    _S.PAUSED: frozenset({_S.QUEUED, _S.CANCELLED}),
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.CANCELLED: frozenset({_S.QUEUED}),
    _S.EXPIRED: frozenset({_S.QUEUED}),
}

_STATUS: dict[JobState, Status] = {
    _S.QUEUED: "queued",
    _S.HELD: "queued",
    _S.ASSIGNED: "queued",
    _S.INTERRUPTED: "queued",
    _S.PAUSED: "queued",
    _S.RUNNING: "in_progress",
    _S.RETRYING: "in_progress",
    _S.CANCELLING: "in_progress",
    _S.FINALIZING: "in_progress",
    _S.COMPLETED: "completed",
    _S.FAILED: "failed",
    _S.CANCELLED: "failed",
    _S.EXPIRED: "failed",
}


def status_of(state: JobState) -> Status:
    """Return the word of the videos API; its clients know only four and loop on any other."""
    return _STATUS[state]


def may_move(old: JobState, new: JobState) -> bool:
    """Whether a job may go from one state to another."""
    return new in MOVES[old]
