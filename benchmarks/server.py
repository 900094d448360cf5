"""How quickly the API answers with a long queue behind it, and while a worker works beside it.

    python -m benchmarks.server

One machine, SQLite, over the loopback: 2,000 waiting jobs, a fake renderer that sleeps, and then a
real worker that makes toyworld clips on the same cores. Writes a dated file in out/.
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.fleet import Fleet, percentile
from benchmarks.report import OUT, report, write_report

SETTINGS = {
    "max_queued": "100000",
    "tenant_max_queued": "100000",
    "max_backlog_seconds": "1e9",
    "disk_reserve_mib": "0",
}
_FILLERS = 3  # connections that fill the queue; figures are taken over one
_BUSY_SECONDS = 25.0
_WORDS = "a big red ball moves quickly left over the sand"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write the results; return the exit code."""
    parser = argparse.ArgumentParser("python -m benchmarks.server", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="that wait")
    parser.add_argument("--samples", type=int, default=300, help="of each latency")
    parser.add_argument("--out", type=Path, help="JSON to write; a dated one in out/ if omitted")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="vidgen-load-") as folder:
        figures = measure(Path(folder), asked.jobs, asked.samples)
    print(_table(figures))
    content = report("python -m benchmarks.server", **figures)
    write_report(asked.out or OUT / f"{content['date']}-server.json", content)
    return 0


def measure(folder: Path, jobs: int, samples: int) -> dict[str, Any]:
    """Return all figures; times in milliseconds unless their names say otherwise."""
    fleet = Fleet(folder, SETTINGS)
    real = Fleet(folder, {**SETTINGS, "pool": "real"}, renderer=None)
    quick = Fleet(folder, {**SETTINGS, "pool": "quick"})
    try:
        fleet.start_api()
        fleet.start_worker(0)
        quick.start_worker(1)
        fleet.wait_for_workers(2)
        _keep_busy(fleet)
        empty = _rss(fleet)
        _fill(fleet, jobs - samples)
        figures: dict[str, Any] = {"jobs": jobs, "database": "sqlite"}
        line = Line(fleet.address)
        ids: list[str] = []
        figures["create"] = _latency(samples, lambda i: ids.append(line.create(i)["id"]))
        figures["retrieve"] = _latency(samples, lambda i: line.get(f"/v1/videos/{ids[i]}"))
        figures["list_20"] = _latency(samples // 4, lambda _: line.get("/v1/videos?limit=20"))
        figures["queued"] = line.get("/v1/queue")["queued"]
        figures["api_rss_mib"] = {"at_start": empty, "with_queue": _rss(fleet)}
        figures["enqueue_to_assigned"] = _starts(fleet, line, samples // 10)
        figures["while_rendering"] = _while_rendering(fleet, real, ids)
        return figures
    finally:
        for each in (quick, real, fleet):
            each.stop()


class Line:
    """One connection that is kept open."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)

    def get(self, path: str) -> dict[str, Any]:
        """Read something."""
        return self._answer("GET", path, None)

    def create(self, number: int, **more: Any) -> dict[str, Any]:
        """Make a job."""
        return self._answer("POST", "/v1/videos", {"prompt": _WORDS, "seed": number, **more})

    def _answer(self, method: str, path: str, data: Any) -> dict[str, Any]:
        body = None if data is None else json.dumps(data)
        headers = {} if body is None else {"Content-Type": "application/json"}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        found = json.load(answer)
        if answer.status != 200:
            raise RuntimeError(f"{method} {path} was answered {answer.status}: {found}")
        return dict(found)


def _keep_busy(fleet: Fleet) -> None:
    """Give the worker of the long queue a job that does not end, so that the others wait."""
    made = Line(fleet.address).create(0, prompt=f"{_WORDS}; steps=100000 step=0.5")
    while fleet.call("GET", f"/v1/videos/{made['id']}")[1]["state"] != "running":
        time.sleep(0.2)


def _fill(fleet: Fleet, jobs: int) -> None:
    def some(first: int) -> None:
        line = Line(fleet.address)
        for number in range(first, jobs, _FILLERS):
            line.create(number)

    threads = [threading.Thread(target=some, args=(first,)) for first in range(_FILLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _latency(samples: int, do: Callable[[int], Any]) -> dict[str, float]:
    taken = []
    for number in range(samples):
        began = time.perf_counter()
        do(number)
        taken.append(time.perf_counter() - began)
    return _summary(taken)


def _summary(seconds: Sequence[float]) -> dict[str, float]:
    milliseconds = [1000 * item for item in seconds]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: round(percentile(milliseconds, share), 1) for name, share in shares.items()}
    return {**found, "max": round(max(milliseconds), 1), "samples": len(milliseconds)}


def _rss(fleet: Fleet) -> float:
    process = fleet.api_process()
    assert process is not None
    return round(float(process.memory_info().rss) / 2**20, 1)


def _starts(fleet: Fleet, line: Line, samples: int) -> dict[str, float]:
    """Time from a request, whose job finds an idle worker in a pool of its own, to its claim."""
    taken = []
    for number in range(samples):
        began = time.time()
        made = line.create(number, pool="quick")
        while line.get(f"/v1/videos/{made['id']}")["status"] in ("queued", "in_progress"):
            time.sleep(0.05)
        events = fleet.events(made["id"])
        taken.append(next(data["ts"] for kind, data in events if kind == "job.assigned") - began)
    return _summary(taken)


def _while_rendering(fleet: Fleet, real: Fleet, ids: Sequence[str]) -> dict[str, Any]:
    """Latencies while a worker makes toyworld clips one after another on the same cores."""
    line = Line(fleet.address)
    real.start_worker(2)
    fleet.wait_for_workers(3)
    jobs = [line.create(number, pool="real") for number in range(40)]
    while line.get(f"/v1/videos/{jobs[0]['id']}")["state"] in ("queued", "held", "assigned"):
        time.sleep(0.2)
    reads, writes = [], []
    until = time.monotonic() + _BUSY_SECONDS
    number = 0
    while time.monotonic() < until:
        number += 1
        began = time.perf_counter()
        line.get(f"/v1/videos/{ids[number % len(ids)]}")
        reads.append(time.perf_counter() - began)
        if number % 5 == 0:
            began = time.perf_counter()
            line.create(number)
            writes.append(time.perf_counter() - began)
        time.sleep(0.02)
    ended = sum(line.get(f"/v1/videos/{job['id']}")["status"] == "completed" for job in jobs)
    return {
        "retrieve": _summary(reads),
        "create": _summary(writes),
        "clips_made_meanwhile": ended,
        "api_rss_mib": _rss(fleet),
    }


def _table(figures: dict[str, Any]) -> str:
    busy = figures["while_rendering"]
    rows = [
        ("create", figures["create"]),
        ("retrieve", figures["retrieve"]),
        ("list of 20", figures["list_20"]),
        ("request to claim", figures["enqueue_to_assigned"]),
        ("create, worker rendering", busy["create"]),
        ("retrieve, worker rendering", busy["retrieve"]),
    ]
    lines = [
        f"{figures['queued']} jobs wait; milliseconds",
        f"{'':28}{'p50':>8}{'p90':>8}{'p99':>8}",
    ]
    lines += [f"{name:28}{row['p50']:8}{row['p90']:8}{row['p99']:8}" for name, row in rows]
    rss = figures["api_rss_mib"]
    lines.append(f"API: {rss['at_start']} MiB at the start, {rss['with_queue']} with the queue, "
                 f"{busy['api_rss_mib']} at the end")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
