"""The sweep: what has had its time goes, all else stays, and a failing store loses nothing."""

import base64
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from server.database.tables import deliveries, events, jobs, uploads, webhook_endpoints
from server.keeping import Swept, erase, sweep
from server.keeping.work import GRACE_SECONDS
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import seal
from server.states import JobState
from server.webhooks.endpoints import Endpoints
from tests.server.conftest import Clock
from tests.server.inputs.desk import Desk
from tests.server.inputs.files import png

DAY = 86400


def swept(desk: Desk, **options: Any) -> Swept:
    scene = desk.scene
    return sweep(scene.db, desk.store, scene.settings, scene.clock, orphans=False, **options)


def has_files(desk: Desk, job: Job) -> bool:
    return list(desk.store.keys(f"jobs/{job.id}/")) != []


def read(desk: Desk, job: Job) -> Job:
    return desk.scene.jobs.get(job.id, None)


def failing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_prefix: str) -> None:
        raise Problem("storage_failed", "The store is away.")

    monkeypatch.setattr(desk.store, "delete_prefix", fail)


def test_expired_results(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    old = desk.finished(retention_seconds=100)
    new = desk.finished(retention_seconds=200)
    waiting = desk.scene.ask()
    with desk.scene.db.write() as connection:
        for kind in ("preview", "progress"):
            row = {"job_id": old.id, "ts": 1.0, "type": kind, "data": {}}
            connection.execute(insert(events).values(row))
    assert swept(desk) == Swept()
    desk.scene.clock.forward(100)
    with monkeypatch.context() as patch:
        failing(desk, patch)
        assert swept(desk) == Swept(failed=1)
    assert read(desk, old).artifacts_gone_at == desk.scene.clock.now  # nobody is shown half of it
    assert has_files(desk, old)
    desk.scene.clock.forward(5)
    assert swept(desk) == Swept(results=1)
    assert swept(desk) == Swept()
    assert read(desk, old).artifacts_gone_at == desk.scene.clock.now - 5
    assert read(desk, old).state is JobState.COMPLETED
    assert (has_files(desk, old), has_files(desk, new)) == (False, True)
    assert read(desk, new).artifacts_gone_at is None
    assert read(desk, waiting).state is JobState.QUEUED
    with desk.scene.db.read() as connection:
        kinds = set(
            connection.execute(select(events.c.type).where(events.c.job_id == old.id)).scalars()
        )
    assert "preview" not in kinds
    assert "progress" in kinds


def test_results_that_a_waiting_job_needs_stay(desk: Desk) -> None:
    named, parent, sealed = (desk.finished(retention_seconds=100) for _ in range(3))
    request = desk.resolve({"request": {"prompt": "x", "image": named.id}})
    child = desk.scene.ask(payload=request)
    extension = desk.scene.ask(parent=parent.id, parent_kind="extension")
    cipher, secret = seal(desk.resolve({"request": {"prompt": "x", "video": sealed.id}}))
    hidden = desk.scene.ask(zdr=True, payload=None, cipher=cipher, secret=secret, search=None)
    desk.scene.clock.forward(1000)
    assert swept(desk) == Swept()
    for job in (child, extension, hidden):
        desk.scene.jobs.ask_stop(job.id, None, "cancel")
    assert swept(desk).results == 3


def test_needed_ones_do_not_stand_in_the_way(desk: Desk) -> None:
    first, second = desk.finished(retention_seconds=1), desk.finished(retention_seconds=2)
    desk.scene.ask(parent=first.id, parent_kind="extension")
    desk.scene.clock.forward(10)
    assert swept(desk, limit=1) == Swept(results=1)
    assert (has_files(desk, first), has_files(desk, second)) == (True, False)


def test_trash(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    thrown, restored = desk.finished(), desk.finished()
    inline = desk.resolve({"request": {"prompt": "x", "image": _inline()}})
    picture = inline["request"]["image"].removeprefix("upload:")
    with_input = desk.finished(payload=inline)
    for job in (thrown, restored, with_input):
        desk.scene.jobs.trash(job.id)
    desk.scene.jobs.restore(restored.id)
    desk.scene.clock.forward(desk.scene.settings.trash_seconds - 1)
    assert swept(desk).trash == 0
    desk.scene.clock.forward(1)
    with monkeypatch.context() as patch:
        failing(desk, patch)
        assert swept(desk).trash == 0
    assert read(desk, thrown).id == thrown.id
    assert swept(desk).trash == 2
    for job in (thrown, with_input):
        with pytest.raises(Problem, match="no job"):
            read(desk, job)
        assert not has_files(desk, job)
    with pytest.raises(Problem):
        desk.uploads.get(picture, "a")
    assert read(desk, restored).id == restored.id


def _inline() -> str:
    return "data:image/png;base64," + base64.b64encode(png()).decode()


def test_erasing_takes_the_inputs_of_the_request_along(desk: Desk) -> None:
    sent = desk.add(png())
    payload = {"request": {"prompt": "x", "image": _inline(), "last_image": f"upload:{sent}"}}
    job = desk.finished(payload=desk.resolve(payload))
    shared = desk.resolve({"request": {"prompt": "x", "image": _inline()}})
    other = desk.finished(payload=shared)
    desk.scene.ask(payload=shared)
    scene = desk.scene
    assert desk.rows() == 3
    for one in (job, other):
        erase(scene.db, desk.store, scene.settings, one.id)
    kept = {sent, shared["request"]["image"].removeprefix("upload:")}
    assert set(desk.store.folders("uploads/")) == kept
    assert desk.rows() == 2


def test_erasing_leaves_the_inputs_of_what_can_be_forked(desk: Desk) -> None:
    shared = desk.resolve({"request": {"prompt": "x", "image": _inline()}})
    picture = shared["request"]["image"].removeprefix("upload:")
    first, second, third = (desk.finished(payload=shared) for _ in range(3))
    scene = desk.scene
    erase(scene.db, desk.store, scene.settings, first.id)
    assert desk.uploads.get(picture, "a").id == picture
    with scene.db.write() as connection:  # its results are gone, and so is the fork
        mine = update(jobs).where(jobs.c.id == third.id)
        connection.execute(mine.values(artifacts_gone_at=scene.clock.now))
    erase(scene.db, desk.store, scene.settings, second.id)
    with pytest.raises(Problem):
        desk.uploads.get(picture, "a")


def test_erase_needs_an_end(desk: Desk) -> None:
    waiting = desk.scene.ask()
    scene = desk.scene
    with pytest.raises(Problem) as caught:
        erase(scene.db, desk.store, scene.settings, waiting.id)
    assert caught.value.code == "conflict"
    assert read(desk, waiting).id == waiting.id


def test_expired_uploads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    free, used, young = desk.add(png()), desk.add(png()), desk.add(png())
    payload = {"request": {"prompt": "x", "image": f"upload:{used}"}}
    job = desk.scene.ask(payload=payload, retention_seconds=DAY)  # made without extending it
    with desk.scene.db.write() as connection:
        later = update(uploads).where(uploads.c.id == young)
        connection.execute(later.values(expires_at=desk.scene.clock.now + 9 * DAY))
    desk.scene.clock.forward(DAY)
    with monkeypatch.context() as patch:
        failing(desk, patch)
        assert swept(desk) == Swept(failed=1)
    assert desk.rows() == 3
    assert swept(desk) == Swept(uploads=1)
    assert sorted(desk.store.folders("uploads/")) == sorted([used, young])
    desk.scene.jobs.ask_stop(job.id, None, "cancel")
    assert swept(desk) == Swept()  # it can be forked as long as it is kept
    desk.scene.clock.forward(DAY)
    assert swept(desk) == Swept(results=1, uploads=1)
    assert desk.store.folders("uploads/") == [young]
    assert free not in desk.store.folders("uploads/")


def test_work_folders(desk: Desk) -> None:
    done, gone = desk.finished(), desk.finished(retention_seconds=10)
    chain = desk.finished(kind="chain")
    waiting = desk.scene.ask()
    paused = desk.scene.ask()
    desk.scene.jobs.ask_stop(paused.id, None, "pause")
    root = Path(desk.scene.settings.work)
    names = {"done": done.id, "waiting": waiting.id, "paused": paused.id, "gone": gone.id}
    names["chain"] = chain.id
    names |= {"none": "video_00abcd", "other": "not-ours", "in": "incoming/in_1"}
    for name in names.values():
        (root / name / "e1").mkdir(parents=True)
        (root / name / "e1" / "take").write_text("x")
    _age(root, desk.scene.clock.now - GRACE_SECONDS + 5)
    assert swept(desk) == Swept()
    _age(root, desk.scene.clock.now - GRACE_SECONDS - 5)
    assert swept(desk, limit=2).folders == 2
    assert swept(desk).folders == 1
    left = {name for name, folder in names.items() if (root / folder).exists()}
    assert left == {"waiting", "paused", "other", "in", "chain"}  # forks share a chain's clips
    _age(root, desk.scene.clock.now - DAY - 5)
    assert swept(desk).folders == 1
    assert not (root / "incoming/in_1").exists()
    desk.scene.clock.now += desk.scene.settings.chain_work_seconds + 1
    _age(root, desk.scene.clock.now - GRACE_SECONDS - 5)
    swept(desk)
    assert not (root / chain.id).exists()


def _age(root: Path, at: float) -> None:
    for path in (*root.rglob("*"), root):
        os.utime(path, (at, at))


def test_folder_of_an_expired_job_goes_with_its_results(desk: Desk) -> None:
    gone = desk.finished(retention_seconds=10)
    folder = Path(desk.scene.settings.work) / gone.id
    folder.mkdir(parents=True)
    desk.scene.clock.forward(10)
    assert swept(desk) == Swept(results=1)
    assert not folder.exists()


def test_orphans(desk: Desk, clock: Clock) -> None:
    kept, expired = desk.finished(), desk.finished(retention_seconds=1)
    upload = desk.add(png())
    clock.forward(5)
    swept(desk)
    desk.store.put_bytes(f"jobs/{expired.id}/f1/video.mp4", b"left by a killed sweep")
    desk.store.put_bytes("jobs/video_lost/x", b"x")
    desk.store.put_bytes("uploads/upload_lost/file.png", b"x")
    root = desk.store.local_path("jobs/video_lost/x").parents[2]  # type: ignore[union-attr]

    def all_swept(**options: Any) -> Swept:
        return sweep(desk.scene.db, desk.store, desk.scene.settings, clock, **options)

    _age(root, clock.now - DAY + 5)
    assert all_swept(orphans=True).orphans == 0
    _age(root, clock.now - DAY - 5)
    assert all_swept(orphans=False).orphans == 0
    assert all_swept(orphans=True, limit=1).orphans == 1
    assert all_swept(orphans=True).orphans == 2
    assert desk.store.folders("jobs/") == [kept.id]
    assert desk.store.folders("uploads/") == [upload]


def test_orphans_are_looked_for_once_an_hour(desk: Desk, clock: Clock) -> None:
    desk.store.put_bytes("jobs/video_lost/x", b"x")
    _age(desk.store.local_path("jobs/video_lost/x").parents[2], 1e9)  # type: ignore[union-attr]
    clock.now = 3600 * 500_000 + 120
    assert sweep(desk.scene.db, desk.store, desk.scene.settings, clock).orphans == 0
    clock.forward(3600 - 1)
    assert sweep(desk.scene.db, desk.store, desk.scene.settings, clock).orphans == 1


def test_deliveries_and_old_secrets(desk: Desk, clock: Clock) -> None:
    hooks = Endpoints(desk.scene.db, desk.scene.settings, clock)
    made = hooks.create("a", "x", "https://hooks.example/", ["video.completed"])
    hooks.rotate_secret(made.id, "a", keep_old=True)
    desk.finished()
    clock.forward(6 * DAY)
    desk.finished()
    assert swept(desk).deliveries == 0
    clock.forward(DAY)
    assert swept(desk).deliveries == 1
    with desk.scene.db.read() as connection:
        assert connection.execute(select(func.count()).select_from(deliveries)).scalar_one() == 1
        old = connection.execute(select(webhook_endpoints.c.old_secret)).scalar_one()
    assert old is None


def test_several_sweep_at_once(desk: Desk) -> None:
    for number in range(6):
        desk.finished(retention_seconds=number + 1)
        desk.add(png())
    desk.scene.clock.forward(2 * DAY)
    found: list[Swept] = []
    threads = [threading.Thread(target=lambda: found.append(swept(desk))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.results for one in found) == 6
    assert sum(one.uploads for one in found) == 6
    assert sum(one.failed for one in found) == 0
    with desk.scene.db.read() as connection:
        unmarked = select(func.count()).where(jobs.c.artifacts_gone_at.is_(None))
        assert connection.execute(unmarked).scalar_one() == 0
