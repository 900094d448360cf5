"""Zero retention: afterwards no byte of what was asked or made is on any disk."""

import base64
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin
from sqlalchemy import select, update

from server.database.tables import clips, events, job_secrets, jobs
from server.keeping import erase, shred, sweep
from server.keeping.log import truncate_log
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import payload_of, seal
from server.states import JobState
from tests.server.inputs.desk import Desk
from tests.server.inputs.files import encoded
from tests.server.queue.making import clip_row

SECRET = "xylophone-quagmire-7319"


def signed_picture() -> bytes:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", SECRET)
    return encoded(Image.new("RGB", (16, 16)), "PNG", pnginfo=notes)


def secret_job(desk: Desk, state: JobState = JobState.COMPLETED) -> tuple[Job, str]:
    """Run a job whose prompt is written wherever a careless writer might put it."""
    inline = "data:image/png;base64," + base64.b64encode(signed_picture()).decode()
    payload = {"request": {"prompt": SECRET * 50, "image": inline}}
    resolved = desk.resolve(payload)
    cipher, key = seal(resolved)
    options: dict[str, Any] = {"note": SECRET}
    desk.scene.ask(zdr=True, payload=None, cipher=cipher, secret=key, search=None, options=options,
                   decided={"width": 64, "adjustments": [SECRET]}, body_hash="b" * 64,
                   idempotency_key="k", title=SECRET, tags=(SECRET,))  # fmt: skip
    held = desk.scene.claim()
    job_id = held.claimed.id
    held.move(JobState.RUNNING)
    held.event("preview", {"note": SECRET * 100})
    for _ in range(50):
        held.event("progress", {"note": SECRET * 20, "state": "running"})
    held.clip_done(clip_row(held, 0, artifacts={"note": SECRET}, metrics={"note": SECRET}))
    work = Path(desk.scene.settings.work) / job_id
    work.mkdir(parents=True)
    (work / "request.json").write_text(SECRET)
    key_name = f"jobs/{job_id}/f1/video.mp4"
    artifacts = {"video": desk.store.put_bytes(key_name, SECRET.encode()).as_dict()}
    if state is JobState.COMPLETED:
        held.move(JobState.FINALIZING)
        job = held.finish(state, artifacts=artifacts, report={"note": SECRET})
    else:
        error = Problem("internal", f"it broke over {SECRET}").as_dict()
        job = held.finish(state, error=error, report={"note": SECRET})
    return job, resolved["request"]["image"].removeprefix("upload:")


