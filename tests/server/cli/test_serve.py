"""`vidgen serve`: it starts what it should, restarts what dies, and ends when told to."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from server.cli.supervisor import BACKOFF_SECONDS, STEADY_SECONDS, Child, Supervisor
from server.worker.stop import EXIT_STUCK


@pytest.mark.parametrize("code", [1, -9])
def test_a_child_that_crashes_again_and_again_is_waited_for(code: int) -> None:
    child = Child("worker", {}, began=100.0)
    waits = [Supervisor(child, [])._wait_of(child, code, 101.0) for _ in range(7)]
    assert waits == [*BACKOFF_SECONDS, BACKOFF_SECONDS[-1], BACKOFF_SECONDS[-1]]
    long_after = 100.0 + STEADY_SECONDS
    assert Supervisor(child, [])._wait_of(child, code, long_after) == BACKOFF_SECONDS[0]


def test_a_worker_that_was_stuck_is_started_at_once() -> None:
    child = Child("worker", {}, began=100.0, crashes=5)
    assert Supervisor(child, [])._wait_of(child, EXIT_STUCK, 101.0) == 0.0


class Serving:
    """A `vidgen serve` with one worker on a port that was free."""

    def __init__(self, home: Path, *words: str) -> None:
        command = [sys.executable, "-m", "vidgen.cli", "serve", "--home", str(home), "--json",
                   "--port", "0", "--disk-reserve-mib", "0", *words]  # fmt: skip
        self.log = home.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        self.told: dict[str, Any] = json.loads(self.process.stdout.readline() or "{}")

    def children(self) -> dict[str, int]:
        """Return the process of each child by its name."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                words = child.cmdline()
                if "server.cli.child" in words:
                    found[words[-1]] = child.pid
        return found

    def get(self, path: str) -> dict[str, Any]:
        """Read something of the API."""
        with urllib.request.urlopen(self.told["url"] + path, timeout=30) as answer:
            return dict(json.load(answer))

    def wait_for(self, what: Any) -> None:
        """Wait until something is so."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with contextlib.suppress(OSError, KeyError):
                if what():
                    return
            time.sleep(0.2)
        raise TimeoutError(self.log.read_text())


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be looked at does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """One that is running."""
    made = Serving(tmp_path / "home", "--device", "cpu")
    yield made
    with contextlib.suppress(ProcessLookupError):
        made.process.kill()
    made.process.communicate()


@pytest.mark.slow
def test_what_is_killed_comes_again_and_a_polite_end_leaves_nothing(serving: Serving) -> None:
    assert serving.told["workers"] == ["cpu:0"]
    before = serving.children()
    assert set(before) == {"api"} or set(before) == {"api", "worker cpu:0"}
    serving.wait_for(lambda: serving.get("/v1/queue")["workers"] == 1)
    before = serving.children()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    serving.wait_for(lambda: not set(before.values()) & set(serving.children().values()))
    serving.wait_for(lambda: serving.get("/livez")["status"] == "ok")  # at the same address
    after = serving.children()
    serving.wait_for(lambda: "worker cpu:0" in serving.children())
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(120) == 0
    assert not any(alive(pid) for pid in after.values())


@pytest.mark.slow
def test_children_do_not_outlive_it(serving: Serving) -> None:
    children = serving.children()
    serving.process.kill()
    serving.wait_for(lambda: not any(alive(pid) for pid in children.values()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [("host", "0.0.0.0"), ("public_url", "https://video.example.com")]
)
def test_an_address_that_others_reach_needs_a_key(run: Any, name: str, value: str) -> None:
    option = f"--{name.replace('_', '-')}={value}"
    ran = run("serve", option, "--port", "0", "--workers", "0", "--json")
    assert ran.code == 2
    assert ran.last["error"]["param"] == name
    assert "vidgen keys create" in ran.last["error"]["message"]


@pytest.mark.slow
def test_a_device_that_is_taken_is_told(run: Any, serving: Serving, tmp_path: Path) -> None:
    serving.wait_for(lambda: serving.get("/v1/queue")["workers"] == 1)
    ran = run("serve", "--home", tmp_path / "home", "--port", "0", "--device", "cpu")
    assert ran.code == 75
    assert "Another worker runs on cpu-0" in ran.err
