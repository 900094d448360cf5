"""Delivery: what is told, to whom, and how often."""

import json

import pytest

from server.database import Database
from server.inputs.dialling import Rules
from server.problems import Problem
from server.states import JobState
from server.webhooks.deliver import deliver_due
from tests.server.conftest import Clock
from tests.server.queue.making import Scene
from tests.server.webhooks.posting import ALL, complete, deliver, endpoints, rows, verify
from tests.server.webhooks.receiver import Receiver


def test_completed_job_is_told_and_verifies(scene: Scene, receiver: Receiver) -> None:
    made = endpoints(scene).create("a", "mine", receiver.url, ALL)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    job = complete(scene, traceparent=trace)
    assert deliver(scene) == 1
    assert deliver(scene) == 0
    (headers, body), *others = receiver.requests
    assert others == []
    assert headers["traceparent"] == trace
    assert headers["content-type"] == "application/json"
    event = json.loads(body)
    assert event["type"] == "video.completed"
    assert event["object"] == "event"
    assert event["created_at"] == int(scene.clock.now)
    assert event["data"]["id"] == job.id
    assert event["data"]["status"] == "completed"
    assert "red ball" not in body.decode()
    verify(made.secrets[0], headers, body)
    assert rows(scene)[0]["state"] == "delivered"


def test_only_who_asked_is_told(scene: Scene, receiver: Receiver) -> None:
    hooks = endpoints(scene)
    hooks.create("a", "failures", receiver.url, ["video.failed"])
    hooks.create("b", "other tenant", receiver.url, ALL)
    complete(scene)
    assert deliver(scene) == 0
    failing = scene.ask()
    held = scene.claim()
    held.move(JobState.RUNNING)
    error = Problem("out_of_memory", "It needs 9 GiB and 8 are free.").as_dict()
    held.finish(JobState.FAILED, error=error)
    assert deliver(scene) == 1
    event = json.loads(receiver.requests[0][1])
    assert (event["type"], event["data"]["id"]) == ("video.failed", failing.id)
    assert event["data"]["error"]["code"] == "out_of_memory"


def test_own_url_of_a_request(scene: Scene, receiver: Receiver) -> None:
    job = complete(scene, options={"webhook_url": receiver.url})
    assert deliver(scene) == 1
    headers, body = receiver.requests[0]
    secret = endpoints(scene).for_requests("a").secrets[0]
    assert secret == endpoints(scene).for_requests("a").secrets[0]
    assert secret != endpoints(scene).for_requests("b").secrets[0]
    assert json.loads(body)["data"]["id"] == job.id
    assert endpoints(scene).page("a")[0] == []
    verify(secret, headers, body)


