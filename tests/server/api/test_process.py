"""The process: what it loads, what it logs, and loops that go on."""

import json
import logging
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from server.api import background, run
from server.api.logs import JsonLines
from tests.server.api.site import ROOT, Site

_PROBE = """
import sys, tempfile
from pathlib import Path
from starlette.testclient import TestClient
from server.api.app import create_app
from server.settings import ServerSettings
app = create_app(ServerSettings(disk_reserve_mib=0), Path(tempfile.mkdtemp()))
with TestClient(app, base_url="http://127.0.0.1") as http:
    for body in ({"prompt": "x"}, {"story": {"shots": [{"prompt": "a", "seconds": 3}]}}):
        assert http.post("/v1/videos", json=body).status_code == 200
    assert http.get("/openapi.json").status_code == 200
    assert http.get("/metrics").status_code == 200
names = ("torch", "diffusers", "transformers", "PIL", "av", "cv2", "dbos", "server.worker")
print([name for name in names if name in sys.modules])
print(int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20)
"""


def test_no_model_and_no_decoder_is_ever_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE], cwd=ROOT, capture_output=True, check=False
    )
    lines = done.stdout.decode().split("\n")
    assert lines[0] == "[]", done.stderr.decode()
    assert int(lines[1]) <= 200, "MiB of memory"


def test_no_prompt_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    site.created(prompt="a SECRET ball")
    site.http.post("/v1/videos", json={"prompt": "SECRET", "steps": 999})
    site.http.get("/v1/videos?text=SECRET")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("vidgen")]
    assert any("/v1/videos" in text for text in ours)
    assert not any("SECRET" in text for text in ours)


def test_a_log_line_is_one_json_object() -> None:
    record = logging.makeLogRecord(
        {"name": "vidgen", "levelname": "INFO", "msg": "a\nb %s", "args": ("c",), "created": 0.5,
         "msecs": 500.0}
    )  # fmt: skip
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "1970-01-01T00:00:00.500Z", "level": "info", "logger": "vidgen", "message": "a\nb c",
    }  # fmt: skip


def test_a_bad_turn_ends_no_loop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, enough = [], threading.Event()

    def fails(*_: Any) -> Any:
        turns.append(1)
        if len(turns) == 3:
            enough.set()
        raise OSError("the disk is away")

    monkeypatch.setattr(background, "reap", fails)
    monkeypatch.setattr(background, "REAP_SECONDS", 0.01)
    running = background.Background(site.services)
    running.start()
    try:
        assert enough.wait(30)
    finally:
        running.stop()
    text = site.http.get("/metrics").text
    assert 'vidgen_background_turns_total{loop="reap",result="failed"}' in text


@pytest.mark.parametrize(
    ("public_url", "number", "seconds"),
    [
        ("", signal.SIGTERM, 0.0),  # no load balancer is before it
        ("https://video.example.com", signal.SIGTERM, run.NOTICE_SECONDS),
        ("https://video.example.com", signal.SIGINT, 0.0),
    ],
)
def test_load_balancers_are_told_before_it_ends(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    public_url: str,
    number: signal.Signals,
    seconds: float,
) -> None:
    waits = []

    class Timer(threading.Timer):
        def __init__(self, interval: float, function: Any) -> None:
            super().__init__(interval, function)
            waits.append(interval)

        def start(self) -> None:
            """Do not: the wait is what is looked at."""

    monkeypatch.setattr(run.threading, "Timer", Timer)
    settings = site.services.settings.model_copy(update={"public_url": public_url})
    services = replace(site.services, settings=settings)
    server = run._Server(uvicorn.Config(site.app), services, lambda _: None)
    server.handle_exit(number, None)
    assert waits == [seconds]
    assert services.draining


def test_a_fault_is_told_without_its_inside(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(site.services.jobs, "page", fails)
    answer = site.http.get("/v1/videos")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in answer.text


def test_a_trace_goes_on_with_the_job(site: Site) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = site.http.post("/v1/videos", json={"prompt": "x"}, headers={"traceparent": parent})
    job = site.floor.jobs.get(made.json()["id"], None)
    assert (job.traceparent or "").split("-")[1] == parent.split("-")[1]
    assert isinstance(site.floor.home, Path)
