"""What the API's tests share."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.database import Database, open_database
from tests.server.api.site import Site


@pytest.fixture
def sqlite(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """Return a migrated, empty database in a file."""
    path = tmp_path / "vidgen.db"
    shutil.copyfile(sqlite_template, path)
    db = open_database(f"sqlite:///{path}")
    yield db
    db.close()


@pytest.fixture
def site(sqlite: Database, tmp_path: Path) -> Site:
    """Return the API over SQLite; its loops do not run."""
    return Site(sqlite, tmp_path / "home")


@pytest.fixture
def both(database: Database, tmp_path: Path) -> Site:
    """Return the API over each kind of database in turn."""
    return Site(database, tmp_path / "home")