def test_a_tenant_with_many_messages_does_not_keep_others_waiting(
    scene: Scene, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.webhooks.deliver._THREADS", 1)
    for number in range(5):
        endpoints(scene).create("a", str(number), receiver.url, ALL)
    other = endpoints(scene).create("b", "its only one", receiver.url, ALL)
    complete(scene)
    job = complete(scene, tenant="b")  # due after the five
    assert deliver(scene) == 6
    assert json.loads(receiver.requests[1][1])["data"]["id"] == job.id
    verify(other.secrets[0], *receiver.requests[1])


def test_retries_with_the_same_id_and_then_gives_up(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    receiver.answers = [500, 302, 404, 429, 503, 500, 500, 500]
    receiver.headers = {"Location": receiver.url}
    complete(scene)
    waits = []
    for _try in range(7):
        assert deliver(scene) == 1
        began = scene.clock.now
        wait = float(str(rows(scene)[0]["next_at"])) - began
        waits.append(wait)
        scene.clock.forward(wait - 1)
        assert deliver(scene) == 0
        scene.clock.forward(1)
    assert waits == [5, 300, 1800, 7200, 18000, 36000, 36000]
    assert deliver(scene) == 1
    scene.clock.forward(10**6)
    assert deliver(scene) == 0
    assert len(set(receiver.ids)) == 1
    assert len(receiver.ids) == 8  # no redirect was followed
    assert rows(scene)[0]["state"] == "failed"
    assert rows(scene)[0]["last_status"] == 500
    times = [int(headers["webhook-timestamp"]) for headers, _ in receiver.requests]
    assert times == sorted(set(times))
    assert len({body for _, body in receiver.requests}) == 1


def test_jitter_only_lengthens(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    receiver.answers = [500]
    complete(scene)
    deliver_due(scene.db, scene.settings, scene.clock, jitter=lambda: 1.0)
    assert rows(scene)[0]["next_at"] == scene.clock.now + 5.5


def test_410_disables(scene: Scene, receiver: Receiver) -> None:
    made = endpoints(scene).create("a", "mine", receiver.url, ALL)
    receiver.answers = [500, 410]
    complete(scene)
    complete(scene)
    deliver(scene, limit=1)
    deliver(scene)
    found = endpoints(scene).get(made.id, "a")
    assert found.disabled_at == scene.clock.now
    assert sorted(str(row["state"]) for row in rows(scene)) == ["dropped", "failed"]
    complete(scene)
    scene.clock.forward(10**6)
    assert deliver(scene) == 0
    again = endpoints(scene).update(made.id, "a", url=receiver.url)
    assert again.disabled_at is None


def test_rotation(scene: Scene, receiver: Receiver) -> None:
    hooks = endpoints(scene)
    made = hooks.create("a", "mine", receiver.url, ALL)
    rotated = hooks.rotate_secret(made.id, "a", keep_old=True)
    complete(scene)
    deliver(scene)
    verify(made.secrets[0], *receiver.requests[0])
    verify(rotated.secrets[0], *receiver.requests[0])
    scene.clock.forward(86401)
    complete(scene)
    deliver(scene)
    verify(rotated.secrets[0], *receiver.requests[1])
    with pytest.raises(AssertionError):
        verify(made.secrets[0], *receiver.requests[1])
    assert len(hooks.rotate_secret(made.id, "a", keep_old=False).secrets) == 1


def test_private_addresses_are_refused_at_each_try(
    database: Database, clock: Clock, receiver: Receiver
) -> None:
    scene = Scene(database, clock)
    scene.work()
    with pytest.raises(Problem, match="https://"):
        endpoints(scene).create("a", "mine", receiver.url, ALL)
    asked: list[str] = []

    def inside(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["10.0.0.1"]

    endpoints(scene).create("a", "mine", "https://hooks.example/x", ALL)
    complete(scene)
    rules = Rules(15, resolve=inside)
    deliver(scene, rules=rules)
    scene.clock.forward(5)
    deliver(scene, rules=rules)
    assert asked == ["hooks.example"] * 2
    assert "not public" in str(rows(scene)[0]["last_error"])
    assert "10.0.0.1" not in str(rows(scene)[0]["last_error"])
    assert rows(scene)[0]["tries"] == 2


def test_unreachable_and_long_answers(scene: Scene, receiver: Receiver) -> None:
    hooks = endpoints(scene)
    made = hooks.create("a", "mine", "http://127.0.0.1:1/", ALL)
    complete(scene)
    deliver(scene)
    assert "did not answer" in str(rows(scene)[0]["last_error"])
    hooks.update(made.id, "a", url=receiver.url)  # what waits goes to the new place
    receiver.body = b"x" * 50_000_000
    scene.clock.forward(5)
    assert deliver(scene) == 1
    assert receiver.cut_off.wait(30)
    assert rows(scene)[0]["state"] == "delivered"


def test_zero_retention_says_no_text(scene: Scene, receiver: Receiver) -> None:
    endpoints(scene).create("a", "mine", receiver.url, ALL)
    scene.ask(zdr=True)
    held = scene.claim()
    held.move(JobState.RUNNING)
    error = Problem("internal", "the prompt 'a red ball' broke it").as_dict()
    held.finish(JobState.FAILED, error=error)
    deliver(scene)
    body = receiver.requests[0][1]
    assert b"red ball" not in body
    assert json.loads(body)["data"]["error"] == {"code": "internal"}
