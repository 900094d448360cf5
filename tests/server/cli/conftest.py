"""The program in this process, and a server with a fake worker as processes of their own."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet import Fleet
from tests.cli.conftest import Ran
from vidgen.cli.main import main

SETTINGS = {"disk_reserve_mib": "0", "heartbeat_seconds": "1", "stop_poll_seconds": "0.1"}


@pytest.fixture
def run(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Run the program in this process, in a fresh folder and with a fresh home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIDGEN_HOME", str(tmp_path / "home"))

    def call(*words: Any) -> Ran:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield call
    root.handlers[:] = kept  # a server's own writes to an output that ends with the test
    root.setLevel(level)


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A server with one worker whose clips are made by a fake."""
    made = Fleet(tmp_path_factory.mktemp("fleet"), SETTINGS, renderer="tests.server.fake:make")
    try:
        made.start_api()
        made.start_worker(0)
        made.wait_for_workers(1)
        yield made
    finally:
        made.stop()


def wait_for_state(fleet: Fleet, job: str, states: tuple[str, ...]) -> str:
    """Wait until a job is in one of some states; return it."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        state = str(fleet.call("GET", f"/v1/videos/{job}")[1]["state"])
        if state in states:
            return state
        time.sleep(0.1)
    raise TimeoutError(f"{job} is {state}, not {states}")
