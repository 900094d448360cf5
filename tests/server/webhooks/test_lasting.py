"""Deliveries outlast their processes: nothing is lost, and what is sent twice has one id."""

import subprocess
import sys
import threading

import pytest
from sqlalchemy import update

from server.database.tables import jobs
from server.queue.held import Held
from server.states import JobState
from server.webhooks.deliver import LEASE_SECONDS
from tests.server.conftest import url_of
from tests.server.queue.making import Scene
from tests.server.webhooks.posting import ALL, complete, deliver, endpoints, rows
from tests.server.webhooks.receiver import Receiver


def test_two_processes_send_each_message_once(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    for _ in range(6):
        complete(scene)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(deliver(scene))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 6
    assert len(set(receiver.ids)) == len(receiver.ids) == 6


@pytest.mark.parametrize(("newer", "older"), [(200, 500), (503, 200), (503, 500)])
def test_stale_result_is_not_written(
    scene: Scene, receiver: Receiver, newer: int, older: int
) -> None:
    """A process that slept past its lease must not undo what another wrote."""
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    complete(scene)
    receiver.answers = [newer, older]

    def meanwhile() -> None:
        receiver.before_answer = lambda: None
        scene.clock.forward(LEASE_SECONDS)
        assert deliver(scene) == 1

    receiver.before_answer = meanwhile
    assert deliver(scene) == 1
    assert receiver.answers == []
    assert len(set(receiver.ids)) == 1
    row = rows(scene)[0]
    assert (row["tries"], row["last_status"]) == (1, newer)
    assert row["state"] == ("delivered" if newer == 200 else "pending")


KILLED = """
import sys
from server.database import open_database
from server.settings import ServerSettings
from server.webhooks.deliver import deliver_due

deliver_due(open_database(sys.argv[1]), ServerSettings(webhook_private=True), lambda: 1.8e9)
"""


@pytest.mark.slow
def test_killed_between_sending_and_writing(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    complete(scene)
    hold = threading.Event()
    receiver.before_answer = lambda: hold.wait(60) and None
    child = subprocess.Popen([sys.executable, "-c", KILLED, url_of(scene.db)])
    try:
        assert receiver.came.wait(60)
    finally:
        child.kill()
        child.wait()
        hold.set()
    assert rows(scene)[0]["state"] == "pending"
    assert deliver(scene) == 0  # its lease holds
    scene.clock.forward(LEASE_SECONDS)
    assert deliver(scene) == 1
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1
    assert rows(scene)[0]["state"] == "delivered"


def test_announcing_is_part_of_the_transaction(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    scene.ask()
    held: Held = scene.claim()
    held.move(JobState.RUNNING)
    with scene.db.write() as connection:
        connection.execute(update(jobs).values(lease_epoch=99))
    with pytest.raises(BaseException, match="no longer has"):
        held.finish(JobState.COMPLETED)
    assert rows(scene) == []
