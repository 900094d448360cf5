"""Endpoints: each tenant has its own."""

import pytest

from server.database import Database
from server.problems import Problem
from server.webhooks.endpoints import MAX_ENDPOINTS, Endpoints, requests_id
from tests.server.conftest import Clock
from tests.server.queue.making import Scene
from tests.server.webhooks.receiver import receiving

URL = "https://hooks.example/x"
DONE = ["video.completed"]


@pytest.fixture
def hooks(database: Database, clock: Clock) -> Endpoints:
    scene = Scene(database, clock)
    return Endpoints(database, scene.settings, clock)


def refused(code: str, function, *arguments, **named) -> Problem:  # type: ignore[no-untyped-def]
    with pytest.raises(Problem) as caught:
        function(*arguments, **named)
    assert caught.value.code == code
    return caught.value


def test_life_of_an_endpoint(hooks: Endpoints) -> None:
    made = hooks.create("a", "mine", URL, [*DONE, *DONE])
    assert made.event_types == ("video.completed",)
    assert made.secrets[0].startswith("whsec_")
    assert made.secrets[0] not in repr(made)
    assert hooks.get(made.id, "a") == made
    changed = hooks.update(made.id, "a", name="ours", event_types=["video.failed"])
    assert (changed.name, changed.url, changed.event_types) == ("ours", URL, ("video.failed",))
    assert hooks.update(made.id, "a") == changed
    for call in (
        lambda: hooks.get(made.id, "b"),
        lambda: hooks.update(made.id, "b", name="x"),
        lambda: hooks.rotate_secret(made.id, "b", keep_old=True),
        lambda: hooks.test(made.id, "b", "video.completed"),
        lambda: hooks.delete(made.id, "b"),
    ):
        refused("not_found", call)
    hooks.delete(made.id, "a")
    refused("not_found", hooks.get, made.id, "a")
    refused("not_found", hooks.delete, made.id, "a")


def test_an_address_that_is_never_served_is_refused_at_once(hooks: Endpoints) -> None:
    for host in ("127.0.0.1", "[::1]", "10.1.2.3", "169.254.169.254"):
        found = refused("invalid_request", hooks.create, "a", "x", f"https://{host}/x", DONE)
        assert "leads to an address that is not public" in found.message


def test_pages(hooks: Endpoints) -> None:
    hooks.for_requests("a")
    made = sorted((hooks.create("a", str(n), URL, DONE).id for n in range(5)), reverse=True)
    hooks.create("b", "other", URL, DONE)
    first, more = hooks.page("a", limit=3)
    assert ([found.id for found in first], more) == (made[:3], True)
    rest, more = hooks.page("a", after=made[2], limit=3)
    assert ([found.id for found in rest], more) == (made[3:], False)


@pytest.mark.parametrize(
    "url",
    ["http://hooks.example/", "ftp://x/", "https://", "https://u:p@x/", "https://x:0/",
     "https://x y/", "https://x:99999/", "https://x/\\y", "javascript:alert(1)", "", "https://é.example/",
     "https://x/" + "y" * 2048],
)  # fmt: skip
def test_urls_that_are_none(hooks: Endpoints, url: str) -> None:
    assert refused("invalid_request", hooks.create, "a", "x", url, DONE).param == "url"


def test_event_types_that_are_none(hooks: Endpoints) -> None:
    for types in ([], ["batch.completed"], ["video.completed", "video.started"]):
        problem = refused("invalid_request", hooks.create, "a", "x", URL, types)
        assert "video.cancelled" in problem.message


def test_there_is_a_bound(hooks: Endpoints) -> None:
    for number in range(MAX_ENDPOINTS):
        hooks.create("a", str(number), URL, DONE)
    refused("quota_exceeded", hooks.create, "a", "one more", URL, DONE)
    hooks.create("b", "another tenant's", URL, DONE)


def test_the_secret_of_requests_rotates_but_is_no_endpoint(hooks: Endpoints) -> None:
    first = hooks.for_requests("a")
    rotated = hooks.rotate_secret(requests_id("a"), "a", keep_old=True)
    assert rotated.secrets == (rotated.secrets[0], first.secrets[0])
    assert hooks.for_requests("a").secrets == rotated.secrets
    refused("not_found", hooks.delete, requests_id("a"), "a")
    refused("not_found", hooks.update, requests_id("a"), "a", url=URL)


def test_sample_event(database: Database, clock: Clock) -> None:
    scene = Scene(database, clock, webhook_private=True)
    hooks = Endpoints(database, scene.settings, clock)
    with receiving() as receiver:
        made = hooks.create("a", "mine", receiver.url, DONE)
        receiver.answers = [200, 503]
        answer = hooks.test(made.id, "a", "video.failed")
        assert (answer.status, answer.accepted) == (200, True)
        answer = hooks.test(made.id, "a", "video.failed")
        assert (answer.status, answer.accepted) == (503, False)
        assert b'"type":"video.failed"' in receiver.requests[0][1]
        refused("invalid_request", hooks.test, made.id, "a", "batch.failed")
    refused("unprocessable", hooks.test, made.id, "a", "video.failed")
