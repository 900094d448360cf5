"""Videos: create, estimate, look, list, change while it waits, delete."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from server.api.answers import look, page, show
from server.api.asking import asking
from server.api.auth import Caller, Creator, Reader
from server.api.bodies import body_hash, read_body
from server.api.docs import CREATES, body, errors, header
from server.api.fields import MOST_TAGS, sort_fields
from server.api.making import changed, make
from server.api.rewriting import columns_of
from server.api.services import Services, ServicesOf, check_id
from server.api.shape import asked_of
from server.api.submit import IDEMPOTENCY_KEY, Ticket, check_webhook
from server.api.video import Video, VideoDeleted, VideoList
from server.api.watch import until_ended
from server.keeping import erase
from server.problems import Problem
from server.queue.job import Job
from server.queue.jobs import Filters
from server.states import TERMINAL, JobState

router = APIRouter(prefix="/v1/videos", tags=["videos"])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]
MAX_WAIT_SECONDS = 600
_PREFER = header(
    "Prefer",
    f"wait=N: answer when the job has ended, or after N seconds (at most {MAX_WAIT_SECONDS}).",
    {"type": "string"},
)


def _create(
    services: Services, caller: Caller, fields: dict[str, Any], ticket: Ticket
) -> tuple[Job, bool]:
    asked = sort_fields(fields)
    digest = body_hash(fields)
    with asking(services, caller) as ask:
        planned = make(ask.services, caller, asked)
        return ask.submit(planned, asked.options, ticket, digest)


def _created(
    services: Services, caller: Caller, fields: dict[str, Any], ticket: Ticket
) -> JSONResponse:
    job, replayed = _create(services, caller, fields, ticket)
    return show(services, job, replayed=replayed)


@router.post(
    "",
    operation_id="createVideo",
    response_model=Video,
    responses={202: {"model": Video, "description": "It had not ended within Prefer: wait."},
               **errors(*CREATES)},
    openapi_extra=body("VideoCreate", headers=[IDEMPOTENCY_KEY, _PREFER]),
)  # fmt: skip
async def create(
    request: Request, services: ServicesOf, caller: Creator, fields: BodyOf
) -> JSONResponse:
    """Make a video: a clip of a prompt, or with `story` a long one. `Prefer: wait=60` waits."""
    ticket, seconds = Ticket.of(request), _wait_of(request)
    if seconds is None:
        return await run_in_threadpool(_created, services, caller, fields, ticket)
    job, replayed = await run_in_threadpool(_create, services, caller, fields, ticket)
    ended = await until_ended(services.database, services.watch, job.id, seconds)
    job = await run_in_threadpool(services.jobs.get, job.id, caller.tenant)
    headers = {"Preference-Applied": f"wait={seconds}"}
    return await run_in_threadpool(
        show, services, job, status=200 if ended else 202, replayed=replayed, headers=headers
    )


def _wait_of(request: Request) -> int | None:
    """Return the seconds of `Prefer: wait=N`, None without."""
    for part in request.headers.get("prefer", "").split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isdecimal() and len(value) < 6:
            return min(int(value), MAX_WAIT_SECONDS)
    return None


@router.post(
    "/estimate",
    operation_id="estimateVideo",
    responses=errors(*CREATES),
    openapi_extra=body("VideoCreate"),
)
def estimate(services: ServicesOf, caller: Reader, fields: BodyOf) -> dict[str, Any]:
    """Say what a request would become and cost; nothing is made.

    Files that come inside the request are looked at and not kept: send them again with the job.
    """
    asked = sort_fields(fields)
    check_webhook(services, asked.options)
    with asking(services, caller) as ask:
        planned = make(ask.services, caller, asked)
    seconds = planned.decided["estimate"]["seconds"]
    price = services.settings.price_per_gpu_hour / 3600
    return {
        "object": "video.estimate",
        "model": planned.model,
        "kind": planned.kind,
        "num_clips": planned.clips,
        "tokens": planned.tokens,
        "price": {"low": seconds["low"] * price, "high": seconds["high"] * price},
        "request": asked_of(planned.payload),
        **planned.decided,
    }


@router.get("", operation_id="listVideos", response_model=VideoList, responses=errors(404, 422))
def list_videos(
    services: ServicesOf,
    caller: Reader,
    after: Annotated[
        str | None, Query(max_length=64, description="Id of the last one seen.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Annotated[
        Literal["asc", "desc", "queue"],
        Query(
            description="By age; or queue: those that have not ended, in the order in which they "
            "will run, running ones first and those that are held or paused last. Each that a "
            "worker could claim then has its queue_position and times. What moves on between two "
            "pages may come twice."
        ),
    ] = "desc",
    text: Annotated[str | None, Query(max_length=512, description="Words of the prompt.")] = None,
    model: Annotated[str | None, Query(max_length=256)] = None,
    state: Annotated[list[JobState] | None, Query(description="One or more states.")] = None,
    tag: Annotated[
        list[str] | None, Query(description="All of these tags.", max_length=MOST_TAGS)
    ] = None,
    starred: bool | None = None,
    trashed: Annotated[bool, Query(description="Those in the trash, and only those.")] = False,
    parent: Annotated[str | None, Query(max_length=64)] = None,
    since: Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)] = None,
    until: Annotated[float | None, Query(ge=0, le=1e11, allow_inf_nan=False)] = None,
    seed: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> JSONResponse:
    """List your videos, the newest first, or what waits and runs as it will run."""
    for name, value in (("text", text), ("model", model), ("tag", "".join(tag or ()))):
        if value is not None and "\0" in value:
            raise Problem("invalid_request", f"{name} holds NUL.", param=name)
    filters = Filters(
        text=text, model=model, states=tuple(state or ()), tags=tuple(tag or ()),
        starred=starred, trashed=trashed, parent=None if parent is None else check_id(parent),
        since=since, until=until, seed=seed,
    )  # fmt: skip
    found = services.jobs.page(
        caller.tenant,
        after=None if after is None else check_id(after),
        limit=limit,
        order=order,
        filters=filters,
    )
    places = services.jobs.places(found.jobs) if order == "queue" else {}
    data = [look(services, job, places).model_dump(mode="json") for job in found.jobs]
    return JSONResponse(page(data, has_more=found.has_more))


@router.get("/{video_id}", operation_id="getVideo", response_model=Video, responses=errors(404))
def retrieve(video_id: str, services: ServicesOf, caller: Reader) -> JSONResponse:
    """Look at a video; one that failed answers 200 and says why."""
    return show(services, services.jobs.get(check_id(video_id), caller.tenant))


@router.patch(
    "/{video_id}",
    operation_id="changeVideo",
    response_model=Video,
    responses=errors(404, 409, 410, 413, 415, 422, 429, 507),
    openapi_extra=body("VideoPatch"),
)
def change(video_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Change what a waiting job will make; fields that are not given stay, null takes one out."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    asked = sort_fields(fields, nulls=True)
    with asking(services, caller) as ask:
        planned = changed(ask.services, caller, job, asked)
        check_webhook(services, asked.options)
        columns = columns_of(job, planned, asked.options)
        return show(services, ask.change(job, planned, columns))


@router.delete(
    "/{video_id}",
    operation_id="deleteVideo",
    response_model=VideoDeleted,
    responses={202: {"model": Video, "description": "Its worker has not yet stopped."},
               **errors(404, 409)},
)  # fmt: skip
async def delete(video_id: str, services: ServicesOf, caller: Creator) -> JSONResponse:
    """Delete a video for good: stop it, and destroy its files and all that is known of it."""
    jobs = services.jobs
    job = await run_in_threadpool(jobs.get, check_id(video_id), caller.tenant)
    if job.state not in TERMINAL:
        job = await run_in_threadpool(jobs.ask_stop, job.id, caller.tenant, "delete")
    if job.state not in TERMINAL:
        grace = services.settings.cancel_grace_seconds
        if not await until_ended(services.database, services.watch, job.id, grace):
            job = await run_in_threadpool(jobs.get, job.id, caller.tenant)
            return await run_in_threadpool(show, services, job, status=202)
    await run_in_threadpool(_erase, services, job.id)
    return JSONResponse(VideoDeleted(id=job.id).model_dump())


def _erase(services: Services, job_id: str) -> None:
    """Destroy a job that has stopped; the background may have been quicker."""
    try:
        erase(services.database, services.store, services.settings, job_id)
    except Problem as problem:
        if problem.code != "not_found":
            raise
