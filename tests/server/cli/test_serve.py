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
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from server.cli.supervisor import BACKOFF_SECONDS, STEADY_SECONDS, Child, Supervisor
from server.settings import ServerSettings
from server.worker.stop import EXIT_STUCK
from vidgen.errors import BadRequest, VidgenError


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


class EnoughError(Exception):
    """A child was started once more than its lives were told."""


class Scripted(Child):
    """A child whose lives are told beforehand: what it says, and its exit code; None: it lives."""

    lives: Any

    def start(self) -> None:
        """Begin the next life."""
        try:
            self.words, code = next(self.lives)
        except StopIteration:
            raise EnoughError from None
        self.due = None
        self.process = SimpleNamespace(
            poll=lambda: code, returncode=code, wait=lambda: code, send_signal=lambda _number: None
        )  # type: ignore[assignment]

    def said(self) -> list[dict[str, Any]]:
        """Return what it says in this life, once."""
        words, self.words = getattr(self, "words", []), []
        return words


def scripted(name: str, *lives: tuple[list[dict[str, Any]], int | None]) -> Scripted:
    """Return a child that lives so."""
    child = Scripted(name, {"settings": {}})
    child.lives = iter(lives)
    return child


LISTENS = {"listening": "http://127.0.0.1:1234"}
REFUSES = {"error": {"code": "bad_request", "message": "It cannot be.", "exit_code": 2}}


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run children until one has used up its lives."""
    monkeypatch.setattr("server.cli.supervisor.BACKOFF_SECONDS", (0.0,))
    monkeypatch.setattr("server.cli.supervisor.LOOK_SECONDS", 0.0)

    def call(api: Child, *workers: Child) -> None:
        Supervisor(api, workers).run(lambda _at: None)

    return call


def test_a_child_that_never_was_ready_ends_all_with_one_sentence(supervised: Any) -> None:
    with pytest.raises(BadRequest, match="It cannot be"):
        supervised(scripted("api", ([REFUSES], 2)))
    with pytest.raises(VidgenError, match="api ended with code 1 before it was ready"):
        supervised(scripted("api", ([], 1)))
    with pytest.raises(VidgenError, match="worker ended with signal SIGSEGV before it was ready"):
        supervised(scripted("api", ([LISTENS], None)), scripted("worker", ([], -11)))


def test_a_child_that_was_ready_is_started_again_whatever_ends_it(supervised: Any) -> None:
    with pytest.raises(EnoughError):
        supervised(scripted("api", ([LISTENS], 1), ([], 1), ([REFUSES], 2)))
    api = scripted("api", ([LISTENS], None))
    with pytest.raises(EnoughError):
        supervised(api, scripted("worker", ([{"ready": True}, REFUSES], 1), ([REFUSES], 1)))


def test_a_child_that_somebody_kills_is_started_again(supervised: Any) -> None:
    with pytest.raises(EnoughError):
        supervised(scripted("api", ([], -9), ([], -15)))


def _ends(child: Child) -> list[dict[str, Any]]:
    """Wait until a child that was started has ended; return what it told."""
    assert child.process is not None
    try:
        child.process.wait(120)
        return child.said()
    finally:
        child.process.kill()
        child.close()


@pytest.mark.slow
def test_a_child_tells_what_ends_it(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file in the place of a folder")
    settings = ServerSettings(work=str(tmp_path / "work")).with_home(tmp_path)
    order = {"settings": settings.model_dump(mode="json"), "home": str(tmp_path), "part": "api",
             "studio": False}  # fmt: skip
    child = Child("api", order)
    child.start()
    (told,) = _ends(child)
    assert "work' cannot be used: File exists." in told["error"]["message"]


@pytest.mark.slow
def test_a_worker_tells_that_it_is_ready(tmp_path: Path) -> None:
    order = {"settings": ServerSettings().model_dump(mode="json"), "home": str(tmp_path),
             "part": "worker",
             "worker": {"device": "cpu:0", "renderer": "tests.server.fake:make"}}  # fmt: skip
    child = Child("worker cpu:0", order)
    child.start()
    told: list[dict[str, Any]] = []
    until = time.monotonic() + 120
    while child.alive and not told and time.monotonic() < until:
        told = child.said()
        time.sleep(0.1)
    child.signal(signal.SIGTERM)
    _ends(child)
    assert told == [{"ready": True}]
