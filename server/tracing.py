"""Tracing: one trace a job, from its request over the queue and its clips to its webhooks.

The request's trace goes with the job as a traceparent. Without an OpenTelemetry SDK in the process
spans cost nothing. No span says a word of the prompt, nor what an error says.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.problems import Problem
from server.queue.job import Job
from server.settings import ServerSettings
from vidgen.errors import Unsupported
from vidgen.extras import how_to_install

_tracer = trace.get_tracer("vidgen.server")
_TRACES = TraceContextTextMapPropagator()
_NANO = 1_000_000_000


def set_up_tracing(settings: ServerSettings, service: str) -> None:
    """Send the spans of this process where the settings say, until it ends.

    The SDK itself reads OpenTelemetry's standard variables: where the collector is, what to sample,
    another name for the service.
    Raises  Unsupported when the SDK is not installed
    """
    if settings.tracing == "off":
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise Unsupported(
            "tracing=otlp needs OpenTelemetry's SDK and its OTLP exporter over HTTP; install them "
            f"with {how_to_install('otel')}, or set tracing=off."
        ) from error

    named = Resource.create({"service.name": service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


@contextlib.contextmanager
def request_span(headers: Mapping[str, str]) -> Iterator[tuple[Span, str | None]]:
    """Trace the making of a job, within the trace that its request names, if any.

    Yields  the span, and what the job is to carry
    """
    with _traced("submit", dict(headers), SpanKind.PRODUCER, {}) as span:
        yield span, _carried()


@contextlib.contextmanager
def job_span(job: Job, worker_id: str) -> Iterator[None]:
    """Trace a job's run on this worker, and before its first one how long it waited."""
    about: dict[str, str | int] = {
        "vidgen.job": job.id,
        "vidgen.model": job.model,
        "vidgen.worker": worker_id,
        "vidgen.epoch": job.lease_epoch,
    }
    parent = _told(job.traceparent)
    if job.lease_epoch == 1:
        began, now = int(job.created_at * _NANO), time.time_ns()
        waited = _tracer.start_span(
            "vidgen.queue",
            _TRACES.extract(parent),
            attributes={"vidgen.job": job.id},
            start_time=min(began, now),
        )
        waited.end(now)
    with _traced("job", parent, SpanKind.CONSUMER, about):
        yield


@contextlib.contextmanager
def span(name: str, **about: int | str) -> Iterator[None]:
    """Trace a part of a job."""
    named = {f"vidgen.{key}": value for key, value in about.items()}
    with _traced(name, None, SpanKind.INTERNAL, named):
        yield


@contextlib.contextmanager
def webhook_span(traceparent: str | None, message_id: str) -> Iterator[tuple[Span, str | None]]:
    """Trace one try to deliver a message.

    Yields  the span, and the traceparent for the receiver: this try's, or without an SDK the job's
    """
    about = {"vidgen.message": message_id}
    with _traced("webhook", _told(traceparent), SpanKind.CLIENT, about) as span:
        yield span, _carried() or traceparent


def tell_answer(span: Span, status: int | None, *, accepted: bool) -> None:
    """Say in a try's span what the receiver answered."""
    if status is not None:
        span.set_attribute("http.response.status_code", status)
    if not accepted:
        span.set_status(Status(StatusCode.ERROR, "not accepted" if status else "not reached"))


@contextlib.contextmanager
def _traced(
    name: str,
    parent: Mapping[str, str] | None,
    kind: SpanKind,
    about: Mapping[str, int | str],
) -> Iterator[Span]:
    """Begin a span; an error is told by its code or class alone.

    parent  headers that name it; None: the span that is open
    """
    with _tracer.start_as_current_span(
        f"vidgen.{name}",
        None if parent is None else _TRACES.extract(parent),
        kind,
        dict(about),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            told = error.code if isinstance(error, Problem) else type(error).__name__
            span.set_status(Status(StatusCode.ERROR, told))
            raise


def _told(traceparent: str | None) -> dict[str, str]:
    return {} if traceparent is None else {"traceparent": traceparent}


def _carried() -> str | None:
    carrier: dict[str, str] = {}
    _TRACES.inject(carrier)
    return carrier.get("traceparent")
