"""Desk: a scene of the queue with a store and uploads, and the fixtures that give one."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from server.database import Database
from server.database.tables import uploads as table
from server.inputs import Uploads, resolve_references
from server.inputs.fields import references
from server.inputs.look import Looker
from server.queue.job import Job
from server.states import JobState
from server.store import Store
from server.store.folder import FolderStore
from tests.server.conftest import Clock
from tests.server.queue.making import Scene


class Desk:
    """A scene with a store and uploads."""

    def __init__(self, scene: Scene, store: Store, looker: Looker) -> None:
        self.scene = scene
        self.store = store
        self.looker = looker
        self.uploads = self.with_settings()

    def with_settings(self, **changes: object) -> Uploads:
        settings = self.scene.settings.model_copy(update=changes)
        return Uploads(self.scene.db, self.store, settings, self.scene.clock, self.looker)

    def add(self, content: bytes, name: str = "cat.png", tenant: str = "a") -> str:
        return self.uploads.add(tenant, name, io.BytesIO(content)).id

    def resolve(self, payload: dict[str, Any], **options: Any) -> dict[str, Any]:
        settings = options.pop("settings", self.scene.settings)
        with self.uploads.passing() as (uploads, kept):
            found = resolve_references(payload, "a", uploads, self.scene.jobs, settings, **options)
            kept |= references(found)
        return found

    def rows(self) -> int:
        with self.scene.db.read() as connection:
            return connection.execute(select(func.count()).select_from(table)).scalar_one()

    def finished(self, **changes: Any) -> Job:
        """Return a completed job with a video and a last frame in the store."""
        self.scene.ask(**changes)
        held = self.scene.claim()
        where = f"jobs/{held.claimed.id}/f1/"
        artifacts = {
            "video": self.store.put_bytes(f"{where}video.mp4", b"the video").as_dict(),
            "last_frame": self.store.put_bytes(f"{where}last_frame.png", b"the frame").as_dict(),
        }
        held.move(JobState.RUNNING)
        held.move(JobState.FINALIZING)
        return held.finish(JobState.COMPLETED, artifacts=artifacts)


@pytest.fixture(scope="session")
def looker() -> Iterator[Looker]:
    """Run one child process for all tests."""
    running = Looker()
    yield running
    running.close()


@pytest.fixture
def desk(database: Database, clock: Clock, tmp_path: Path, looker: Looker) -> Desk:
    """Return a desk with a worker, and its store and work below the test's folder."""
    scene = Scene(database, clock, work=str(tmp_path / "work"), disk_reserve_mib=0)
    scene.work()
    return Desk(scene, FolderStore(tmp_path / "store"), looker)
