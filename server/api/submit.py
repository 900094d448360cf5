"""Submit: what was planned becomes a job that waits."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request

from server.api.auth import Caller
from server.api.docs import header
from server.api.fields import JobOptions
from server.api.planned import Planned, without_texts
from server.api.planning import Place
from server.api.services import Services
from server.inputs.fields import ids_of, references
from server.inputs.upload import PREFIX
from server.problems import Problem
from server.queue.job import Job
from server.queue.new_job import NewJob
from server.queue.sealed import seal
from server.tracing import request_span
from server.webhooks.endpoints import Endpoints

_KEY_LENGTH = 255
IDEMPOTENCY_KEY = header(
    "Idempotency-Key",
    "Your name for this request: sent again with the same body, it gives the job that it made.",
    {"type": "string", "minLength": 1, "maxLength": _KEY_LENGTH},
)


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the headers of a request that creates a job say.

    blind_retry  the official client sends it again, without a key of its own
    headers      for the trace
    """

    idempotency_key: str | None
    blind_retry: bool
    headers: Mapping[str, str]

    @classmethod
    def of(cls, request: Request) -> "Ticket":
        """Read the headers.

        Raises  Problem invalid_request for a key that is too long or no text
        """
        key = request.headers.get("idempotency-key")
        if key is not None and (not 0 < len(key) <= _KEY_LENGTH or not key.isprintable()):
            raise Problem(
                "invalid_request",
                f"Idempotency-Key has 1 to {_KEY_LENGTH} printable characters.",
                param="Idempotency-Key",
            )
        count = request.headers.get("x-stainless-retry-count", "0")
        return cls(key, count.isdecimal() and int(count) > 0, request.headers)


@dataclass(frozen=True, slots=True)
class Origin:
    """The job that another comes from."""

    parent: str
    kind: str


def place_of(services: Services, caller: Caller, options: JobOptions) -> Place:
    """Return for whom and where a job is planned."""
    return Place(caller.tenant, options.pool or services.settings.pool)


def check_webhook(services: Services, options: JobOptions) -> None:
    """Refuse a webhook_url that nothing may be sent to.

    Raises  Problem
    """
    if options.webhook_url is not None:
        endpoints = Endpoints(services.database, services.settings, services.clock)
        endpoints.check_url(options.webhook_url, "webhook_url")


def submit(
    services: Services,
    caller: Caller,
    planned: Planned,
    options: JobOptions,
    ticket: Ticket,
    digest: str,
    origin: Origin | None = None,
) -> tuple[Job, bool]:
    """Create a job and return it, and whether it is one that existed: the request came again.

    digest  of the fields that were given
    Raises  Problem: queue_full, quota_exceeded, no_worker_fits, idempotency_mismatch, ..
    """
    check_webhook(services, options)
    key = (caller.tenant, caller.key_id, digest)
    with request_span(ticket.headers) as (span, traceparent):
        new = _new_job(services, caller, planned, options, ticket, digest, origin, traceparent)
        try:
            job, replayed = services.jobs.create(new)
        except Problem as problem:
            services.counters.refused(problem.code)
            services.refusals.note(key, problem)
            raise
        services.refusals.forget(key)
        span.set_attribute("vidgen.job", job.id)
    return job, replayed


def inputs_of(planned: Planned) -> tuple[str, ...]:
    """Return the ids of the uploads that a job names."""
    return tuple(ids_of(references(planned.payload), PREFIX))


def _new_job(
    services: Services,
    caller: Caller,
    planned: Planned,
    options: JobOptions,
    ticket: Ticket,
    digest: str,
    origin: Origin | None,
    traceparent: str | None,
) -> NewJob:
    cipher, secret = seal(planned.payload) if options.zdr else (None, None)
    now = services.clock()
    return NewJob(
        tenant=caller.tenant,
        key_id=caller.key_id,
        kind="chain" if planned.kind == "chain" else "clip",
        payload=None if options.zdr else planned.payload,
        inputs=inputs_of(planned),
        cipher=cipher,
        secret=secret,
        options=options.model_dump(mode="json", exclude_unset=True),
        decided=without_texts(planned.decided) if options.zdr else planned.decided,
        model=planned.model,
        loras=planned.loras,
        pool=options.pool or services.settings.pool,
        tokens=planned.tokens,
        cost_seconds=planned.cost_seconds,
        device_bytes=planned.device_bytes,
        disk_bytes=planned.disk_bytes,
        priority=options.priority,
        clips=planned.clips,
        queue_deadline_at=None if options.max_queue_s is None else now + options.max_queue_s,
        run_limit_seconds=options.cancel_after_s,
        retention_seconds=options.retention_s,
        idempotency_key=ticket.idempotency_key,
        body_hash=digest,
        blind_retry=ticket.blind_retry
        and not services.refusals.known((caller.tenant, caller.key_id, digest)),
        parent=None if origin is None else origin.parent,
        parent_kind=None if origin is None else origin.kind,
        title=options.title,
        tags=options.tags,
        search=None if options.zdr else planned.text,
        zdr=options.zdr,
        traceparent=traceparent,
        state_after="paused" if options.hold else "queued",
    )
