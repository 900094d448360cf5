"""Answers: responses that show a job."""

from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse

from server.api.services import Services
from server.api.shape import poll_after_ms, video_of
from server.api.video import Video
from server.queue.job import Job
from server.queue.place import Place
from server.states import TERMINAL, WAITING


def look(services: Services, job: Job, places: Mapping[str, Place] | None = None) -> Video:
    """Return what clients see of a job.

    places  in the queue, of this job and others; None: its own is asked for, if it waits
    """
    if places is not None:
        place = places.get(job.id)
    else:
        place = services.jobs.place(job) if job.state in WAITING else None
    return video_of(
        job,
        services.clock(),
        place=place,
        url=services.settings.public_url.rstrip("/"),
        payload=job.payload,
    )


def show(
    services: Services,
    job: Job,
    *,
    status: int = 200,
    replayed: bool = False,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Answer with a job, and say when to look again while it has not ended."""
    video = look(services, job)
    more = dict(headers or {})
    if job.state not in TERMINAL:
        more["openai-poll-after-ms"] = str(poll_after_ms(video))
    if replayed:
        more["Idempotent-Replayed"] = "true"
    return JSONResponse(video.model_dump(mode="json"), status, more)


def page(data: list[dict[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page as OpenAI's clients read it."""
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": has_more,
    }
