"""`--server URL`: the job is the server's, the file comes here."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.fleet import Fleet
from tests.cli.conftest import Ran
from tests.server.cli.conftest import wait_for_state

pytestmark = pytest.mark.slow
FPS = 8  # of the fake


@pytest.fixture
def here(run: Any, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the program with a server named."""
    monkeypatch.setenv("VIDGEN_SERVER", fleet.address)
    return run


def _job(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    found = next(line for line in ran.lines if line["event"] == "accepted")["job"]
    assert isinstance(found, str)
    return found


def test_a_clip_is_made_and_brought(here: Any, fleet: Fleet, tmp_path: Path) -> None:
    ran = here("generate", "a ball", "--seed", "5", "--title", "mine", "--out", "a.mp4", "--json")
    job = _job(ran)
    assert [line["event"] for line in ran.lines if line["event"] not in ("stage", "progress")] == [
        "accepted", "clip", "result",
    ]  # fmt: skip
    (clip,) = ran.last["clips"]
    assert (clip["path"], clip["job"], clip["seed"]) == ("a.mp4", job, 5)
    video = fleet.call("GET", f"/v1/videos/{job}")[1]
    assert video["title"] == "mine"
    assert (tmp_path / "a.mp4").stat().st_size == video["variants"]["video"]["bytes"]
    assert not list(tmp_path.glob("*.part"))


def test_progress_is_that_of_the_server(here: Any) -> None:
    ran = here("generate", "a ball; steps=6 step=0.4", "--out", "a.mp4", "--json")
    steps = [line for line in ran.lines if line["event"] == "progress"]
    assert steps
    assert {line["total"] for line in steps} == {6}
    assert [line["done"] for line in steps] == sorted(line["done"] for line in steps)


def test_several_clips_are_jobs_with_seeds_that_count_up(here: Any, tmp_path: Path) -> None:
    ran = here("generate", "a ball", "-n", "2", "--seed", "8", "--out", "b.mp4", "--json")
    assert [clip["seed"] for clip in ran.last["clips"]] == [8, 9]
    assert (tmp_path / "b-1.mp4").is_file()
    assert (tmp_path / "b-2.mp4").is_file()


def test_a_picture_is_sent(here: Any, fleet: Fleet, tmp_path: Path) -> None:
    Image.new("RGB", (96, 96), "red").save(tmp_path / "first.png")
    job = _job(here("generate", "a ball", "--image", "first.png", "--detach", "--json"))
    asked = fleet.call("GET", f"/v1/videos/{job}")[1]["request"]
    assert re.fullmatch(r"upload:upload_[0-9a-z]+", asked["image"])
    ran = here("generate", "a ball", "--image", "none.png")
    assert ran.code == 4
    assert "image='none.png' is no file of this machine" in ran.err


def test_an_estimate_makes_nothing(here: Any, fleet: Fleet) -> None:
    before = fleet.call("GET", "/v1/videos?limit=1")[1]["first_id"]
    ran = here("generate", "a ball", "--dry-run", "--json")
    assert ran.last["plan"]["estimate"]["seconds"]["high"] > 0
    assert fleet.call("GET", "/v1/videos?limit=1")[1]["first_id"] == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "png"], "a folder of files"),
        (["--model", "."], "is a folder of this machine"),
        (["--steps", "900"], "200"),
        (["--device", "cpu"], "--device"),
        (["--pool", "Not One"], "pool"),
    ],
)
def test_what_a_server_does_not_do_is_refused(here: Any, words: list[str], said: str) -> None:
    ran = here("generate", "a ball", *words)
    assert ran.code == 2
    assert said in ran.err


def test_a_failed_job_says_why_and_what_next(here: Any) -> None:
    ran = here("generate", "a ball; nan@0=9", "--out", "a.mp4")
    assert ran.code == 5
    assert "vidgen queue retry video_" in ran.err


def test_a_batch_is_brought_and_a_second_run_asks_for_the_rest(here: Any, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("a ball\na star; error@0=9\na cube\n")
    words = ["batch", "prompts.txt", "--seed", "3", "--out", "clips", "--json"]
    ran = here(*words)
    assert ran.code == 1
    assert ran.last == {"event": "result", "items": 3, "finished": 2, "failed": 1}
    assert len(list((tmp_path / "clips").glob("*.mp4"))) == 2
    again = here(*words)
    accepted = [line["item"] for line in again.lines if line["event"] == "accepted"]
    failed = [line["item"] for line in ran.lines if line["event"] == "failed"]
    assert accepted == failed


def test_a_chain_is_made_and_gone_on_with(here: Any, fleet: Fleet, tmp_path: Path) -> None:
    words = ["--shot", "1s: a ball", "--shot", "1s: a star", "--num-frames", "17"]
    ran = here("chain", *words, "--seed", "1", "--out", "long.mp4", "--json")
    job = _job(ran)
    done = [line["clip"] for line in ran.lines if line["event"] == "clip_completed"]
    assert done == [1, 2]
    assert (tmp_path / "long.mp4").is_file()
    more = here("extend", job, "--prompt", "a cube", "--seconds", "1", "--detach", "--json")
    video = fleet.call("GET", f"/v1/videos/{_job(more)}")[1]
    assert video["lineage"] == {"parent": job, "kind": "extension"}


def _begun(fleet: Fleet, tmp_path: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the program with a job that does not end, and wait until it runs."""
    command = [sys.executable, "-m", "vidgen.cli", "generate", "a ball; steps=900 step=0.2",
               "--server", fleet.address, "--json"]  # fmt: skip
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    job = json.loads(process.stdout.readline())["job"]
    wait_for_state(fleet, job, ("running",))
    for line in process.stdout:  # its handler is in place when it tells of progress
        if json.loads(line)["event"] == "progress":
            break
    return process, job


def test_ctrl_c_cancels_the_job(fleet: Fleet, tmp_path: Path) -> None:
    process, job = _begun(fleet, tmp_path)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    error = json.loads(out.splitlines()[-1])["error"]
    assert error["code"] == "cancelled"
    assert f"vidgen queue resume {job} --server {fleet.address}" in error["message"]
    assert wait_for_state(fleet, job, ("cancelled",)) == "cancelled"


def test_a_killed_client_leaves_its_job(fleet: Fleet, here: Any, tmp_path: Path) -> None:
    process, job = _begun(fleet, tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert fleet.call("GET", f"/v1/videos/{job}")[1]["state"] == "running"
    assert here("queue", "cancel", job).code == 0
    wait_for_state(fleet, job, ("cancelled",))


def test_a_server_that_is_not_there_is_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.cli.client.TRIES", 2)
    ran = run("queue", "ls", "--server", "http://127.0.0.1:9")
    assert ran.code == 75
    assert "http://127.0.0.1:9 does not answer" in ran.err
    ran = run("queue", "ls", "--server", "http://user:secret@host")
    assert ran.code == 2
    assert "secret" not in ran.err
