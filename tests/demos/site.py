"""A server with the studio and one worker, each a process, for tests in a browser."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from server.states import TERMINAL, JobState

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 240.0  # of a busy machine
FAKE = "tests.server.fake:make"


class Site:
    """One home, one port; its processes can be killed and started again.

    renderer  that the worker makes clips with; empty: the real one
    """

    def __init__(self, home: Path, renderer: str = FAKE, **settings: Any) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.renderer = renderer
        self.settings = {"port": free_port(), "max_queued": 1000, "tenant_max_queued": 1000,
                         "max_backlog_seconds": 1e9, "lease_seconds": 10, **settings}  # fmt: skip
        self.address = f"http://127.0.0.1:{self.settings['port']}"
        self.temp = home / "temp"
        self.temp.mkdir(exist_ok=True)
        self._processes: dict[str, subprocess.Popen[str]] = {}
        # One for all calls: to make one, with its certificates, takes longer than most calls.
        self._http = httpx.Client(base_url=f"{self.address}/v1/", timeout=60)

    @property
    def environ(self) -> dict[str, str]:
        """What its processes and commands see."""
        return {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.temp),
                "GRADIO_TEMP_DIR": str(self.temp / "gradio"), "PYTHONPATH": str(ROOT),
                "VIDGEN_HOME": str(self.home)}  # fmt: skip

    def start(self) -> None:
        """Start what does not run."""
        if "api" not in self._processes:
            words = ["-m", "tests.demos.serve", str(self.home), json.dumps(self.settings)]
            process = self._run("api", words)
            assert process.stdout is not None
            assert process.stdout.readline().strip() == self.address, self.log("api")
        if "worker" not in self._processes:
            words = ["-m", "server.worker", "--home", str(self.home), "--device", "cpu"]
            words += ["--renderer", self.renderer] if self.renderer else []
            words += ["--set", "lease_seconds=10", "--set", "heartbeat_seconds=1"]
            self._run("worker", words)

    def wait_for_worker(self) -> None:
        """Wait until a worker is ready."""
        eventually(lambda: self.get("queue")["workers"] > 0, "no worker came")

    def kill(self, name: str) -> None:
        """End one process at once."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all that runs."""
        self._http.close()
        for name in list(self._processes):
            self.kill(name)

    def pid(self, name: str) -> int:
        """Return a process's number."""
        return self._processes[name].pid

    def get(self, path: str, **query: Any) -> Any:
        """Ask the API."""
        answer = self._http.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, data: dict[str, Any]) -> Any:
        """Tell the API."""
        answer = self._http.post(path, json=data)
        answer.raise_for_status()
        return answer.json()

    def ended(self, video: str, seconds: float = 300) -> Any:
        """Wait for a job's end and return it."""
        done = ("completed", "failed", "cancelled", "expired")
        eventually(lambda: self.get(f"videos/{video}")["state"] in done, "it goes on", seconds)
        return self.get(f"videos/{video}")

    def let_go(self) -> None:
        """Cancel all jobs that have not ended, and wait until they have."""
        going = [state for state in JobState if state not in TERMINAL]
        for video in self.get("videos", limit=100, state=going)["data"]:
            with contextlib.suppress(httpx.HTTPStatusError):  # it ended meanwhile
                self.post(f"videos/{video['id']}/cancel", {})
            self.ended(video["id"])

    def log(self, name: str) -> str:
        """Return what a process has said last."""
        return (self.home / f"{name}.log").read_text("utf-8")[-3000:]

    def _run(self, name: str, words: list[str]) -> subprocess.Popen[str]:
        with (self.home / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, env=self.environ, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )  # fmt: skip
        self._processes[name] = process
        return process


def eventually(true: Any, otherwise: str, seconds: float = START_SECONDS) -> None:
    """Wait until something holds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(httpx.HTTPError):
            if true():
                return
        time.sleep(0.25)
    raise AssertionError(otherwise)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
