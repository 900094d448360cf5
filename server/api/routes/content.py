"""Content: the files of a job, and its video while it is still made."""

import functools
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from server.api.auth import Reader, may_still
from server.api.docs import errors
from server.api.playing import WhileMade, opening, partial, playlist, segment
from server.api.services import Services, ServicesOf, check_id
from server.api.serving import Stored, bytes_said, serve
from server.api.watch import newest
from server.keeping import shred
from server.media_types import MEDIA_TYPES
from server.problems import Problem
from server.queue.job import Job
from server.states import TERMINAL, JobState

router = APIRouter(prefix="/v1/videos/{video_id}", tags=["content"])
_VARIANT = Query(
    pattern=r"^(video|thumbnail|spritesheet|latents|master|last_frame|report|preview|clip-\d{1,4})$",
    description="Which file: video, thumbnail, spritesheet, latents, master, last_frame, report, "
    "clip-<number in the order of making>, or preview while it is made.",
)
_StepOf = Annotated[
    str | None,
    Query(
        alias="step",
        max_length=64,
        description="Changes nothing: with another word a browser asks for the preview again.",
    ),
]
_REFUSED = errors(404, 409, 410, 416)
_SAID = {**bytes_said(), **_REFUSED}


@router.get("/content", operation_id="getContent", responses=_SAID, response_class=Response)
async def content(
    video_id: str,
    request: Request,
    services: ServicesOf,
    caller: Reader,
    variant: Annotated[str, _VARIANT] = "video",
    partial_: Annotated[
        bool,
        Query(alias="partial", description="Send the video clip by clip while it is made."),
    ] = False,
    _step: _StepOf = None,
) -> Response:
    """Download a file of a video. Ranges, If-Range and ETag are understood."""
    job = await run_in_threadpool(services.jobs.get, check_id(video_id), caller.tenant)
    if partial_:
        if variant != "video":
            raise Problem("invalid_request", "partial is of the video only.", param="partial")
        _refuse_gone(job)
        if job.state in TERMINAL:
            opening(await run_in_threadpool(services.jobs.clips, job.id), job)
        may = functools.partial(may_still, services.database, caller)
        pieces = partial(services.database, services.store, services.watch, services.jobs, job, may)
        headers = {"Content-Disposition": f'inline; filename="{job.id}.mp4"'}
        return WhileMade(pieces, media_type=MEDIA_TYPES["mp4"], headers=headers)
    return await run_in_threadpool(_file, request, services, job, variant)


