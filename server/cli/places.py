"""The place of an installation: its database opened for a command, and what is wrong with it."""

import os
import socket
from pathlib import Path

from sqlalchemy import inspect
from sqlalchemy.exc import SQLAlchemyError

from server.database import Database, open_database
from server.database.migrate import current, migrate, newest
from server.settings import ServerSettings, masked
from vidgen.errors import BadRequest, NotFound, VidgenError

# Locks of files, which SQLite relies on, do not hold over these.
NETWORK_FILE_SYSTEMS = frozenset(
    "nfs nfs4 cifs smb3 smbfs smb2 9p afs ceph lustre gpfs beegfs glusterfs fuse.glusterfs "
    "fuse.sshfs fuse.s3fs fuse.gcsfuse fuse.rclone".split()
)
MOUNTS = Path("/proc/self/mounts")


def open_existing(settings: ServerSettings) -> Database:
    """Open a database that a server has made.

    settings  with every place named
    Raises    NotFound where there is none, BadRequest for one of another version
    """
    path = sqlite_path(settings.database)
    if path is not None and not path.is_file():
        raise NotFound(
            f"There is no database at {path}; start `vidgen serve` or make a key first, or name a "
            "running server with --server URL.",
            field="database",
        )
    db = open_database(settings.database)
    found = tried(db)
    if found != newest():
        db.close()
        raise BadRequest(
            f"The database {masked(settings.database)} is at step {found or 'nothing'} and this "
            f"version of Vidgen works with {newest()}; start `vidgen serve` of the newer one.",
            field="database",
        )
    return db


def open_or_make(settings: ServerSettings) -> Database:
    """Open a database, made and brought up to date where that is needed.

    Raises  BadRequest, VidgenError when it cannot be reached
    """
    refuse_network_disk(settings)
    db = open_database(settings.database)
    tried(db)
    try:
        migrate(db)
    except SQLAlchemyError as error:
        db.close()
        raise _cannot("be brought up to date", db, error) from error
    return db


def tried(db: Database) -> str | None:
    """Return the step that a database is at, None for an empty one.

    Raises  VidgenError when it cannot be reached, BadRequest for a file of another program
    """
    try:
        found = current(db)
        names = inspect(db.engine).get_table_names() if found is None and db.is_sqlite else ()
    except SQLAlchemyError as error:
        db.close()
        raise _cannot("be opened" if db.is_sqlite else "be reached", db, error) from error
    if names:
        db.close()
        raise BadRequest(
            f"{db.url.database} is a database of another program (it has the table {names[0]!r}); "
            "name another file with --database.",
            field="database",
        )
    return found


def _cannot(what: str, db: Database, error: SQLAlchemyError) -> VidgenError:
    way_out = "name another file" if db.is_sqlite else "start it, or name another one"
    return VidgenError(
        f"The database {db.url.render_as_string()} cannot {what}: {reason_of(error)}; {way_out} "
        "with --database.",
        code="unavailable",
    )


def reason_of(error: SQLAlchemyError) -> str:
    """Return what a database's driver says, on one line."""
    return str(getattr(error, "orig", None) or error).strip().split("\n")[0].rstrip(".")


def sqlite_path(url: str) -> Path | None:
    """Return the file of a SQLite URL, None for another kind."""
    scheme, _, path = url.partition(":///")
    return Path(path.partition("?")[0]) if scheme.startswith("sqlite") else None


def refuse_network_disk(settings: ServerSettings) -> None:
    """Raise BadRequest for SQLite on a disk that several machines may write to."""
    path = sqlite_path(settings.database)
    kind = None if path is None else network_disk(path)
    if kind is not None:
        raise BadRequest(
            f"{path} is on a network disk ({kind}), where SQLite's locks do not hold; put it on a "
            "local disk with --database, or use Postgres.",
            field="database",
        )


def network_disk(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of network file system that a path is on, None for a local disk."""
    try:
        lines = mounts.read_text("utf-8").splitlines()
    except OSError:  # not Linux
        return None
    whole = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        _, point, found, *_ = line.split()
        point = point.replace("\\040", " ")
        inside = whole == point or whole.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def refuse_other_hosts(settings: ServerSettings) -> None:
    """Raise BadRequest for a SQLite database that workers of another machine use too."""
    db = open_or_make(settings)
    others = other_hosts(db) if db.is_sqlite else []
    db.close()
    if others:
        raise BadRequest(
            f"Workers of {', '.join(others)} use this SQLite database too, which is for one "
            "machine; move to Postgres.",
            field="database",
        )


def other_hosts(db: Database) -> list[str]:
    """Return the other machines whose workers are in the database."""
    from server.queue.fleet import list_workers

    own = socket.gethostname()
    return sorted({worker.host for worker in list_workers(db) if worker.host != own})
