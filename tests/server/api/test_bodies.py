"""Bodies: three encodings of one request are one request."""

import asyncio
import io
import json
from typing import Any

import pytest
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.requests import Request
from starlette.types import Message

from server.api.bodies import body_hash, check_texts, read_body, unflatten
from server.problems import Problem
from tests.server.api.site import Site


def test_flat_names_become_what_they_were() -> None:
    form = FormData([
        ("prompt", "[not json] {either}"), ("chain[clips]", "3"), ("steer[]", "a"),
        ("steer[]", "b"), ("shots[0][prompt]", "x"), ("shots[0][seconds]", "2"),
        ("shots[1][prompt]", "y"), ("cards[][a]", "1"), ("cards[][b]", "2"), ("cards[][a]", "3"),
    ])  # fmt: skip
    assert unflatten(form) == {
        "prompt": "[not json] {either}",
        "chain": {"clips": "3"},
        "steer": ["a", "b"],
        "shots": [{"prompt": "x", "seconds": "2"}, {"prompt": "y"}],
        "cards": [{"a": "1", "b": "2"}, {"a": "3"}],
    }


@pytest.mark.parametrize(
    "items",
    [
        [("a", "1"), ("a", "2")],
        [("a", "1"), ("a[b]", "2")],
        [("a[b]", "1"), ("a", "2")],
        [("[a]", "1")],
        [("a[b", "1")],
        [("a" + "[b]" * 40, "1")],
    ],
)
def test_names_that_contradict_are_refused(items: list[tuple[str, str]]) -> None:
    with pytest.raises(Problem) as caught:
        unflatten(FormData(items))
    assert caught.value.code == "invalid_request"


def test_texts_that_no_database_holds_are_refused_by_name() -> None:
    for value in ({"a": {"b": "x\0"}}, {"a": ["\ud800"]}, {"a": {"\0": 1}}):
        with pytest.raises(Problem) as caught:
            check_texts(value)
        assert caught.value.param == "a"


def _file(content: bytes, name: str) -> UploadFile:
    return UploadFile(io.BytesIO(content), filename=name, headers=Headers())


def test_a_hash_is_of_fields_and_contents_not_of_encoding() -> None:
    one = body_hash({"prompt": "x", "image": _file(b"abc", "1.png"), "seed": 1})
    two = body_hash({"seed": 1, "image": _file(b"abc", "2.png"), "prompt": "x"})
    assert one == two
    assert one != body_hash({"seed": 1, "image": _file(b"abd", "1.png"), "prompt": "x"})
    assert one != body_hash({"seed": 2, "image": _file(b"abc", "1.png"), "prompt": "x"})


@pytest.mark.parametrize("how", ["json", "form", "multipart"])
def test_the_same_request_in_each_encoding(site: Site, how: str) -> None:
    fields = {"prompt": "a ball", "seed": "5", "tags[]": "t", "metadata[k]": "v"}
    if how == "json":
        sent = {"json": {"prompt": "a ball", "seed": 5, "tags": ["t"], "metadata": {"k": "v"}}}
    elif how == "form":
        sent = {"data": fields}
    else:
        sent = {"files": [(name, (None, value)) for name, value in fields.items()]}  # type: ignore[dict-item]
    made = site.http.post("/v1/videos", **sent).json()
    assert (made["seed"], made["tags"]) == (5, ["t"])
    assert made["options"]["metadata"] == {"k": "v"}
    assert made["request"] == {"prompt": "a ball", "seed": 5}


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"prompt": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"x", "text/plain", 415),
        (b"x", "application/xml", 415),
        (b"junk", "multipart/form-data", 400),
        (b"junk", "multipart/form-data; boundary=x", 400),
        (b"", "application/json", 400),
        (b'{"prompt": "a", "prompt": "b"}', "application/json", 400),
        (b'{"prompt": "a", "metadata": {"k": "1", "k": "2"}}', "application/json", 400),
    ],
)
def test_bodies_that_are_none(site: Site, content: bytes, kind: str, status: int) -> None:
    answer = site.http.post("/v1/videos", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_a_file_where_text_belongs_is_named(site: Site) -> None:
    files = {"title": ("a.png", b"x", "image/png")}
    answer = site.http.post("/v1/videos", data={"prompt": "a"}, files=files)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "title takes no file; send it as text."


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metadata": {"k": "x" * 513}}, "metadata.k"),
        ({"metadata": {"k" * 65: "x"}}, "must have at most 64 characters"),
        ({"tags": ["x" * 65]}, "tags.0"),
        ({"loras": [{"path": 1}] * 3000}, "; and 2996 more."),
    ],
)
def test_what_is_kept_is_bounded_and_so_are_refusals(
    site: Site, fields: dict[str, Any], said: str
) -> None:
    answer = site.http.post("/v1/videos", json={"prompt": "a", **fields})
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    assert said in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limt=2", "Unknown query parameter 'limt'; did you mean limit?"),
        ("limit=2&limit=3", "limit is given twice."),
        ("&".join(f"tag={n}" for n in range(33)), "tag="),
    ],
)
def test_query_parameters_are_heard_or_refused(site: Site, query: str, said: str) -> None:
    answer = site.http.get(f"/v1/videos?{query}")
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert site.http.get("/v1/videos?state=queued&state=held&tag=a&tag=b").status_code == 200


@pytest.mark.parametrize("path", ["/v1/videos", "/v1/videos/estimate"])
def test_a_webhook_that_cannot_be_sent_is_refused_at_once(site: Site, path: str) -> None:
    answer = site.http.post(path, json={"prompt": "a", "webhook_url": "x"})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "webhook_url"


def test_a_body_that_breaks_off_is_no_fault_of_the_server() -> None:
    async def broken() -> Message:
        return {"type": "http.disconnect"}

    head = [(b"content-type", b"application/json"), (b"content-length", b"5000")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": head, "query_string": b""}
    with pytest.raises(Problem, match="broke off before its end"):
        asyncio.run(read_body(Request(scope, broken)))


def test_a_story_can_come_as_json_text_in_a_form(site: Site) -> None:
    text = json.dumps({"shots": [{"prompt": "a", "seconds": 1}]})
    made = site.http.post("/v1/videos", data={"story": text}).json()
    assert made["kind"] == "chain"
    broken = site.http.post("/v1/videos", data={"story": "{"})
    assert (broken.status_code, broken.json()["error"]["param"]) == (400, "story")
