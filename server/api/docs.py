"""Docs: the parts of the OpenAPI document that cannot be read off the handlers' signatures."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from chaining.story import Story
from server.api.bodies import FORM, JSON, MULTIPART
from server.api.fields import Annotation, JobOptions
from server.api.references import MANY, ONE
from server.api.video import ErrorBody
from vidgen.request import VideoRequest, aliases_of, fields
from vidgen.request_names import SHORTHANDS

_OWN: tuple[type[BaseModel], ...] = (VideoRequest, Story, JobOptions, Annotation)
_REF = "#/components/schemas/{model}"
_TEXTS = {
    400: "The request is malformed; param names the field.",
    401: "No API key, or an unknown one.",
    403: "The key or the page may not do this.",
    404: "There is no such thing, or it is another tenant's.",
    409: "Its state does not allow this now.",
    410: "Its files have expired.",
    412: "It changed meanwhile.",
    413: "The body or a file in it is too large.",
    415: "A body of this type is not understood.",
    416: "The range is outside the file.",
    422: "The fields are legal and what they ask for cannot be made.",
    429: "Too much waits; Retry-After says when to try again.",
    500: "The server failed.",
    501: "This is not offered.",
    502: "The other side did not answer.",
    503: "Not ready; try again.",
    507: "The disk is full.",
}
_ALWAYS = (400, 401, 403, 500, 503)
CREATES = (404, 409, 410, 413, 415, 422, 429, 507)


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the documented refusals of a route: those that each has, and these."""
    wanted = sorted({*_ALWAYS, *codes})
    return {code: {"model": ErrorBody, "description": _TEXTS[code]} for code in wanted}


def header(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a header that a route reads."""
    return {"name": name, "in": "header", "required": False, "description": description,
            "schema": schema}  # fmt: skip


def body(
    name: str,
    *,
    required: bool = True,
    forms: bool = True,
    headers: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return `openapi_extra` of a route that reads a body of a named schema, and headers."""
    ref = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    content: dict[str, Any] = {JSON: ref}
    if forms:
        content |= {FORM: ref, MULTIPART: ref}
    found = {"requestBody": {"required": required, "content": content}}
    return found | ({"parameters": list(headers)} if headers else {})


def add_document(app: FastAPI, models: Sequence[type[BaseModel]]) -> None:
    """Let an app give its OpenAPI document, made once.

    models  of further bodies
    """

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                separate_input_output_schemas=False,
            )
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            schemas |= body_schemas(models)
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            _tidy(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _tidy(made: dict[str, Any]) -> None:
    """Leave out the refusals that the framework adds and this server words itself; add the key."""
    for path in made["paths"].values():
        for operation in path.values():
            found = operation["responses"].get("422", {})
            if "HTTPValidationError" in str(found.get("content")):
                del operation["responses"]["422"]
    made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"key": []}, {}]


def body_schemas(models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    """Return the schemas of all bodies, derived from the models that read them."""
    made: dict[str, Any] = {}
    _, found = models_json_schema(
        [(model, "validation") for model in (*_OWN, *models)],
        ref_template=_REF,
    )
    made |= found["$defs"]
    request, options = made["VideoRequest"], made["JobOptions"]
    _add_references(request)
    whole = request["properties"] | _other_names(request) | options["properties"]
    made["VideoCreate"] = _object(
        whole | {"story": {"$ref": _REF.format(model="Story")}},
        anyOf=[{"required": ["prompt"]}, {"required": ["story"]}],
    )
    made["StoryboardCreate"] = _object(
        made["Story"]["properties"] | options["properties"], required=["shots"]
    )
    made["VideoRemix"] = _object(whole, required=["prompt"])
    made["VideoEdit"] = _object(whole, required=["prompt", "video"])
    made["VideoExtend"] = _object(
        whole
        | {name: made["Story"]["properties"][name] for name in ("strategy", "handover", "controls")}
        | {"shots": made["Story"]["properties"]["shots"]},
        required=["video"],
    )
    made["VideoFork"] = _object(
        whole
        | {
            "from_clip": {
                "type": "integer",
                "minimum": 0,
                "description": "Clips before this one, in the order of making, are taken over.",
            },
            "story": {"type": "object", "description": "Changed fields of the story."},
        }
    )
    made["VideoPatch"] = _object(whole | {"story": made["VideoCreate"]["properties"]["story"]})
    return made


def _object(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(sorted(deepcopy(dict(properties)).items())),
        "additionalProperties": False,
        **more,
    }


def _add_references(request: dict[str, Any]) -> None:
    """Say how files are named over HTTP, in place of the command line's words."""
    text = (
        " Over HTTP: an upload's id, a data URL, the id of a finished video of yours, a file of a "
        "form or, where the server allows it, an https URL."
    )
    for name in (*ONE, *MANY):
        request["properties"][name]["description"] += text


def _other_names(request: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, info in fields().items():
        for alias in aliases_of(info):
            found[alias] = {**request["properties"][name], "description": f"The same as {name}."}
    words = {
        "size": {"type": "string", "description": "WIDTHxHEIGHT, e.g. 832x480."},
        "target_shape": {
            "type": "array", "items": {"type": "integer"}, "description": "[height, width].",
        },
        "resolution": {"type": "string", "description": "E.g. 480p, alone or with aspect."},
        "res": {"type": "string", "description": "The same as resolution."},
    }  # fmt: skip
    assert set(words) == set(SHORTHANDS)
    return found | words
