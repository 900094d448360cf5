"""Bodies: three encodings of one request are one request."""

import io
import json

import pytest
from starlette.datastructures import FormData, Headers, UploadFile

from server.api.bodies import body_hash, check_texts, unflatten
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
    ],
)
def test_bodies_that_are_none(site: Site, content: bytes, kind: str, status: int) -> None:
    answer = site.http.post("/v1/videos", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


def test_a_story_can_come_as_json_text_in_a_form(site: Site) -> None:
    text = json.dumps({"shots": [{"prompt": "a", "seconds": 1}]})
    made = site.http.post("/v1/videos", data={"story": text}).json()
    assert made["kind"] == "chain"
    broken = site.http.post("/v1/videos", data={"story": "{"})
    assert (broken.status_code, broken.json()["error"]["param"]) == (400, "story")
