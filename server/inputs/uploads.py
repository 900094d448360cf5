"""Uploads: taking a client's file in, looked at and stored, and finding it again."""

import contextlib
import copy
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError

from server.database.open import Database
from server.database.tables import uploads
from server.ids import new_id
from server.inputs.deleting import delete_marked, mark_uploads
from server.inputs.look import Looker
from server.inputs.upload import Upload
from server.media_types import SUFFIXES
from server.problems import Problem
from server.settings import ServerSettings
from server.store import Store
from server.store.trouble import told

INCOMING = "incoming"  # in the folder of unfinished work
_PIECE = 1 << 20
_T = uploads.c


class Uploads:
    """The uploads of all tenants; each method sees one tenant's only."""

    def __init__(
        self,
        db: Database,
        store: Store,
        settings: ServerSettings,
        clock: Callable[[], float] = time.time,
        looker: Looker | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._db = db
        self._store = store
        self._looker = looker or Looker()
        self._added: list[Upload] | None = None  # within `passing`

    def start(self) -> None:
        """Start the process that looks into files, so that the first upload finds it warm."""
        self._looker.start()

    def close(self) -> None:
        """End the process that looks into files."""
        self._looker.close()

    @contextlib.contextmanager
    def passing(self) -> Iterator[tuple["Uploads", set[str]]]:
        """Give the same uploads for the time of one request, and a set for what shall stay.

        What they add is deleted at the end of the block unless its reference is in the set.
        """
        mine = copy.copy(self)
        added = mine._added = []
        kept: set[str] = set()
        try:
            yield mine, kept
        finally:
            for upload in added:
                if upload.reference not in kept:
                    with contextlib.suppress(Problem, DBAPIError):  # what stays now is swept later
                        self.remove(upload.id, upload.tenant)

    def add(
        self,
        tenant: str,
        filename: str,
        stream: BinaryIO,
        *,
        inline: bool = False,
        param: str | None = None,
    ) -> Upload:
        """Take a file in.

        stream  read to its end, at most upload_max_mib of it
        inline  it came inside the request for a job, so it goes with that job's data
        param   field of the request, for messages
        Raises  Problem input_too_large, unsupported_media, storage_full
        """
        with self.spool() as path:
            self._copy(stream, path, filename, param)
            return self.keep(tenant, filename, path, inline=inline, param=param)

    @contextlib.contextmanager
    def spool(self) -> Iterator[Path]:
        """Give the path of a file to be written, in a folder that is removed afterwards."""
        folder = Path(self._settings.work) / INCOMING / new_id("in")
        with told("the upload"):
            folder.mkdir(parents=True)
        try:
            yield folder / f"{folder.name}.spool"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def keep(
        self, tenant: str, filename: str, path: Path, *, inline: bool, param: str | None
    ) -> Upload:
        """Look into a file that was received, store it and write it down."""
        name = clean_name(filename)
        try:
            facts = self._looker.look(path, name, self._max_pixels)
        except Problem as problem:
            problem.param = param
            raise
        upload_id, now = new_id("upload"), self._clock()
        prefix = f"uploads/{upload_id}/"
        try:
            stored = self._store.put_file(f"{prefix}file.{SUFFIXES[facts.media_type]}", path)
            row = {
                "id": upload_id,
                "tenant": tenant,
                "key": stored.key,
                "filename": name,
                "media_type": facts.media_type,
                "bytes": stored.bytes,
                "sha256": stored.sha256,
                "facts": facts.as_dict() | {"inline": inline},
                "created_at": now,
                "expires_at": now + self._settings.upload_seconds,
            }
            with self._db.write() as connection:
                made = connection.execute(insert(uploads).values(row).returning(*_T)).one()
        except BaseException:
            with contextlib.suppress(Problem):  # what stays is swept later
                self._store.delete_prefix(prefix)
            raise
        upload = Upload.of(made)
        if self._added is not None:
            self._added.append(upload)
        return upload

    def get(self, upload_id: str, tenant: str) -> Upload:
        """Return an upload that has not expired, or raise Problem not_found."""
        chosen = select(uploads).where(*self._alive(upload_id, tenant))
        with self._db.read() as connection:
            row = connection.execute(chosen).one_or_none()
        if row is None:
            raise Problem("not_found", f"There is no upload {upload_id!r}; it may have expired.")
        return Upload.of(row)

    def page(
        self, tenant: str, *, after: str | None = None, limit: int = 20
    ) -> tuple[list[Upload], bool]:
        """Return uploads, the newest first, and whether there are more."""
        chosen = select(uploads).where(_T.tenant == tenant, _T.expires_at > self._clock())
        if after is not None:
            chosen = chosen.where(_T.id < after)
        with self._db.read() as connection:
            rows = connection.execute(chosen.order_by(_T.id.desc()).limit(limit + 1)).all()
        return [Upload.of(row) for row in rows[:limit]], len(rows) > limit

    def remove(self, upload_id: str, tenant: str) -> None:
        """Delete an upload; jobs that still need it will fail. Raises Problem not_found."""
        chosen = select(_T.id).where(_T.id == upload_id, _T.tenant == tenant)
        with self._db.write() as connection:
            if connection.execute(chosen.with_for_update()).first() is None:
                raise Problem("not_found", f"There is no upload {upload_id!r}.")
            mark_uploads(connection, [upload_id])
        delete_marked(self._db, self._store, [upload_id])

    def now(self) -> float:
        """Return the time by which uploads expire."""
        return self._clock()

    @property
    def max_bytes(self) -> int:
        """Bound on one upload."""
        return self._settings.upload_max_mib << 20

    @property
    def _max_pixels(self) -> int:
        return int(self._settings.image_max_megapixels * 1_000_000)

    def _alive(self, upload_id: str, tenant: str) -> tuple[Any, ...]:
        return _T.id == upload_id, _T.tenant == tenant, _T.expires_at > self._clock()

    def _copy(self, stream: BinaryIO, path: Path, filename: str, param: str | None) -> None:
        length = 0
        with told("the upload"), path.open("wb") as handle:
            while piece := stream.read(_PIECE):
                length += len(piece)
                if length > self.max_bytes:
                    raise Problem(
                        "input_too_large",
                        f"{clean_name(filename)} holds more than "
                        f"{self._settings.upload_max_mib} MiB; send a smaller file.",
                        param=param,
                    )
                self._check_room(len(piece))
                handle.write(piece)
        if length == 0:
            text = f"{clean_name(filename)} is empty."
            raise Problem("unsupported_media", text, param=param)

    def _check_room(self, wanted: int) -> None:
        free = shutil.disk_usage(self._settings.work).free
        if free - wanted < self._settings.disk_reserve_mib << 20:
            raise Problem("storage_full", "The disk is full: the upload is not taken; try later.")


def clean_name(filename: str) -> str:
    """Return a client's name for a file without folders and without what could be misread."""
    last = re.split(r"[/\\]", filename)[-1]
    return re.sub(r"[^\w. ()+-]", "_", last).strip(" .")[:128] or "file"
