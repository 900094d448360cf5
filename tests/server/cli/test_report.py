"""What the commands say: texts of others are shown, and steer no terminal."""

import re
from pathlib import Path
from typing import Any

import pytest

from server.cli.places import open_or_make
from server.cli.queue_text import event_text
from server.queue import fleet as workers
from server.queue import tenants
from server.queue.jobs import Jobs
from server.queue.keys import create_key
from server.settings import ServerSettings
from tests.server.queue.making import new_job, worker
from vidgen.cli.options import Common

ROOT = Path(__file__).resolve().parents[3]
HOSTILE = "\x1b]0;pwn\x07\x1b[2J\x9b2J\x7f\u202egnp.4\u2066\u200f\r\nvideo_x  completed"
SHOWN = r"\x1b]0;pwn\x07\x1b[2J\x9b2J\x7f\u202egnp.4\u2066\u200f"
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
DECIDED = {
    "width": 96, "height": 96, "fps": "16", "num_frames": 17, "seconds": 1.0625, "seed": 7,
    "adjustments": [], "warnings": [HOSTILE], "estimate": {}, "clips": [],
}  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> str:
    """A waiting job and a key whose texts are hostile; return the job."""
    settings = ServerSettings(disk_reserve_mib=0).with_home(tmp_path / "home")
    db = open_or_make(settings)
    tenants.ensure(db, "a")
    workers.register(db, worker(profile={"name": "cpu", "title": "CPU", "memory_bytes": 8 << 30}))
    payload = {"request": {"prompt": HOSTILE}}
    new = new_job("a", decided=DECIDED, payload=payload, title=HOSTILE, tags=(HOSTILE,))
    made, _ = Jobs(db, settings).create(new)
    create_key(db, "a", HOSTILE, ("read",))
    db.close()
    return made.id


@pytest.mark.parametrize("words", [["queue", "ls"], ["queue", "show"], ["keys", "ls"]])
def test_a_text_of_a_client_steers_no_terminal(run: Any, job: str, words: list[str]) -> None:
    ran = run(*words, *([job] if words[-1] == "show" else []))
    assert ran.code == 0, ran.err
    assert not _STEERS.search(ran.out)
    assert SHOWN[:40] in ran.out
    lines = [line for line in ran.out.splitlines() if line.startswith("video_x")]
    assert not lines  # no text makes a line of its own


def test_the_reason_of_a_hold_and_a_refusal_steer_no_terminal(run: Any, job: str) -> None:
    ran = run("queue", "hold", job, "--reason", HOSTILE)
    assert ran.code == 0
    out = run("queue", "ls").out + run("queue", "show", job).out
    assert SHOWN[:40] in out
    assert not _STEERS.search(out)


def test_json_holds_a_text_as_it_is(run: Any, job: str) -> None:
    assert run("queue", "show", job, "--json").last["title"] == HOSTILE


def test_an_event_is_one_line() -> None:
    error = {"code": "failed", "message": HOSTILE}
    line = event_text("job.held", {"id": "video_a", "ts": 0.0, "reason": HOSTILE, "error": error})
    assert line.count(SHOWN) == 2
    assert "\n" not in line


def test_all_that_is_said_goes_through_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    from server.cli.report import Reporter, pairs, table

    reporter = Reporter(Common())
    reporter.say(table(("A", "B"), [(HOSTILE, "1"), ("x\ty", HOSTILE)]))
    reporter.say(pairs([("title", HOSTILE)]))
    reporter.say(f"one\ttwo\n{HOSTILE}")
    reporter.warn(HOSTILE, "left out")
    with reporter.working():
        reporter.stage(HOSTILE)
    out, err = capsys.readouterr()
    assert not _STEERS.search(out + err)
    assert len(out.splitlines()) == 3 + 1 + 3
    assert err.count(SHOWN) == 2
    for path in sorted((ROOT / "server" / "cli").glob("*.py")):
        taken = re.findall(r"from vidgen\.cli\.report import (.*)", path.read_text("utf-8"))
        assert taken in ([], ["clock"]), path.name
