"""Fields: the server's own fields of a body, and which of all names means what.

The fields of a clip are those of VideoRequest and the fields of a long video those of Story; none
is declared again here.
"""

import difflib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, ValidationError
from starlette.datastructures import UploadFile

from chaining.story import Story
from server.problems import Problem
from vidgen.errors import BadRequest
from vidgen.request import aliases_of, fields
from vidgen.request_names import SHORTHANDS, explain
from vidgen.request_values import Untrusted

MOST_TAGS = 32
Tag = Annotated[str, Field(min_length=1, max_length=64)]


class JobOptions(Untrusted):
    """What a client can say of a job beside the video itself."""

    webhook_url: str | None = Field(
        None, description="Where to post the end of this job.", max_length=2048, min_length=1
    )
    priority: int = Field(
        0, description="Among your own jobs: 1 high, 0 normal, -1 low.", ge=-1, le=1
    )
    pool: str | None = Field(
        None, description="Pool of workers.", pattern=r"^[a-z0-9-]{1,64}$", max_length=64
    )
    max_queue_s: float | None = Field(
        None, description="Give up when it has not begun by then.", gt=0, le=30 * 86400
    )
    cancel_after_s: float | None = Field(
        None, description="Stop it when it has run for so long.", gt=0, le=30 * 86400
    )
    retention_s: float | None = Field(
        None, description="How long the result is kept.", ge=60, le=366 * 86400
    )
    zdr: bool = Field(
        False,
        description="Keep nothing: the request is encrypted, there are no previews, and all is "
        "destroyed after one download or an hour.",
    )
    title: str | None = Field(None, description="Title in the library.", max_length=512)
    tags: tuple[Tag, ...] = Field((), description="Tags in the library.", max_length=MOST_TAGS)
    hold: bool = Field(False, description="Create it paused; resume starts it.")
    metadata: dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]] = (
        Field(
            default_factory=dict, description="Your own notes, returned as they are.", max_length=16
        )
    )


class Annotation(Untrusted):
    """What the library says of a job; a field that is left out stays."""

    title: str | None = Field(None, description="Title; null removes it.", max_length=512)
    tags: tuple[Tag, ...] = Field((), description="All tags.", max_length=MOST_TAGS)
    starred: bool = Field(False, description="Whether it has a star.")


class KeyCreate(Untrusted):
    """A key to be made."""

    tenant: str = Field("default", pattern=r"^[A-Za-z0-9._-]{1,64}$", max_length=64)
    name: str = Field(min_length=1, max_length=256)
    scopes: tuple[str, ...] = Field(("create", "read"), min_length=1, max_length=3)
    models: tuple[str, ...] | None = Field(None, min_length=1, max_length=100)


class TenantUpdate(Untrusted):
    """What changes of a tenant; null takes a bound away, and name and weight are never null."""

    name: str = Field("", min_length=1, max_length=256)
    weight: float = Field(1.0, ge=1e-3, le=1e3)
    max_queued: int | None = Field(None, ge=0, le=10**6)
    max_running: int | None = Field(None, ge=1, le=10**6)
    gpu_seconds_per_day: float | None = Field(None, ge=0, le=1e12)
    budget_per_month: float | None = Field(None, ge=0, le=1e12)


@dataclass(frozen=True, slots=True)
class Asked:
    """A body, sorted.

    request  fields of a clip by the names they came under; empty when there is a story
    story    fields of a story, None without
    options  the server's own
    """

    request: dict[str, Any]
    story: dict[str, Any] | None
    options: JobOptions


def request_names() -> list[str]:
    """Return every name under which a field of a clip is accepted."""
    names = [name for found, info in fields().items() for name in (found, *aliases_of(info))]
    return [*names, *SHORTHANDS]


def _lists() -> frozenset[str]:
    """Return the fields that hold a list, under all their names."""
    several = [(name, info) for name, info in fields().items() if info.default == ()]
    names = [name for found, info in several for name in (found, *aliases_of(info))]
    return frozenset(
        [*names, *(name for name, i in JobOptions.model_fields.items() if i.default == ())]
    )


_REQUEST_NAMES = request_names()
_OWN = tuple(JobOptions.model_fields)
_STORY = tuple(Story.model_fields)
_LISTS = _lists()
# In a form these come as JSON, as nested names, or, for a list, as one item.
_NESTED = _LISTS | {"story", "shots", "request", "handover", "controls", "metadata", "target_shape"}


def sort_fields(data: Mapping[str, Any], *, story: bool = False, nulls: bool = False) -> Asked:
    """Sort the fields of a body that makes a video.

    story   the body is a Story, else it has fields of a clip or the field `story`
    nulls   null stays in the request's fields, to take out what was asked before
    Raises  Problem invalid_request for an unknown name, with the nearest known ones
    """
    given, options = take_options(data, nulls=nulls)
    if story:
        refuse_unknown(given, (*_STORY, *_OWN))
        return Asked({}, given, options)
    told = given.pop("story", None)
    refuse_unknown(given, (*_REQUEST_NAMES, *_OWN, "story"))
    if told is None:
        return Asked(given, None, options)
    if given:
        raise Problem(
            "invalid_request",
            f"story and {', '.join(given)} both say what to make; write them in story.request.",
            param=next(iter(given)),
        )
    if not isinstance(told, dict):
        raise Problem("invalid_request", "story must be an object with shots.", param="story")
    refuse_unknown(told, _STORY, "story")
    return Asked({}, told, options)


def take_options(
    data: Mapping[str, Any], *, nulls: bool = False
) -> tuple[dict[str, Any], JobOptions]:
    """Return the fields of a body without the server's own, and those; null is not given.

    nulls   it stays in the former
    Raises  Problem invalid_request
    """
    told = {name: _value(name, item) for name, item in data.items() if item is not None}
    own = {name: told.pop(name) for name in _OWN if name in told}
    if nulls:
        told |= {name: None for name in data if data[name] is None and name not in _OWN}
    return told, parse(JobOptions, own)


def refuse_unknown(
    data: Collection[str], known: Collection[str], inside: str | None = None
) -> None:
    """Raise Problem invalid_request for a name that is not known, with the nearest ones.

    inside  the field of the body that holds the names, when it is not the body itself
    """
    for name in data:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=2, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            where = f" of {inside}" if inside else ""
            raise Problem(
                "invalid_request",
                f"Unknown field {name[:60]!r}{where}{hint}",
                param=inside or name[:60],
            )


def _value(name: str, value: Any) -> Any:
    """Read a form's text where the field holds a list or an object: JSON, or one item."""
    if name not in _NESTED or not isinstance(value, str):
        return value
    if value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise Problem("invalid_request", f"{name} is not JSON.", param=name) from None
    return [value] if name in _LISTS else value


def parse(model: type[Any], data: Mapping[str, Any]) -> Any:
    """Make a model of untrusted fields.

    Raises  Problem invalid_request that names each field at fault
    """
    refuse_unknown(data, tuple(model.model_fields))
    for name, value in data.items():
        if isinstance(value, UploadFile):
            raise Problem(
                "invalid_request", f"{name} takes no file; send it as text.",
                param=name,
            )  # fmt: skip
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        found: BadRequest = explain(error)
        raise Problem("invalid_request", found.message, param=found.field) from None
