"""A server's processes on this machine, started as anyone would, to be measured and killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

RENDERER = "benchmarks.fake_renderer:make"
_START_SECONDS = 180.0


class Fleet:
    """One API, supervised by `vidgen serve`, and workers that are left alone.

    folder    of everything that it keeps
    settings  of the server, as text
    renderer  of the workers, None: the real one
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        renderer: str | None = RENDERER,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.address = ""
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self._settings = dict(settings)
        self._renderer = renderer
        clean = {name: text for name, text in os.environ.items() if not name.startswith("VIDGEN_")}
        self._environ = {**clean, "OMP_NUM_THREADS": "1", **(environ or {})}
        self._log: IO[bytes] = (folder / "log").open("ab")
        self._serve: subprocess.Popen[bytes] | None = None

    def start_api(self) -> None:
        """Start the API and wait until it answers."""
        options = [f"--{name.replace('_', '-')}={text}" for name, text in self._settings.items()]
        self._serve = subprocess.Popen(
            [sys.executable, "-m", "vidgen.cli", "serve", "--workers", "0", "--port", "0",
             "--home", str(self.folder), "--json", *options],
            stdout=subprocess.PIPE, stderr=self._log, env=self._environ,
        )  # fmt: skip
        assert self._serve.stdout is not None
        line = json.loads(self._serve.stdout.readline() or b"{}")
        if line.get("event") != "listening":
            raise RuntimeError(f"vidgen serve did not start ({line}); see {self.folder}/log")
        self.address = line["url"]

    def start_worker(self, number: int) -> None:
        """Start a worker, in place of one with the same number that has ended."""
        changes = [f"--set={name}={text}" for name, text in self._settings.items()]
        renderer = [] if self._renderer is None else ["--renderer", self._renderer]
        self.workers[number] = subprocess.Popen(
            [sys.executable, "-m", "server.worker", "--home", str(self.folder),
             "--device", f"cpu:{number}", *renderer, *changes],
            stdout=self._log, stderr=self._log, env=self._environ,
        )  # fmt: skip

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers are ready.

        Raises  TimeoutError
        """
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if self.call("GET", "/v1/queue")[1]["workers"] >= count:
                    return
            time.sleep(0.5)
        raise TimeoutError(f"{count} workers were not ready; see {self.folder}/log")

    def api_process(self) -> psutil.Process | None:
        """Return the process that answers requests, None while there is none."""
        assert self._serve is not None
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._serve.pid).children():
                if "server.cli.child" in child.cmdline():
                    return child
        return None

    def call(
        self,
        method: str,
        path: str,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; return the status and the JSON of the answer.

        Raises  OSError when there is none
        """
        body = None if data is None else json.dumps(data).encode()
        sent = {"Content-Type": "application/json", **(headers or {})} if body else headers or {}
        request = urllib.request.Request(self.address + path, body, dict(sent), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(json.loads(error.read() or b"{}"))

    def pages(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a list."""
        mark = "&" if "?" in path else "?"
        after = ""
        while True:
            status, page = self.call("GET", f"{path}{mark}limit=100&order=asc{after}")
            assert status == 200, page
            yield from page["data"]
            if not page["has_more"]:
                return
            after = f"&after={page['last_id']}"

    def events(self, job_id: str) -> list[tuple[str, dict[str, Any]]]:
        """Return all events of a job that has ended."""
        found, kind = [], ""
        with urllib.request.urlopen(
            f"{self.address}/v1/videos/{job_id}/events", timeout=60
        ) as all_:
            for line in all_:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                kind = value if name == "event" else kind
                if name == "data":
                    found.append((kind, json.loads(value)))
        return found

    def content(self, job_id: str) -> bytes:
        """Return the video of a job."""
        address = f"{self.address}/v1/videos/{job_id}/content"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        """End everything now."""
        for worker in self.workers.values():
            _end(worker, signal.SIGKILL)
        if self._serve is not None:
            _end(self._serve, signal.SIGTERM)
        self._log.close()


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
