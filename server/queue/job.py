"""Job and ClipRow: a row of the tables as plain data."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from server.states import JobState, Status, status_of


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when it was read; the columns are explained in the tables."""

    id: str
    tenant: str
    key_id: str | None
    kind: str
    state: JobState
    hold_reason: str | None
    held_by: str | None
    created_at: float
    updated_at: float
    started_at: float | None
    completed_at: float | None
    payload: dict[str, Any] | None
    cipher: bytes | None
    options: dict[str, Any]
    decided: dict[str, Any]
    model: str
    loras: list[str]
    pool: str
    tokens: int
    cost_seconds: float
    device_bytes: int
    disk_bytes: int
    priority: int
    rank: float
    lease_owner: str | None
    lease_epoch: int
    lease_until: float | None
    losses: int
    run: int
    charged_seconds: float
    phase: str | None
    step: int | None
    steps: int | None
    clips: int
    clips_completed: int
    progress: int
    eta_at: float | None
    stop: str | None
    stop_at: float | None
    queue_deadline_at: float | None
    run_limit_seconds: float | None
    retention_seconds: float
    expires_at: float | None
    artifacts_gone_at: float | None
    idempotency_key: str | None
    body_hash: str | None
    parent: str | None
    parent_kind: str | None
    artifacts: dict[str, Any]
    usage: dict[str, Any]
    error: dict[str, Any] | None
    report: dict[str, Any] | None
    title: str | None
    tags: list[str]
    starred: bool
    search: str | None
    trashed_at: float | None
    zdr: bool
    traceparent: str | None

    @property
    def status(self) -> Status:
        """Return the word of the videos API for its state."""
        return status_of(self.state)

    @property
    def remaining_seconds(self) -> float:
        """Return the predicted cost of the clips that are not yet made."""
        return self.cost_seconds * (self.clips - self.clips_completed) / self.clips

    @staticmethod
    def of(row: Row[Any]) -> "Job":
        """Make it from a whole row of the table of jobs."""
        values = dict(row._mapping)
        return Job(**{**values, "state": JobState(values["state"])})


@dataclass(frozen=True, slots=True)
class ClipRow:
    """A finished clip; the columns are explained in the tables."""

    job_id: str
    idx: int
    attempt: int
    seed: int
    num_frames: int
    sha256: str
    worker: str
    epoch: int
    seconds: float
    artifacts: dict[str, Any]
    metrics: dict[str, Any]
    finished_at: float

    @staticmethod
    def of(row: Row[Any]) -> "ClipRow":
        """Make it from a whole row of the table of clips."""
        return ClipRow(**row._mapping)
