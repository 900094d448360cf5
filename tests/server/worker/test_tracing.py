"""One trace a job: from the request over the queue and the clips to the webhook, as a collector
gets it from the real processes.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from server import tracing
from server.database import Database
from server.settings import ServerSettings
from tests.server.api.site import served
from tests.server.webhooks.receiver import receiving
from tests.server.worker.floor import Floor
from vidgen.errors import Unsupported

# No span depends on the kind of database.
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "a walrus in a cathedral"


@dataclass
class Collector:
    """What was exported: (service, span), and the bodies as they came."""

    url: str
    spans: list[tuple[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> list[tuple[str, Any]]:
        """Return the spans of a name, in the order of their beginnings."""
        found = [item for item in self.spans if item[1].name == name]
        return sorted(found, key=lambda item: int(item[1].start_time_unix_nano))


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector that takes spans over OTLP/HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            found.bodies.append(body)
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {item.key: item.value.string_value for item in resource.resource.attributes}
                for scope in resource.scope_spans:
                    found.spans += [(named["service.name"], span) for span in scope.spans]
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Collector(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()


def create(address: str, **fields: Any) -> str:
    """Ask for a video within a trace; return its id."""
    request = urllib.request.Request(
        f"{address}/v1/videos",
        json.dumps({"prompt": SECRET, **fields}).encode(),
        {"Content-Type": "application/json", "traceparent": f"00-{TRACE}-{CLIENT}-01"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(json.load(answer)["id"])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process politely, so that it sends what it has."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def assert_silent(collector: Collector) -> None:
    """No word of the prompt went out."""
    assert collector.bodies
    assert not any(word in body for body in collector.bodies for word in (b"walrus", b"cathedral"))


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that processes started in the test send their spans to."""
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def test_a_job_is_one_trace_over_all_processes(floor: Floor, collector: Collector) -> None:
    sets = {"tracing": "otlp", "webhook_private": True}
    with (
        receiving() as receiver,
        served(floor, **sets) as (api, address),
        floor.worker(0, tracing="otlp") as worker,
    ):
        floor.until(lambda: json.load(urllib.request.urlopen(f"{address}/v1/queue"))["workers"])
        urllib.request.urlopen(f"{address}/v1/videos?text=walrus").close()
        video = create(address, webhook_url=receiver.url)
        floor.until(lambda: receiver.requests, "the webhook")
        end(worker)
        end(api)
    assert {span.trace_id.hex() for _, span in collector.spans} == {TRACE}
    ((_, asked),) = collector.named("vidgen.submit")
    ((_, waited),) = collector.named("vidgen.queue")
    ((_, job),) = collector.named("vidgen.job")
    ((_, clip),) = collector.named("vidgen.clip")
    ((_, hook),) = collector.named("vidgen.webhook")
    assert asked.parent_span_id.hex() == CLIENT
    assert {one.parent_span_id for one in (waited, job, hook)} == {asked.span_id}
    assert clip.parent_span_id == job.span_id
    assert waited.end_time_unix_nano <= job.start_time_unix_nano
    created = floor.jobs.get(video, None).created_at
    assert waited.start_time_unix_nano == int(created * 1e9)
    services = {span.name: service for service, span in collector.spans}
    assert services["vidgen.submit"] == services["vidgen.webhook"] == "vidgen-api"
    assert services["vidgen.queue"] == services["vidgen.clip"] == "vidgen-worker"
    sent = receiver.requests[0][0]["traceparent"].split("-")
    assert (sent[1], sent[2]) == (TRACE, hook.span_id.hex())
    assert not any(span.status.code for _, span in collector.spans)
    assert_silent(collector)


def test_a_failure_is_told_without_what_it_says(floor: Floor, collector: Collector) -> None:
    job = floor.job(f"{SECRET} oom@0=9", traceparent=f"00-{TRACE}-{CLIENT}-01")
    with floor.worker(0, tracing="otlp") as worker:
        assert floor.ended(job).error is not None
        end(worker)
    ((_, clip),) = collector.named("vidgen.clip")
    assert clip.status.code == clip.status.STATUS_CODE_ERROR
    assert clip.status.message == "out_of_memory"
    assert not clip.events
    assert_silent(collector)


def test_a_collector_that_is_away_costs_no_job(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    job = floor.job("a ball")
    with floor.worker(0, tracing="otlp") as worker:
        assert floor.ended(job).error is None
        end(worker)


def test_without_the_sdk_it_is_refused_in_a_sentence(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    tracing.set_up_tracing(ServerSettings(), "x")
    with pytest.raises(Unsupported, match=r"'\.\[otel\]'"):
        tracing.set_up_tracing(ServerSettings(tracing="otlp"), "x")
