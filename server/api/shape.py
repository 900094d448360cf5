"""Shape: a job as the Video that clients see."""

from pathlib import PurePath
from typing import Any

from server.api.video import Lineage, Percentiles, Variant, Video, VideoError
from server.queue.job import Job
from server.queue.place import Place
from server.states import LEASED, TERMINAL, WAITING, JobState

MIN_POLL_MS, MAX_POLL_MS = 500, 5000
VARIANTS = ("video", "thumbnail", "spritesheet", "latents", "master", "last_frame", "report")


def video_of(
    job: Job,
    now: float,
    *,
    place: Place | None = None,
    url: str = "",
    payload: dict[str, Any] | None = None,
) -> Video:
    """Return what clients see of a job.

    place    its place in the queue, where it is known
    url      under which the API is reached, without a slash at the end
    payload  what was asked, None for what is kept secret
    """
    return Video(
        id=job.id,
        created_at=int(job.created_at),
        completed_at=_whole(job.completed_at),
        expires_at=_whole(job.artifacts_gone_at or job.expires_at),
        model=job.model,
        status=job.status,
        progress=job.progress,
        prompt=_prompt(payload),
        remixed_from_video_id=job.parent if job.parent_kind == "remix" else None,
        error=None if job.error is None else VideoError.model_validate(job.error),
        kind="chain" if job.kind == "chain" else "clip",
        state=str(job.state),
        hold_reason=job.hold_reason if job.state is JobState.HELD else None,
        queue_position=None if place is None else place.position,
        eta_start_s=None if place is None else _percentiles(place.eta_start),
        eta_s=_eta(job, now, place),
        request=None if payload is None else asked_of(payload),
        options=job.options,
        lineage=Lineage(parent=job.parent, kind=job.parent_kind),
        variants={} if job.artifacts_gone_at is not None else _variants(job, url),
        usage=job.usage,
        report=job.report,
        priority=job.priority,
        pool=job.pool,
        zdr=job.zdr,
        started_at=_whole(job.started_at),
        updated_at=int(job.updated_at),
        **_of_run(job),
        **_of_plan(job.decided),
        **_of_library(job),
    )


def _of_plan(decided: dict[str, Any]) -> dict[str, Any]:
    """Return what was decided; of a job that keeps nothing, little is left."""
    width, height = decided.get("width", 0), decided.get("height", 0)
    return {
        "seconds": f"{float(decided.get('seconds', 0)):.6g}",
        "size": f"{width}x{height}",
        "width": width,
        "height": height,
        "num_frames": decided.get("num_frames", 0),
        "fps": str(decided.get("fps", "")),
        "seed": decided.get("seed", 0),
        "adjustments": decided.get("adjustments", []),
        "warnings": decided.get("warnings", []),
        "estimate": decided.get("estimate", {}),
        "clip_plan": decided.get("clips", []),
    }


def _of_run(job: Job) -> dict[str, Any]:
    return {
        "phase": job.phase if job.state in LEASED else None,
        "step": job.step,
        "steps": job.steps,
        "clips": job.clips,
        "clips_completed": job.clips_completed,
        "run": job.run,
    }


def _of_library(job: Job) -> dict[str, Any]:
    return {
        "title": job.title,
        "tags": job.tags,
        "starred": job.starred,
        "trashed_at": _whole(job.trashed_at),
    }


def _whole(at: float | None) -> int | None:
    return None if at is None else int(at)


def asked_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked as clients may see it: LoRAs by name, not by where they lie."""
    asked = dict(payload.get("request") or payload["story"])
    if asked.get("loras"):
        asked["loras"] = _by_name(asked["loras"])
    if isinstance(asked.get("request"), dict) and asked["request"].get("loras"):
        asked["request"] = {**asked["request"], "loras": _by_name(asked["request"]["loras"])}
    return asked


def _by_name(loras: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**item, "path": PurePath(item["path"]).stem} for item in loras]


def _prompt(payload: dict[str, Any] | None) -> str | None:
    if payload is None:
        return None
    if "request" in payload:
        return str(payload["request"]["prompt"])
    return "\n".join(shot["prompt"] for shot in payload["story"]["shots"])


def _percentiles(pair: tuple[float, float] | None) -> Percentiles | None:
    if pair is None:
        return None
    return Percentiles(p50=round(pair[0], 3), p90=round(pair[1], 3))


def _eta(job: Job, now: float, place: Place | None) -> Percentiles | None:
    """Return how long until its end is expected, None when it has ended or no one knows."""
    if place is not None and job.state in WAITING:
        return _percentiles(place.eta_end)
    if job.eta_at is None or job.state in TERMINAL or job.state is JobState.PAUSED:
        return None
    left = round(max(0.0, job.eta_at - now), 3)
    return Percentiles(p50=left, p90=left)


def _variants(job: Job, url: str) -> dict[str, Variant]:
    return {
        name: Variant(
            bytes=found["bytes"],
            sha256=found.get("sha256"),
            media_type=found["media_type"],
            url=f"{url}/v1/videos/{job.id}/content?variant={name}",
        )
        for name, found in job.artifacts.items()
    }


def poll_after_ms(video: Video) -> int:
    """Return how long a client should wait before it looks again."""
    left = 0.0 if video.eta_s is None else video.eta_s.p50
    return int(min(max(left * 1000 / 20, MIN_POLL_MS), MAX_POLL_MS))
