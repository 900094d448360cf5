"""`vidgen queue` on this machine's database, and on a server."""

import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.fleet import Fleet
from server.cli.places import open_or_make
from server.cli.queue_text import event_text
from server.database import Database
from server.queue import events, tenants
from server.queue import fleet as workers
from server.queue.jobs import Jobs
from server.settings import ServerSettings
from tests.server.cli.conftest import wait_for_state
from tests.server.queue.making import new_job, worker

DECIDED = {
    "width": 96, "height": 96, "fps": "16", "num_frames": 17, "seconds": 1.0625, "seed": 7,
    "adjustments": [], "warnings": [], "estimate": {}, "clips": [],
}  # fmt: skip


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """The database that the commands open, with a tenant and a worker."""
    found = open_or_make(ServerSettings().with_home(tmp_path / "home"))
    tenants.ensure(found, "a")
    tenants.ensure(found, "b")
    profile = {"name": "cpu", "title": "CPU", "memory_bytes": 8 << 30}
    workers.register(found, worker(profile=profile))
    yield found
    found.close()


@pytest.fixture
def jobs(db: Database, tmp_path: Path) -> list[str]:
    """Three waiting jobs of tenant a and one of b."""
    queue = Jobs(db, ServerSettings(disk_reserve_mib=0).with_home(tmp_path / "home"))
    made = [queue.create(new_job(tenant, decided=DECIDED))[0] for tenant in "aaab"]
    return [job.id for job in made]


def test_jobs_of_all_tenants_are_listed_and_shown(run: Any, jobs: list[str]) -> None:
    shown = run("queue", "ls", "--json").last["jobs"]
    assert [job["id"] for job in shown] == jobs
    assert [job["tenant"] for job in shown] == ["a", "a", "a", "b"]
    assert sorted(job["queue_position"] for job in shown) == [1, 2, 3, 4]
    text = run("queue", "show", jobs[0]).out
    assert "96x96, 17 frames at 16 fps, 1.0625 s, seed 7" in text
    ran = run("queue", "show", "video_none")
    assert (ran.code, ran.err) == (4, "vidgen: There is no job 'video_none'.\n")


def test_a_job_is_moved_held_released_and_cancelled(run: Any, jobs: list[str]) -> None:
    def places() -> dict[str, int]:
        found = run("queue", "ls", "--json").last["jobs"]
        return {job["id"]: job["queue_position"] for job in found if job["tenant"] == "a"}

    assert run("queue", "move", jobs[2], "--to", "first").code == 0
    assert sorted(places(), key=places().__getitem__) == [jobs[2], jobs[0], jobs[1]]
    held = run("queue", "hold", jobs[0], "--reason", "wait for Monday", "--json").last
    assert (held["state"], held["hold_reason"]) == ("held", "wait for Monday")
    assert run("queue", "release", jobs[0], "--json").last["state"] == "queued"
    ran = run("queue", "cancel", jobs[0], jobs[1])
    assert ran.out.splitlines() == [f"{jobs[0]}  cancelled", f"{jobs[1]}  cancelled"]
    assert run("queue", "retry", jobs[0], "--json").last["state"] == "queued"
    assert run("queue", "pause", jobs[0], "--json").last["state"] == "paused"
    assert run("queue", "resume", jobs[0], "--json").last["state"] == "queued"
    shown = run("queue", "ls", "--state", "cancelled", "--json").last["jobs"]
    assert [job["id"] for job in shown] == [jobs[1]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cancel"], "Name the jobs to cancel"),
        (["move", "video_1"], "one of --to first"),
        (["ls", "--state", "stuck"], "state='stuck' is none of queued"),
        (["export", "jobs.zip"], "name it with --server URL"),
        (["import", "jobs.zip"], "name it with --server URL"),
    ],
)
def test_what_is_missing_is_told(run: Any, db: Database, words: list[str], said: str) -> None:
    ran = run("queue", *words)
    assert ran.code == 2
    assert said in ran.err


def test_an_ended_job_is_watched_to_its_end(run: Any, jobs: list[str]) -> None:
    run("queue", "cancel", jobs[0])
    ran = run("queue", "watch", jobs[0], "--json")
    assert ran.code == 1
    assert [line["event"] for line in ran.lines] == ["job.queued", "video.cancelled"]


def test_no_event_of_a_long_job_is_left_out(run: Any, db: Database, jobs: list[str]) -> None:
    with db.write() as connection:
        for step in range(1200):
            events.append(connection, jobs[0], "progress", {"step": step}, float(step))
    run("queue", "cancel", jobs[0])
    lines = run("queue", "watch", jobs[0], "--json").lines
    assert [line["event"] for line in lines].count("progress") == 1200
    assert lines[-1]["event"] == "video.cancelled"


