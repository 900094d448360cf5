"""A site for tests: the API over a database, and a worker that renders without a model."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from server.api.app import create_app
from server.database import Database
from tests.server.fake import FakeRenderer
from tests.server.worker.floor import ROOT, Floor

WIDE = {"max_queued": 5000, "max_backlog_seconds": 1e9, "tenant_max_queued": 5000}


class Site:
    """One home with the API in this process; `work` makes one waiting job."""

    def __init__(self, database: Database, home: Path, **settings: Any) -> None:
        self.floor = Floor(database, home, lease_seconds=600, **{**WIDE, **settings})
        self.app = create_app(self.floor.settings, home, database=database, store=self.floor.store)
        self.services = self.app.state.services
        self.http: Any = TestClient(
            self.app, base_url="http://127.0.0.1", raise_server_exceptions=False
        )

    def worker(self) -> None:
        """Let a worker be there, so that jobs wait for it."""
        assert self.floor.claimed() is None

    def work(self) -> None:
        """Make the next waiting job."""
        self.floor.work()

    def make(self, **fields: Any) -> dict[str, Any]:
        """Create a video and let it be made, and all that waits before it; return it."""
        made = found = self.created(**fields)
        while found["status"] == "queued":
            self.work()
            found = self.http.get(f"/v1/videos/{made['id']}").json()
        assert found["status"] == "completed", found
        return dict(found)

    def created(self, path: str = "/v1/videos", **fields: Any) -> dict[str, Any]:
        """Create a video."""
        answer = self.http.post(path, json={"prompt": "a red ball", **fields})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


def story(*prompts: str, **more: Any) -> dict[str, Any]:
    """Return a story with a shot of one clip for each prompt."""
    return {"shots": [{"prompt": text, "seconds": 1} for text in prompts], **more}


@contextmanager
def working(floor: Floor) -> Iterator[None]:
    """Work in a thread for the time of the block, first at what waits already."""
    stop = threading.Event()
    renderer = FakeRenderer()

    def work() -> None:
        while not stop.is_set():
            runner = floor.claimed(renderer=renderer)
            if runner is None:
                stop.wait(0.05)
            else:
                runner.run()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=30)


@contextmanager
def served(floor: Floor, **settings: Any) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the API of a floor in a process of its own; give the process and its address."""
    told = {**floor.settings.model_dump(mode="json"), "port": 0, **settings}
    command = [sys.executable, "-m", "tests.server.api.serve", str(floor.home), json.dumps(told)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (floor.home / "api.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        assert address.startswith("http://"), (floor.home / "api.log").read_text()
        yield process, address
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
