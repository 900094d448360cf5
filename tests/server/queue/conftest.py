"""A scene for each test of the queue."""

import pytest

from server.database import Database
from tests.server.conftest import Clock
from tests.server.queue.making import Scene


@pytest.fixture
def scene(database: Database, clock: Clock) -> Scene:
    """Return a database with tenants a and b and nothing else."""
    return Scene(database, clock)
