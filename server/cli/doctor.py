"""The server's part of `vidgen doctor`: its database, store, disk and workers."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from server.cli import places
from server.cli.places import other_hosts, sqlite_path, tried
from server.cli.settings import gather_settings
from server.database import Database, open_database
from server.database.migrate import newest
from server.queue.fleet import list_workers
from server.queue.worker import LIVE
from server.settings import ServerSettings, masked
from server.store import open_store
from vidgen.cli.doctor import Check
from vidgen.cli.options import Common
from vidgen.cli.place import home_of
from vidgen.errors import VidgenError

DATABASE, STORE, DISK, WORKERS = (
    f"server {part}" for part in ("database", "store", "disk", "workers")
)


def checks(common: Common) -> Iterator[Check]:
    """Yield what is found; nothing is made or changed."""
    settings, _ = gather_settings({}, common)
    settings = settings.with_home(home_of(common).root.absolute())
    path = sqlite_path(settings.database)
    if path is not None and not path.is_file():
        yield _new(path)
    else:
        yield from _database(settings, path)
    yield _tried(STORE, lambda: _store(settings))
    yield _disk(settings)


def _new(path: Path) -> Check:
    kind = places.network_disk(path)
    if kind is None:
        return Check(DATABASE, "note", f"{path} is not made yet; vidgen serve makes it")
    return Check(DATABASE, "fault", _on_network(path, kind))


def _on_network(path: Path, kind: str) -> str:
    return f"{path} is on a network disk ({kind}), where SQLite's locks do not hold; move it"


def _tried(name: str, test: Callable[[], Check]) -> Check:
    try:
        return test()
    except (VidgenError, OSError) as error:
        return Check(name, "fault", masked(" ".join(str(error).split())))


def _database(settings: ServerSettings, path: Path | None) -> Iterator[Check]:
    try:
        db = open_database(settings.database)
        step = tried(db)
    except VidgenError as error:
        yield Check(DATABASE, "fault", error.message)
        return
    with db.engine.connect() as connection:
        version = ".".join(map(str, connection.dialect.server_version_info or ()))
    what = f"{db.url.get_backend_name()} {version}, {masked(settings.database)}, step {step}"
    kind = None if path is None else places.network_disk(path)
    others = other_hosts(db) if path is not None and step == newest() else []
    if kind is not None and path is not None:
        yield Check(DATABASE, "fault", _on_network(path, kind))
    elif others:
        text = f"{what}; workers of {', '.join(others)} use it too: SQLite is for one machine"
        yield Check(DATABASE, "fault", text)
    elif step != newest():
        text = f"{what}; this version works with step {newest()}, to which vidgen serve brings it"
        yield Check(DATABASE, "note", text)
    else:
        yield Check(DATABASE, "ok", what)
        yield _workers(db, settings)
    db.close()


def _workers(db: Database, settings: ServerSettings) -> Check:
    live = [worker for worker in list_workers(db) if worker.state in LIVE]
    before = time.time() - settings.lease_seconds
    silent = [worker.id for worker in live if worker.heartbeat_at < before]
    if silent:
        text = f"{len(silent)} of {len(live)} are silent: {', '.join(silent)}"
        return Check(WORKERS, "note", text)
    return Check(WORKERS, "ok" if live else "note", f"{len(live)} running")


def _store(settings: ServerSettings) -> Check:
    store = open_store(settings)
    next(store.keys("jobs/"), None)  # it can be read
    return Check(STORE, "ok", masked(settings.store))


def _disk(settings: ServerSettings) -> Check:
    place = Path(settings.work)
    while not place.exists():
        place = place.parent
    free, least = shutil.disk_usage(place).free, settings.disk_reserve_mib * 2**20
    text = f"{free / 2**30:.1f} GiB free where jobs are made ({settings.work})"
    if free < least:
        return Check(DISK, "fault", f"{text}; new jobs are refused below {least / 2**30:.1f} GiB")
    return Check(DISK, "ok", text)
