"""The OpenAPI document: complete, and made of the models that read the bodies."""

import json
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from server.api.fields import JobOptions
from tests.server.api.site import Site
from vidgen.request import aliases_of, fields


@pytest.fixture
def document(site: Site) -> dict[str, Any]:
    return dict(site.http.get("/openapi.json").json())


def test_each_field_of_a_request_is_in_the_document(document: dict[str, Any]) -> None:
    create = document["components"]["schemas"]["VideoCreate"]["properties"]
    for name, info in fields().items():
        assert info.description
        assert create[name]["description"].startswith(info.description), name
        for alias in aliases_of(info):
            assert create[alias]["description"] == f"The same as {name}."
    assert set(JobOptions.model_fields) < set(create)
    assert "story" in create
    assert document["components"]["schemas"]["VideoCreate"]["additionalProperties"] is False


def test_a_new_field_needs_no_other_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that the request declares appears in the list that forms are made from."""
    names = [item["name"] for item in site.http.get("/v1/fields").json()["data"]]
    assert names == list(fields())
    first = site.http.get("/v1/fields").json()["data"][0]
    assert set(first) == {
        "name", "group", "aliases", "required", "description", "schema",
    }  # fmt: skip
    assert isinstance(next(iter(fields().values())), FieldInfo)


def test_references_lead_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    for part in text.split('"$ref": "')[1:]:
        name = part.split('"')[0]
        assert name.startswith("#/components/schemas/"), name
        assert name.rpartition("/")[2] in schemas, name


def test_each_operation_says_what_it_refuses(document: dict[str, Any]) -> None:
    ids = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            ids.append(operation["operationId"])
            assert operation["summary"], path
            codes = set(operation["responses"])
            if path.startswith("/v1/"):
                assert {"400", "401", "403", "500", "503"} <= codes, (path, method)
            if "{" in path and "characters" not in path:
                assert "404" in codes, (path, method)
            if "requestBody" in operation:
                assert {"413", "415"} <= codes, (path, method)
            for code in codes - {"200", "202", "204", "206", "304"}:
                if path.startswith("/v1/"):
                    content = operation["responses"][code]["content"]["application/json"]
                    assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
    assert len(ids) == len(set(ids))
    assert "HTTPValidationError" not in json.dumps(document)


def test_what_is_answered_is_what_is_documented(site: Site, document: dict[str, Any]) -> None:
    """Of every GET route without a parameter, and of one job: the status is in the document."""
    site.worker()
    video = site.make()["id"]
    for path, operations in document["paths"].items():
        if "get" not in operations or path == "/v1/events":
            continue
        for value in (video, "video_0", "x"):
            url = path.replace("{video_id}", value)
            for name in ("upload_id", "endpoint_id", "board_id", "model", "number"):
                url = url.replace(f"{{{name}}}", value)
            url = url.replace("{character_id}", value)
            answer = site.http.get(url, headers={"Last-Event-ID": "999999"})
            assert str(answer.status_code) in operations["get"]["responses"], (url, answer.text)
            assert answer.status_code in (200, 204, 400, 404, 409, 501), (url, answer.text)


def test_headers_that_are_read_are_in_the_document(document: dict[str, Any]) -> None:
    found: dict[str, set[str]] = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            for item in operation.get("parameters", ()):
                if item["in"] == "header":
                    found.setdefault(item["name"], set()).add(operation["operationId"])
    assert found == {
        "Idempotency-Key": {
            "createVideo", "remixVideo", "editVideo", "extendVideo", "forkVideo",
            "createStoryboard", "rerollCard", "renderStoryboard",
        },
        "Prefer": {"createVideo"},
        "Last-Event-ID": {"getVideoEvents", "getEvents"},
    }  # fmt: skip
