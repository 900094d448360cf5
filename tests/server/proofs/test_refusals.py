"""A body with one bad field: every operation that reads a body refuses it and names the field."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.database import open_database
from tests.server.api.site import Site, story
from tests.server.proofs.stock import HOOK
from vidgen.request import aliases_of, fields

pytestmark = pytest.mark.slow

WRONG = {"is": ["wrong"]}  # of no field the value
_SHOTS = story("a")["shots"]


def whole(site: Site) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return path and body, as small as can be, of every operation that reads JSON."""
    made, waiting = site.make()["id"], site.created()["id"]
    board = site.http.post("/v1/storyboards", json=story("a", "b")).json()["id"]
    point = site.http.post("/v1/webhook_endpoints", json=HOOK).json()["id"]
    video, endpoint = f"/v1/videos/{waiting}", f"/v1/webhook_endpoints/{point}"
    return {
        "createVideo": ("/v1/videos", {"prompt": "x"}),
        "estimateVideo": ("/v1/videos/estimate", {"prompt": "x"}),
        "changeVideo": (video, {}),
        "remixVideo": (f"/v1/videos/{made}/remix", {"prompt": "x"}),
        "editVideo": ("/v1/videos/edits", {"prompt": "x", "video": made}),
        "extendVideo": ("/v1/videos/extensions", {"prompt": "x", "seconds": 1, "video": made}),
        "forkVideo": (f"/v1/videos/{made}/fork", {}),
        "annotateVideo": (f"{video}/annotate", {}),
        "moveVideo": (f"{video}/move", {}),
        "holdVideo": (f"{video}/hold", {}),
        "createStoryboard": ("/v1/storyboards", {"shots": _SHOTS}),
        "rerollCard": (f"/v1/storyboards/{board}/cards/0/reroll", {}),
        "renderStoryboard": (f"/v1/storyboards/{board}/render", {}),
        "createWebhookEndpoint": ("/v1/webhook_endpoints", HOOK),
        "updateWebhookEndpoint": (endpoint, {}),
        "rotateWebhookSecret": (f"{endpoint}/rotate_secret", {}),
        "testWebhookEndpoint": (f"{endpoint}/test", {"event_type": "video.completed"}),
        "createKey": ("/v1/keys", {"name": "n"}),
        "updateTenant": ("/v1/tenants/default", {}),
    }


@pytest.fixture
def site(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    """Return the API with a worker."""
    path = tmp_path / "vidgen.db"
    shutil.copyfile(sqlite_template, path)
    db = open_database(f"sqlite:///{path}")
    made = Site(db, tmp_path / "home", webhook_private=True)
    made.worker()
    yield made
    db.close()


@pytest.fixture
def readers(site: Site) -> dict[str, tuple[str, str, dict[str, Any], list[str]]]:
    """Return method, path, body and the fields of every operation that reads JSON."""
    document = site.http.get("/openapi.json").json()
    known = whole(site)
    found = {}
    for operations in document["paths"].values():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            name = operation["operationId"]
            schema = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            names = set(document["components"]["schemas"][schema]["properties"])
            if name != "createVideo":  # what a name means is the same everywhere
                names -= meanings().keys() - fields().keys()
            found[name] = (method, *known.pop(name), sorted(names))
    assert not known
    return found


def meanings() -> dict[str, str]:
    """Return the field that each name of a clip's fields means."""
    found = {name: field for field, info in fields().items() for name in (field, *aliases_of(info))}
    return {**found, "res": "resolution"}


def bad_bodies(body: dict[str, Any], names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield bodies in which one field is wrong, each field in turn, and one that is none."""
    known = meanings()
    for name in (*names, "promt"):
        instead = {"story": ("prompt",), "shots": ("prompt", "seconds")}.get(name, ())
        rest = {key: value for key, value in body.items()
                if key not in instead and known.get(key) != known.get(name, name)}  # fmt: skip
        yield name, {**rest, name: WRONG}


def test_a_wrong_field_is_named(site: Site, readers: Any) -> None:
    known = meanings()
    unnamed = []
    for operation, (method, path, body, names) in readers.items():
        for name, bad in bad_bodies(body, names):
            answer = site.http.request(method, path, json=bad)
            error = answer.json().get("error") or {}
            param = error.get("param")
            if answer.status_code not in (400, 422) or param not in (name, known.get(name, name)):
                unnamed.append((operation, name, answer.status_code, param, error.get("message")))
    assert unnamed == [], "\n".join(map(str, unnamed))


def test_a_wrong_field_of_a_form_is_named(site: Site, readers: Any) -> None:
    """What comes as text is as wrong, and a file where none belongs."""
    for name, text in (
        ("size", "tall"), ("seconds", "soon"), ("steps", "0"), ("seed", "x"), ("res", "2p"),
        ("guidance_scale", "nan"), ("tags", "["), ("priority", "9"), ("fps", "1/0"),
    ):  # fmt: skip
        answer = site.http.post("/v1/videos", data={"prompt": "x", name: text})
        error = answer.json()["error"]
        assert answer.status_code in (400, 422), (name, error)
        assert error["param"] in (name, meanings().get(name, name)), error
        assert error["param"] in error["message"]
    for name in ("prompt", "fps"):
        form = {"prompt": "x"} if name != "prompt" else {}
        file = {name: ("a.png", b"x", "image/png")}
        answer = site.http.post("/v1/videos", data=form, files=file)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


def test_a_good_story_is_refused_where_none_can_be(site: Site) -> None:
    """A clip has no story to be changed, and is not made again as if none had been told."""
    made, waiting = site.make()["id"], site.created()["id"]
    told = {"story": story("a", "b")}
    for method, path in (
        ("post", f"{made}/fork"), ("post", f"{made}/remix"), ("patch", waiting),
    ):  # fmt: skip
        answer = site.http.request(method, f"/v1/videos/{path}", json=told)
        assert (answer.status_code, answer.json()["error"]["param"]) == (422, "story"), path
