"""Derived videos: remix, edit, extension, fork; characters are not offered."""

from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from server.api.answers import show
from server.api.asking import asking
from server.api.auth import Creator, needs
from server.api.bodies import body_hash
from server.api.deriving import STORY_PARTS, edit, extension, fork
from server.api.docs import CREATES, body, errors
from server.api.fields import Asked, refuse_unknown, request_names, sort_fields, take_options
from server.api.making import changed
from server.api.routes.videos import BodyOf
from server.api.services import ServicesOf, check_id
from server.api.submit import IDEMPOTENCY_KEY, Origin, Ticket
from server.api.video import Video
from server.problems import Problem

router = APIRouter(prefix="/v1/videos", tags=["derived videos"])


@router.post(
    "/{video_id}/remix",
    operation_id="remixVideo",
    response_model=Video,
    responses=errors(*CREATES),
    openapi_extra=body("VideoRemix", headers=[IDEMPOTENCY_KEY]),
)
def remix(
    video_id: str, request: Request, services: ServicesOf, caller: Creator, fields: BodyOf
) -> JSONResponse:
    """Make a video again with another prompt; its seed and all other fields stay unless given."""
    ticket = Ticket.of(request)
    job = services.jobs.get(check_id(video_id), caller.tenant)
    asked = sort_fields(fields)
    if "prompt" not in asked.request and asked.story is None:
        raise Problem("invalid_request", "prompt is missing.", param="prompt")
    digest = body_hash({**fields, "remix": job.id})
    with asking(services, caller) as ask:
        planned = changed(ask.services, caller, job, asked)
        origin = Origin(job.id, "remix")
        made, replayed = ask.submit(planned, asked.options, ticket, digest, origin)
    return show(services, made, replayed=replayed)


@router.post(
    "/edits",
    operation_id="editVideo",
    response_model=Video,
    responses=errors(*CREATES),
    openapi_extra=body("VideoEdit", headers=[IDEMPOTENCY_KEY]),
)
def edits(request: Request, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Change a video as a prompt says, with a model that can."""
    ticket = Ticket.of(request)
    digest = body_hash({**fields, "route": "edits"})
    asked = sort_fields(fields)
    if asked.story is not None:
        raise Problem("invalid_request", "An edit is of one clip; leave story out.", param="story")
    with asking(services, caller) as ask:
        planned, origin = edit(ask.services, caller, asked)
        made, replayed = ask.submit(planned, asked.options, ticket, digest, origin)
    return show(services, made, replayed=replayed)


@router.post(
    "/extensions",
    operation_id="extendVideo",
    response_model=Video,
    responses=errors(*CREATES),
    openapi_extra=body("VideoExtend", headers=[IDEMPOTENCY_KEY]),
)
def extensions(
    request: Request, services: ServicesOf, caller: Creator, fields: BodyOf
) -> JSONResponse:
    """Go on with a video: a chain of clips that continues its last frame, in one file with it."""
    ticket = Ticket.of(request)
    digest = body_hash({**fields, "route": "extensions"})
    given, options = take_options(fields)
    refuse_unknown(given, (*request_names(), *STORY_PARTS))
    with asking(services, caller) as ask:
        planned, origin = extension(ask.services, caller, given, options)
        made, replayed = ask.submit(planned, options, ticket, digest, origin)
    return show(services, made, replayed=replayed)


@router.post(
    "/{video_id}/fork",
    operation_id="forkVideo",
    response_model=Video,
    responses=errors(*CREATES),
    openapi_extra=body("VideoFork", required=False, headers=[IDEMPOTENCY_KEY]),
)
def fork_video(
    video_id: str, request: Request, services: ServicesOf, caller: Creator, fields: BodyOf
) -> JSONResponse:
    """Go another way from a clip of a chain on: a new job that shares the clips before it."""
    ticket = Ticket.of(request)
    job = services.jobs.get(check_id(video_id), caller.tenant)
    rest = dict(fields)
    from_clip = _from_clip(rest.pop("from_clip", None))
    asked: Asked = sort_fields(rest)
    digest = body_hash({**fields, "fork": job.id})
    with asking(services, caller) as ask:
        planned = fork(ask.services, caller, job, asked, from_clip)
        origin = Origin(job.id, "fork")
        made, replayed = ask.submit(planned, asked.options, ticket, digest, origin)
    return show(services, made, replayed=replayed)


def _from_clip(value: Any) -> int | None:
    if value is None:
        return None
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or len(text) > 6:
        raise Problem(
            "invalid_request", f"from_clip={text[:40]} is not the number of a clip.",
            param="from_clip",
        )  # fmt: skip
    return int(text)


@router.post(
    "/characters", operation_id="createCharacter", responses=errors(501), status_code=501,
    dependencies=[Depends(needs("create"))],
)  # fmt: skip
def create_character() -> JSONResponse:
    """Not offered: no open model here keeps a character."""
    raise _no_characters()


@router.get(
    "/characters/{character_id}", operation_id="getCharacter", responses=errors(501),
    status_code=501, dependencies=[Depends(needs("read"))],
)  # fmt: skip
def get_character(character_id: str) -> JSONResponse:  # noqa: ARG001 - part of the path
    """Not offered: no open model here keeps a character."""
    raise _no_characters()


def _no_characters() -> Problem:
    return Problem(
        "not_implemented", "Characters are not offered; give reference_images to a model that "
        "takes them.",
    )  # fmt: skip
