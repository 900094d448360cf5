"""Actions on a job: cancel, pause, resume, retry, order, and what the library says of it."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse
from pydantic import Field

from server.api.answers import show
from server.api.auth import Creator
from server.api.bodies import read_body
from server.api.docs import body, errors
from server.api.fields import Annotation, parse
from server.api.services import ServicesOf, check_id
from server.api.video import Video
from server.problems import Problem
from vidgen.request_values import Untrusted

router = APIRouter(prefix="/v1/videos/{video_id}", tags=["actions"])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]
_SAID = errors(404, 409, 413, 415, 422)


_Handler = TypeVar("_Handler", bound=Callable[..., Any])


def _route(name: str, operation: str, schema: str | None = None) -> Callable[[_Handler], _Handler]:
    extra = None if schema is None else body(schema, required=False)
    return router.post(
        f"/{name}", operation_id=operation, response_model=Video, responses=_SAID,
        openapi_extra=extra,
    )  # fmt: skip


@_route("cancel", "cancelVideo")
def cancel(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Stop a job; what is made of it is kept. A running one stops after its step."""
    return show(services, services.jobs.ask_stop(check_id(video_id), caller.tenant, "cancel"))


@_route("pause", "pauseVideo")
def pause(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Stop a job and keep its place: resume goes on with it."""
    return show(services, services.jobs.ask_stop(check_id(video_id), caller.tenant, "pause"))


@_route("resume", "resumeVideo")
def resume(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Go on with a job that is paused, failed or cancelled, at its first unfinished clip."""
    return show(services, services.jobs.resume(check_id(video_id), caller.tenant))


@_route("retry", "retryVideo")
def retry(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Make a job that ended without a video again; finished clips stay."""
    return show(services, services.jobs.retry(check_id(video_id), caller.tenant))


class Move(Untrusted):
    """Where a waiting job goes; one of the three."""

    before: str | None = Field(None, description="Id of a waiting job of yours.")
    after: str | None = Field(None, description="Id of a waiting job of yours.")
    to: Literal["first", "last"] | None = Field(None, description="Among your waiting jobs.")


@_route("move", "moveVideo", "Move")
def move(video_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Change a waiting job's place among your own."""
    asked = parse(Move, fields)
    given = {name: value for name, value in asked.model_dump().items() if value is not None}
    if len(given) != 1:
        raise Problem("invalid_request", "Give one of before, after and to.", param="to")
    jobs = services.jobs
    job = jobs.get(check_id(video_id), caller.tenant)
    name, value = next(iter(given.items()))
    if name == "to":
        return show(services, jobs.move(job.id, first=value == "first", last=value == "last"))
    other = jobs.get(check_id(value), caller.tenant)
    before, after = (other.id, None) if name == "before" else (None, other.id)
    return show(services, jobs.move(job.id, before=before, after=after))


class Hold(Untrusted):
    """Why a job is held."""

    reason: str = Field("held by its owner", min_length=1, max_length=200)


BODIES = (Move, Hold)


@_route("hold", "holdVideo", "Hold")
def hold(video_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Keep a waiting job from being started until it is released."""
    asked = parse(Hold, fields)
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return show(services, services.jobs.hold(job.id, asked.reason))


@_route("release", "releaseVideo")
def release(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Let a held job wait for a worker again."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return show(services, services.jobs.release(job.id))


@_route("annotate", "annotateVideo", "Annotation")
def annotate(video_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Give a video a title, tags or a star; what is not given stays."""
    asked = parse(Annotation, _tags(fields)).model_dump(exclude_unset=True)
    job = services.jobs.get(check_id(video_id), caller.tenant)
    if "title" in asked:
        asked["title"] = asked["title"] or ""
    return show(services, services.jobs.annotate(job.id, **asked))


def _tags(fields: dict[str, Any]) -> dict[str, Any]:
    tags = fields.get("tags")
    return {**fields, "tags": [tags]} if isinstance(tags, str) else fields


@_route("trash", "trashVideo")
def trash(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Put a video that has ended into the trash, from which it can be restored for a while."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return show(services, services.jobs.trash(job.id))


@_route("restore", "restoreVideo")
def restore(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Take a video out of the trash."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return show(services, services.jobs.restore(job.id))
