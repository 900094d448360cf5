"""Deletions that break off: no transaction waits for the store, and the rest is gone on with."""

import base64
from typing import Any

import pytest

from server.api.erasing import erase_stopped
from server.keeping import erase, shred, sweep
from server.problems import Problem
from server.queue.job import Job
from server.queue.sealed import seal
from tests.server.inputs.desk import Desk
from tests.server.inputs.files import png

INLINE = "data:image/png;base64," + base64.b64encode(png()).decode()
DAY = 86400


class Killed(BaseException):
    """The process ends here."""


class Case:
    """A job with a picture of its own, one that stays, and a deed that deletes."""

    def __init__(self, desk: Desk, deed: str) -> None:
        self.desk = desk
        self.deed = deed
        payload = desk.resolve({"request": {"prompt": "x", "image": INLINE}})
        self.upload = str(payload["request"]["image"]).removeprefix("upload:")
        secret: dict[str, Any] = {"payload": payload}
        if deed == "shred":
            cipher, key = seal(payload)
            secret = {"zdr": True, "payload": None, "cipher": cipher, "secret": key, "search": None}
        self.job = desk.finished(retention_seconds=100, **secret)
        self.other = desk.finished(retention_seconds=9 * DAY)
        if deed in ("expire", "trash"):
            desk.scene.clock.forward(100)
        if deed == "trash":
            desk.scene.jobs.trash(self.job.id)
            desk.scene.clock.forward(desk.scene.settings.trash_seconds)

    def act(self) -> None:
        """Delete, as whoever deletes first does it."""
        scene = self.desk.scene
        asked = (scene.db, self.desk.store, scene.settings)
        if self.deed == "erase":
            erase(*asked, self.job.id, scene.clock)
        elif self.deed == "shred":
            shred(*asked, self.job.id, scene.clock)
        elif self.deed == "remove":
            self.desk.uploads.remove(self.upload, "a")
        elif self.deed == "upload":
            scene.jobs.remove(self.job.id)
            scene.clock.forward(scene.settings.retention_seconds)
            self.go_on()
        else:
            self.go_on()

    def go_on(self) -> None:
        """Take the turns that the API process takes again and again."""
        scene = self.desk.scene
        erase_stopped(scene.db, self.desk.store, scene.settings, scene.clock)
        sweep(scene.db, self.desk.store, scene.settings, scene.clock, orphans=False)

    def files(self, job: Job) -> list[str]:
        return list(self.desk.store.keys(f"jobs/{job.id}/"))

    def check_shown(self) -> None:
        """Whatever can be found has its files."""
        desk = self.desk
        try:
            job = desk.scene.jobs.get(self.job.id, "a")
        except Problem:
            pass
        else:
            assert job.artifacts_gone_at is not None or len(self.files(job)) == 2
        try:
            desk.uploads.get(self.upload, "a")
        except Problem:
            pass
        else:
            assert self.upload in desk.store.folders("uploads/")

    def check_done(self) -> None:
        """Nothing is left of what was deleted, and the rest is there."""
        desk = self.desk
        if self.deed in ("remove", "upload"):
            assert desk.store.folders("uploads/") == []
            assert desk.rows() == 0
        else:
            assert self.files(self.job) == []
        if self.deed in ("erase", "trash", "shred"):
            assert desk.store.folders("uploads/") == []
            assert desk.rows() == 0
        if self.deed in ("erase", "trash"):
            with pytest.raises(Problem, match="no job"):
                desk.scene.jobs.get(self.job.id, None)
        if self.deed in ("expire", "shred"):
            assert desk.scene.jobs.get(self.job.id, None).artifacts_gone_at is not None
        assert len(self.files(self.other)) == 2
        assert desk.scene.jobs.get(self.other.id, None).artifacts_gone_at is None


DEEDS = ("erase", "shred", "expire", "trash", "remove", "upload")


@pytest.mark.parametrize("deed", DEEDS)
def test_no_transaction_is_open_while_the_store_deletes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    case = Case(desk, deed)
    delete, seen = desk.store.delete_prefix, []

    def look(prefix: str) -> None:
        seen.append(desk.scene.db.engine.pool.checkedout())  # type: ignore[attr-defined]
        delete(prefix)

    monkeypatch.setattr(desk.store, "delete_prefix", look)
    case.act()
    assert seen
    assert set(seen) == {0}
    case.check_done()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("deed", DEEDS)
def test_a_process_that_dies_in_the_middle_loses_and_keeps_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, deed: str, when: str
) -> None:
    case = Case(desk, deed)
    delete = desk.store.delete_prefix

    def die(prefix: str) -> None:
        if when == "after":
            delete(prefix)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "delete_prefix", die)
        with pytest.raises(Killed):
            case.act()
    case.check_shown()
    case.go_on()
    case.check_done()
    case.go_on()
    case.check_done()


def test_what_is_being_erased_is_not_restored(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(desk, "trash")

    def refuse(prefix: str) -> None:
        raise Problem("storage_failed", f"{prefix} cannot be deleted.")

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "delete_prefix", refuse)
        case.act()
        with pytest.raises(Problem, match="is being deleted") as found:
            desk.scene.jobs.restore(case.job.id)
    assert found.value.code == "gone"
    case.go_on()
    case.check_done()


def test_inputs_stay_as_long_as_the_results_that_were_made_of_them(desk: Desk) -> None:
    payload = desk.resolve({"request": {"prompt": "x", "image": INLINE}})
    upload = str(payload["request"]["image"]).removeprefix("upload:")
    job = desk.finished(payload=payload, retention_seconds=30 * DAY)
    assert desk.uploads.get(upload, "a").expires_at == job.expires_at
