"""What the server's tests share: a migrated database, on SQLite and on Postgres, and a clock."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.database import Database, open_database
from server.database.migrate import migrate
from tests.server.postgres import Cluster, postgres_binaries

BACKENDS = ("sqlite", "postgres")


def migrated(url: str) -> Database:
    """Open a database and bring it up to date."""
    db = open_database(url)
    migrate(db)
    return db


def url_of(db: Database) -> str:
    """Return the URL with which another process opens the same database."""
    return db.url.render_as_string(hide_password=False)


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Start a Postgres cluster; skip where none is installed."""
    binaries = postgres_binaries()
    if binaries is None:
        pytest.skip("needs Postgres (apt-get install postgresql)")
    running = Cluster(binaries)
    yield running
    running.remove()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a migrated, empty file to copy."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    db = migrated(f"sqlite:///{path}")
    with db.engine.connect() as connection:
        connection.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path


@pytest.fixture(scope="session")
def postgres_template(cluster: Cluster) -> str:
    """Return the name of a migrated, empty database to copy."""
    name = cluster.create()
    migrated(cluster.url(name)).close()
    return name


@pytest.fixture(params=BACKENDS)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database without tables, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    name = cluster.create()
    yield cluster.url(name)
    cluster.drop(name)


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Return a migrated, empty database, of each kind in turn."""
    if request.param == "sqlite":
        path = tmp_path / "vidgen.db"
        shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
        db = open_database(f"sqlite:///{path}")
        yield db
        db.close()
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    name = cluster.create(request.getfixturevalue("postgres_template"))
    db = open_database(cluster.url(name))
    yield db
    db.close()
    cluster.drop(name)