def places_of(folder: Path, *needles: bytes) -> list[str]:
    """Return the files below a folder, the database's own included, that hold any of some bytes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        path.relative_to(folder).as_posix()
        for path in files
        if any(needle in path.read_bytes() for needle in needles)
    ]


def check_gone(desk: Desk, folder: Path, job: Job, key: bytes) -> None:
    with desk.scene.db.read() as connection:
        for table in (jobs, events, clips, job_secrets):
            assert SECRET not in str(connection.execute(select(table)).all())
        assert connection.execute(select(job_secrets)).all() == []
    needles = (SECRET.encode(), base64.b64encode(SECRET.encode())[:20], key)
    assert places_of(folder, *needles) == []
    assert not (Path(desk.scene.settings.work) / job.id).exists()
    assert list(desk.store.keys("jobs/")) == []


def key_of(desk: Desk) -> bytes:
    with desk.scene.db.read() as connection:
        return bytes(connection.execute(select(job_secrets.c.key)).scalar_one())


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED])
def test_nothing_is_left(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture, state: JobState
) -> None:
    log = logging.FileHandler(tmp_path / "server.log")
    logging.getLogger().addHandler(log)
    logging.getLogger().setLevel(logging.DEBUG)
    try:
        job, upload = secret_job(desk, state)
        key = key_of(desk)
        assert len(places_of(tmp_path, SECRET.encode())) >= 3
        scene = desk.scene
        shred(scene.db, desk.store, scene.settings, job.id, scene.clock)
        shred(scene.db, desk.store, scene.settings, job.id, scene.clock)
    finally:
        logging.getLogger().removeHandler(log)
        log.close()
    check_gone(desk, tmp_path, job, key)
    with pytest.raises(Problem):
        desk.uploads.get(upload, "a")
    after = scene.jobs.get(job.id, "a")
    assert (after.state, after.decided, after.artifacts) == (state, {"width": 64}, {})
    assert after.artifacts_gone_at == scene.clock.now
    assert after.usage == job.usage
    assert (after.body_hash, after.idempotency_key, after.expires_at) == (None, None, None)
    if state is JobState.FAILED:
        assert after.error is not None
        assert after.error["code"] == "internal"
        with pytest.raises(Problem):
            scene.jobs.resume(job.id, "a")
    with pytest.raises(Problem, match="deleted"):
        payload_of(scene.db, after)


def test_the_sweep_shreds_after_an_hour(desk: Desk, tmp_path: Path) -> None:
    job, _ = secret_job(desk)
    key, scene = key_of(desk), desk.scene

    def swept() -> int:
        return sweep(scene.db, desk.store, scene.settings, scene.clock, orphans=False).shredded

    scene.clock.forward(3599)
    assert swept() == 0
    scene.clock.forward(1)
    assert swept() == 1
    assert swept() == 0
    check_gone(desk, tmp_path, job, key)


def test_a_failing_store_is_tried_again(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = secret_job(desk)
    key, scene = key_of(desk), desk.scene

    def fail(_prefix: str) -> None:
        raise Problem("storage_failed", "The store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "delete_prefix", fail)
        with pytest.raises(Problem, match="away"):
            shred(scene.db, desk.store, scene.settings, job.id, scene.clock)
        with scene.db.read() as connection:
            assert connection.execute(select(job_secrets)).all() == []
        with pytest.raises(Problem):
            payload_of(scene.db, scene.jobs.get(job.id, None))
    found = sweep(scene.db, desk.store, scene.settings, scene.clock, orphans=False)
    assert (found.shredded, found.uploads, found.failed) == (1, 1, 0)
    check_gone(desk, tmp_path, job, key)
    assert list(desk.store.keys("uploads/")) == []


def test_only_such_jobs_that_have_ended(desk: Desk) -> None:
    scene = desk.scene
    plain = desk.finished()
    waiting = scene.ask(zdr=True)
    for job in (plain, waiting):
        with pytest.raises(Problem) as caught:
            shred(scene.db, desk.store, scene.settings, job.id, scene.clock)
        assert caught.value.code == "conflict"
    assert list(desk.store.keys(f"jobs/{plain.id}/")) != []
    assert scene.jobs.get(waiting.id, None).payload is not None


def test_uploads_of_others_and_of_the_client_stay(desk: Desk) -> None:
    own = desk.add(signed_picture())
    scene = desk.scene
    shared = desk.resolve(
        {"request": {"prompt": "x", "image": "data:image/png;base64,"
                     + base64.b64encode(signed_picture()).decode()}}
    )["request"]["image"]  # fmt: skip
    payload = {"request": {"prompt": "x", "image": f"upload:{own}", "last_image": shared}}
    cipher, key = seal(payload)
    scene.ask(zdr=True, payload=None, cipher=cipher, secret=key, search=None)
    held = scene.claim()
    held.move(JobState.RUNNING)
    held.finish(JobState.FAILED, error=Problem("internal", "x").as_dict())
    other = scene.ask(payload={"request": {"prompt": "y", "image": shared}})
    shred(scene.db, desk.store, scene.settings, held.claimed.id, scene.clock)
    assert desk.rows() == 2
    assert scene.jobs.get(other.id, None).state is JobState.QUEUED


def test_deleting_such_a_job_leaves_nothing_either(desk: Desk, tmp_path: Path) -> None:
    job, _ = secret_job(desk)
    key, scene = key_of(desk), desk.scene
    erase(scene.db, desk.store, scene.settings, job.id)
    check_gone(desk, tmp_path, job, key)
    assert list(desk.store.keys("uploads/")) == []


def test_the_scan_sees_what_the_log_keeps(desk: Desk, tmp_path: Path) -> None:
    """The scan above proves nothing unless it finds what is there before the log is emptied."""
    made = desk.scene.ask(title=SECRET * 100)
    with desk.scene.db.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == made.id).values(title=None, search=None))
    found = places_of(tmp_path, SECRET.encode())
    assert found == (["vidgen.db-wal"] if desk.scene.db.is_sqlite else [])
    assert truncate_log(desk.scene.db)
    assert places_of(tmp_path, SECRET.encode()) == []
