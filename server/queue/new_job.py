"""NewJob: all that is known of a job when it is asked for."""

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be created.

    payload             what is asked; None when cipher and secret hold it
    inputs              ids of the uploads that it names; they are kept while it is, and then for as
                        long as its results
    cipher, secret      of `sealed.seal`, for zero-retention jobs
    cost_seconds        predicted, middle of the interval, of all clips together
    device_bytes        lower bound of the device memory needed
    queue_deadline_at   when it ends as expired unless a worker has begun it
    run_limit_seconds   from its first step on
    retention_seconds   of the results; None: as the settings say
    blind_retry         the client says that it sends this request again
    search              prompt, for the search by text; None leaves the job out of it
    state_after         paused: it waits for `resume`
    """

    tenant: str
    kind: Literal["clip", "chain"]
    model: str
    tokens: int
    cost_seconds: float
    device_bytes: int
    disk_bytes: int
    pool: str
    clips: int = 1
    payload: dict[str, Any] | None = None
    cipher: bytes | None = None
    secret: bytes | None = None
    inputs: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    decided: dict[str, Any] = field(default_factory=dict)
    loras: tuple[str, ...] = ()
    key_id: str | None = None
    priority: int = 0
    queue_deadline_at: float | None = None
    run_limit_seconds: float | None = None
    retention_seconds: float | None = None
    idempotency_key: str | None = None
    body_hash: str | None = None
    blind_retry: bool = False
    parent: str | None = None
    parent_kind: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    search: str | None = None
    zdr: bool = False
    traceparent: str | None = None
    state_after: Literal["queued", "paused"] = "queued"
