"""A shop floor on each kind of database."""

from pathlib import Path

import pytest

from server.database import Database
from tests.server.worker.floor import Floor


@pytest.fixture
def floor(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Floor:
    """Return a floor; calls of the fake renderer in this process are noted too."""
    made = Floor(database, tmp_path / "home")
    monkeypatch.setenv("VIDGEN_FAKE_CALLS", str(made.calls_file))
    return made
