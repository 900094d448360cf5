"""A receiver of webhooks, and a scene whose webhooks may go to it."""

from collections.abc import Iterator

import pytest

from server.database import Database
from tests.server.conftest import Clock
from tests.server.queue.making import Scene
from tests.server.webhooks.receiver import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def scene(database: Database, clock: Clock) -> Scene:
    made = Scene(database, clock, webhook_private=True)
    made.work()
    return made
