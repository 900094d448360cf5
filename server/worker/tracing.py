"""Tracing: the spans of a job on its worker, within the trace that its request began.

Without an OpenTelemetry SDK in the process they cost nothing. No span says a word of the prompt.
"""

import contextlib
from collections.abc import Iterator

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.queue.job import Job

_tracer = trace.get_tracer("vidgen.worker")


@contextlib.contextmanager
def job_span(job: Job, worker_id: str) -> Iterator[None]:
    """Trace a job's run here, under the request that made it."""
    told = {} if job.traceparent is None else {"traceparent": job.traceparent}
    parent = TraceContextTextMapPropagator().extract(told)
    about: dict[str, str | int] = {
        "vidgen.job": job.id,
        "vidgen.model": job.model,
        "vidgen.worker": worker_id,
        "vidgen.epoch": job.lease_epoch,
    }
    with _tracer.start_as_current_span("vidgen.job", parent, attributes=about):
        yield


@contextlib.contextmanager
def span(name: str, **about: int | str) -> Iterator[None]:
    """Trace a part of a job."""
    named = {f"vidgen.{key}": value for key, value in about.items()}
    with _tracer.start_as_current_span(f"vidgen.{name}", attributes=named):
        yield