@router.head("/content", operation_id="headContent", responses=_SAID, response_class=Response)
def head(
    video_id: str,
    request: Request,
    services: ServicesOf,
    caller: Reader,
    variant: Annotated[str, _VARIANT] = "video",
    _step: _StepOf = None,
) -> Response:
    """Say what a download would answer."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return _file(request, services, job, variant)


def _file(request: Request, services: Services, job: Job, variant: str) -> Response:
    if job.artifacts_gone_at is not None:
        raise Problem("gone", f"The files of {job.id} have expired.")
    if variant == "preview":
        return _preview(services, job)
    if variant.startswith("clip-"):
        stored = _clip(services, job, int(variant.removeprefix("clip-")))
    else:
        stored = _artifact(job, variant)
    name = f"{job.id}-{variant}.{stored.suffix}" if variant != "video" else (
        f"{job.id}.{stored.suffix}")  # fmt: skip
    return serve(request, services.store, stored, name, after=_shredding(services, job, variant))


def _refuse_gone(job: Job) -> None:
    if job.artifacts_gone_at is not None:
        raise Problem("gone", f"The files of {job.id} have expired.")


def _artifact(job: Job, variant: str) -> Stored:
    found = job.artifacts.get(variant)
    if found is not None:
        return Stored.of(found)
    if job.state not in TERMINAL:
        raise Problem(
            "conflict", f"{job.id} is {job.state}; its {variant} is there when it is completed.",
            param="variant", headers={"Retry-After": "1"},
        )  # fmt: skip
    if job.state is JobState.COMPLETED:
        there = ", ".join(job.artifacts)
        raise Problem("not_found", f"{job.id} has no {variant}; it has {there}.", param="variant")
    raise Problem("conflict", f"{job.id} is {job.state} and has no {variant}.", param="variant")


def _clip(services: Services, job: Job, number: int) -> Stored:
    whole = job.artifacts.get(f"clip-{number}")
    if whole is not None:
        return Stored.of(whole)
    for row in services.jobs.clips(job.id):
        if row.idx == number and row.artifacts:
            found = row.artifacts.get("clip") or row.artifacts.get("segment")
            if found is not None:
                return Stored.of(found)
    if number >= job.clips:
        raise Problem(
            "not_found", f"{job.id} has {job.clips} clips, counted from 0.", param="variant"
        )
    raise Problem("conflict", f"Clip {number} of {job.id} is not made yet.", param="variant")


def _preview(services: Services, job: Job) -> Response:
    """Return the newest preview; it is small and may be replaced at any time, so it is read whole.

    Raises  Problem conflict
    """
    found = newest(services.database, job.id, "preview")
    try:
        if found is None:
            raise Problem("not_found", "")
        data = b"".join(services.store.get_range(found.data["key"]))
    except Problem as problem:
        if problem.code != "not_found":
            raise
        raise Problem("conflict", f"{job.id} has no preview now.", param="variant") from None
    headers = {"Cache-Control": "no-store", "Content-Disposition": "inline"}
    return Response(data, media_type=Stored.of(found.data).media_type, headers=headers)


def _shredding(services: Services, job: Job, variant: str) -> Callable[[], None] | None:
    """A job that keeps nothing is destroyed once its video was downloaded."""
    if not job.zdr or variant != "video":
        return None
    return lambda: shred(services.database, services.store, services.settings, job.id)


@router.get("/clips", operation_id="listClips", responses=errors(404))
def clips(video_id: str, services: ServicesOf, caller: Reader) -> dict[str, Any]:
    """List the clips that are made, with what was measured of each: drift, quality, seconds."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    return {
        "object": "list",
        "data": [
            {
                "index": row.idx,
                "attempt": row.attempt,
                "seed": row.seed,
                "num_frames": row.num_frames,
                "seconds": row.seconds,
                "metrics": row.metrics,
                "finished_at": row.finished_at,
                "files": sorted(row.artifacts),
            }
            for row in services.jobs.clips(job.id)
        ],
    }


@router.get("/stream.m3u8", operation_id="getPlaylist", response_class=Response,
            responses={200: {"content": {MEDIA_TYPES["m3u8"]: {}}},
                       **errors(404, 409, 410)})  # fmt: skip
def stream(video_id: str, services: ServicesOf, caller: Reader) -> Response:
    """The HLS playlist of a video; it grows by each clip and is closed when all are made."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    _refuse_gone(job)
    text = playlist(job, services.jobs.clips(job.id))
    return Response(text, media_type=MEDIA_TYPES["m3u8"])


@router.get("/stream/init.mp4", operation_id="getStreamStart", response_class=Response,
            responses={**bytes_said(MEDIA_TYPES["mp4"]), **_REFUSED})  # fmt: skip
def stream_start(video_id: str, request: Request, services: ServicesOf, caller: Reader) -> Response:
    """The beginning that all segments share."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    _refuse_gone(job)
    return serve(request, services.store, opening(services.jobs.clips(job.id), job), "init.mp4")


@router.get("/stream/{number}.m4s", operation_id="getStreamSegment", response_class=Response,
            responses={**bytes_said(MEDIA_TYPES["m4s"]), **_REFUSED})  # fmt: skip
def stream_segment(
    video_id: str, number: int, request: Request, services: ServicesOf, caller: Reader
) -> Response:
    """One clip as a segment, by its number in the order of making."""
    job = services.jobs.get(check_id(video_id), caller.tenant)
    _refuse_gone(job)
    found = segment(services.jobs.clips(job.id), number, job)
    return serve(request, services.store, found, f"{number}.m4s")