def test_workers_are_listed(run: Any, db: Database) -> None:
    assert "w1" in run("queue", "workers").out
    assert run("queue", "workers", "--json").last["workers"][0]["state"] == "idle"


def test_without_a_database_it_says_how_to_get_one(run: Any) -> None:
    ran = run("queue", "ls")
    assert ran.code == 4
    assert "start `vidgen serve`" in ran.err


@pytest.mark.slow
def test_a_queue_goes_into_a_file_and_comes_out_again(
    run: Any, fleet: Fleet, tmp_path: Path
) -> None:
    Image.new("RGB", (96, 96), "red").save(tmp_path / "first.png")
    there = ["--server", fleet.address]
    hold = {"prompt": "a ball", "seed": 1, "hold": True, "title": "kept"}
    plain = fleet.call("POST", "/v1/videos", hold)[1]["id"]
    ran = run("generate", "a ball; step=5", "--image", "first.png", *there, "--detach", "--json")
    pictured = ran.last["job"]
    fleet.call("POST", f"/v1/videos/{pictured}/pause", {})
    wait_for_state(fleet, pictured, ("paused",))
    sealed = fleet.call("POST", "/v1/videos", {**hold, "zdr": True})[1]["id"]
    out = run("queue", "export", "jobs.zip", *there, "--json")
    assert out.last["left_out"] == [sealed]
    with zipfile.ZipFile(tmp_path / "jobs.zip") as archive:
        assert sum(name.endswith("first.png") for name in archive.namelist()) == 1
    made = run("queue", "import", "jobs.zip", *there, "--json").last["jobs"]
    again = run("queue", "import", "jobs.zip", *there, "--json").last
    assert again["jobs"] == [{**item, "there": True} for item in made]
    assert again["there"] == len(made)
    assert not any(item["there"] for item in made)
    renamed = {item["was"]: item["is"] for item in made}
    assert {plain, pictured} <= renamed.keys()
    copy = fleet.call("GET", f"/v1/videos/{renamed[plain]}")[1]
    assert (copy["title"], copy["seed"], copy["state"]) == ("kept", 1, "paused")
    assert fleet.call("GET", f"/v1/videos/{renamed[pictured]}")[1]["request"]["image"]
    for job in (*renamed, *renamed.values(), sealed):
        run("queue", "cancel", job, *there)


@pytest.mark.slow
def test_a_job_of_a_server_is_followed_and_fetched(run: Any, fleet: Fleet, tmp_path: Path) -> None:
    there = ["--server", fleet.address]
    job = fleet.call("POST", "/v1/videos", {"prompt": "a ball; step=0.1", "seed": 3})[1]["id"]
    ran = run("queue", "watch", job, *there, "--json")
    assert ran.code == 0
    assert ran.lines[0]["event"] == "job.queued"
    assert ran.last["event"] == "video.completed"
    assert run("queue", "fetch", job, "--out", "v.mp4", *there).code == 0
    local = ["--home", str(fleet.folder)]
    assert run("queue", "fetch", job, "--out", "w.mp4", *local).code == 0
    assert (tmp_path / "v.mp4").read_bytes() == (tmp_path / "w.mp4").read_bytes() != b""
    ran = run("queue", "fetch", job, "--out", "x.mp4", "--variant", "clip-9", *there)
    assert ran.code == 4
    zip_ = tmp_path / "no.zip"
    zip_.write_text("no archive")
    assert run("queue", "import", "no.zip", *there).code == 2


def test_an_event_is_told_in_a_person_s_numbers() -> None:
    moment = time.mktime((2026, 11, 30, 9, 8, 7, 0, 0, -1))
    data = {"id": "video_a", "ts": moment, "seq": 4, "eta_at": moment + 1.25, "share": 0.123456789}
    line = event_text("job.step", {**data, "step": 3, "phase": "denoise"})
    assert line == "09:08:07  video_a  job.step  eta_at=09:08:08 share=0.1235 step=3 phase=denoise"


def test_a_folder_is_no_file_to_bring_something_to(
    run: Any, jobs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    for desk in ("server.cli.desk.RemoteDesk", "server.cli.local_desk.LocalDesk"):
        monkeypatch.setattr(f"{desk}.fetch", lambda *_: pytest.fail("it was brought"))
    for there in ([], ["--server", "http://127.0.0.1:9"]):
        ran = run("queue", "fetch", jobs[0], "--out", "out", *there)
        assert ran.code == 2
        assert "'out' is a folder; give a name for a file." in ran.err
    ran = run("generate", "a ball", "--out", "out", "--server", "http://127.0.0.1:9")
    assert ran.code == 2
    assert "'out' is a folder" in ran.err
