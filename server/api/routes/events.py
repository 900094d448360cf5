"""Events: what happens to a job, or to all jobs of a tenant, as it happens."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from server.api.auth import Reader, may_still
from server.api.docs import errors, header
from server.api.services import Services, ServicesOf, check_id
from server.api.watch import follow, follow_tenant, has_ended
from server.problems import Problem
from server.queue.events import Event, after, latest

router = APIRouter(prefix="/v1", tags=["events"])
_AFTER = Query(
    ge=0, le=2**63 - 1, description="Number of the last event that was seen; 0: from the start."
)
_LAST_EVENT_ID = header(
    "Last-Event-ID",
    "Number of the last event that was seen, as browsers send it; goes before `after`.",
    {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
)
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {}},
        "description": "Events; the id of each is its number, the data JSON.",
    },
}


@router.get(
    "/videos/{video_id}/events",
    operation_id="getVideoEvents",
    response_class=Response,
    responses={**_STREAM, 204: {"description": "It has ended and all was seen."}, **errors(404)},
    openapi_extra={"parameters": [_LAST_EVENT_ID]},
)
async def events(
    video_id: str,
    request: Request,
    services: ServicesOf,
    caller: Reader,
    seen: Annotated[int | None, Query(alias="after"), _AFTER] = None,
) -> Response:
    """Follow a job until it ends. Last-Event-ID or `after` go on where a stream broke off."""
    job = await run_in_threadpool(services.jobs.get, check_id(video_id), caller.tenant)
    seq = _seen(request, seen) or 0
    if await run_in_threadpool(_all_seen, services, job.id, seq):
        return Response(status_code=204)
    may = partial(may_still, services.database, caller)
    return _stream(follow(services.database, services.watch, job.id, seq, may))


def _all_seen(services: Services, job_id: str, seq: int) -> bool:
    ended = has_ended(services.database, job_id)
    return ended and not after(services.database, job_id, seq, 1)


@router.get(
    "/events",
    operation_id="getEvents",
    response_class=Response,
    responses={**_STREAM, **errors()},
    openapi_extra={"parameters": [_LAST_EVENT_ID]},
)
async def all_events(
    request: Request,
    services: ServicesOf,
    caller: Reader,
    seen: Annotated[int | None, Query(alias="after"), _AFTER] = None,
) -> Response:
    """Follow all your jobs, from now on or from an event on; those of one job are in order."""
    seq = _seen(request, seen)
    if seq is None:
        seq = await run_in_threadpool(latest, services.database)
    may = partial(may_still, services.database, caller)
    return _stream(follow_tenant(services.database, services.watch, caller.tenant, seq, may))


def _seen(request: Request, seen: int | None) -> int | None:
    """Return the last event that the client has; the header of a reconnect goes first.

    Raises  Problem invalid_request
    """
    header = request.headers.get("last-event-id")
    if header is None or not header.strip():
        return seen
    text = header.strip()
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise Problem("invalid_request", "Last-Event-ID is not the number of an event.",
                      param="Last-Event-ID")  # fmt: skip
    return int(text)


def _stream(found: AsyncIterator[Event | None]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_lines(found), media_type="text/event-stream", headers=headers)


async def _lines(found: AsyncIterator[Event | None]) -> AsyncIterator[str]:
    yield "retry: 1000\n\n"
    async for event in found:
        yield ": ping\n\n" if event is None else line_of(event)


def line_of(event: Event) -> str:
    """Return an event as the lines of a stream."""
    data = {"id": event.job_id, "seq": event.seq, "ts": event.ts, **event.data}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event.seq}\nevent: {event.type}\ndata: {text}\n\n"
