"""Deriving: edits, extensions and forks, which take something over from a video that exists."""

import secrets
from collections.abc import Mapping
from typing import Any

from chaining.schedule import Schedule
from chaining.seeds import with_seed
from chaining.story import Shot
from server.api.auth import Caller
from server.api.errors import problem_of
from server.api.extensions import Source, plan_extension
from server.api.fields import Asked, JobOptions, parse
from server.api.intake import Intake
from server.api.making import (
    laid_over,
    make_clip,
    payload_of,
    refuse_extended,
    settled_story,
)
from server.api.planned import Planned
from server.api.references import is_job
from server.api.services import Services
from server.api.stories import common_clips, lay_out, plan_story
from server.api.submit import Origin, place_of
from server.inputs.upload import JOB_PREFIX
from server.problems import Problem
from server.queue.job import Job
from vidgen.errors import VidgenError
from vidgen.request import fields as request_fields
from vidgen.request import group_of, parse_request
from vidgen.settings import outweighed

STORY_PARTS = ("strategy", "handover", "controls", "shots", "end_image")
_PASSED_ON = ("sampling", "attention", "memory", "output", "model")
_APART = {
    "image": "it begins with the video's last frame",
    "last_image": "write end_image, or last_image of a shot",
    "mask": "what is there stays as it is",
    "strength": "what is there stays as it is",
    "n": "it is one video",
    "prefix_frames": "write handover.overlap",
}


def edit(services: Services, caller: Caller, asked: Asked) -> tuple[Planned, Origin | None]:
    """Plan the change of a video as a prompt says.

    Raises  Problem
    """
    intake = Intake(services, caller)
    fields = intake.request(asked.request)
    if fields.get("video") is None:
        raise Problem("invalid_request", "video is missing: which one is changed?", param="video")
    origin = None
    if is_job(fields["video"]):
        job = intake.finished(fields["video"].removeprefix(JOB_PREFIX))
        origin = Origin(job.id, "edit")
        fields.setdefault("model", job.model)
    return make_clip(services, caller, fields, asked.options), origin


def extension(
    services: Services, caller: Caller, data: Mapping[str, Any], options: JobOptions
) -> tuple[Planned, Origin | None]:
    """Plan what follows a video.

    data    video; prompt and seconds, or shots; strategy, handover, controls; fields of the clips
    Raises  Problem
    """
    intake = Intake(services, caller)
    parts = {name: value for name, value in data.items() if name in STORY_PARTS}
    request = intake.request({name: data[name] for name in data if name not in parts})
    told = request.pop("video", None)
    if told is None:
        raise Problem("invalid_request", "video is missing: which one goes on?", param="video")
    video = str(intake.resolve({"request": {"video": told}})["request"]["video"])
    new = intake.story(_new_part(parts, request))
    place = place_of(services, caller, options)
    if not is_job(video):
        story, facts = settled_story(services, caller, new)
        source = Source.of(video, intake.facts_of(video))
        return plan_extension(services.planner, story, facts, source, place), None
    job = intake.finished(video.removeprefix(JOB_PREFIX))
    origin = Origin(job.id, "extension")
    payload = payload_of(job)
    if "story" in payload and "extension" not in payload:
        return _chain_on(services, caller, job, new, options), origin
    new["request"] = {"model": job.model, **outweighed(_passed_on(payload), new["request"])}
    story, facts = settled_story(services, caller, new)
    source = Source.of(video, intake.facts_of(video), job.model)
    return plan_extension(services.planner, story, facts, source, place), origin


def _new_part(parts: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the story of the new part as it was told.

    parts   of a story
    fields  of the clips, canonical
    Raises  Problem naming the field
    """
    request, story = dict(fields), dict(parts)
    if "seed" in request:
        story["seed"] = request.pop("seed")
    shots = story.pop("shots", None)
    shot: dict[str, Any] = {
        name: request.pop(name) for name in ("prompt", "seconds") if name in request
    }
    if shots is not None and shot:
        raise Problem(
            "invalid_request", "shots and prompt both say what follows; give one.", param="shots"
        )
    if shots is None:
        for name in ("prompt", "seconds"):
            if name not in shot:
                raise Problem("invalid_request", f"{name} is missing.", param=name)
        parse(Shot, shot)
        shots = [shot]
    _check_clips(request)
    return {**story, "shots": shots, "request": request}


def _check_clips(request: Mapping[str, Any]) -> None:
    """Raise Problem invalid_request that names a field which clips cannot be made with."""
    for name, why in _APART.items():
        if name in request:
            raise Problem(
                "invalid_request", f"{name} does not go with an extension: {why}.", param=name
            )
    try:
        parse_request({**request, "prompt": "a shot"})
    except VidgenError as error:
        raise problem_of(error) from None


def _passed_on(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a clip that hold for what follows it: how it is made, not what."""
    source = payload.get("request") or payload["story"].get("request", {})
    known = request_fields()
    return {
        name: value
        for name, value in source.items()
        if name == "negative_prompt"
        or (group_of(known[name]) in _PASSED_ON and name not in ("seed", "n", "strict"))
    }


def _chain_on(
    services: Services, caller: Caller, job: Job, new: Mapping[str, Any], options: JobOptions
) -> Planned:
    """Plan a chain of ours with further shots, sharing all its clips."""
    old = payload_of(job)["story"]
    added = new["shots"] if new.get("seed") is None else with_seed(new["shots"], new["seed"])
    first, *others = added
    if first.get("transition") not in (None, "continue"):
        raise Problem(
            "unprocessable", "The first shot continues the video; leave its transition out.",
            param="shots",
        )  # fmt: skip
    last = dict(old["shots"][-1])
    if old.get("end_image") is not None:
        last.setdefault("last_image", old["end_image"])
    shots = [*old["shots"][:-1], last, {**first, "transition": "continue"}, *others]
    if "strategy" in new:
        shots[len(old["shots"]) :] = [
            {"strategy": new["strategy"], **shot} for shot in shots[len(old["shots"]) :]
        ]
    story = {**old, "shots": shots, "end_image": new.get("end_image")}
    story["request"] = outweighed(old.get("request", {}), new.get("request", {}))
    for part in ("handover", "controls"):
        story[part] = {**(old.get(part) or {}), **(new.get(part) or {})}
    return share(services, caller, job, story, options, None)


def share(
    services: Services,
    caller: Caller,
    job: Job,
    story: Mapping[str, Any],
    options: JobOptions,
    from_clip: int | None,
) -> Planned:
    """Plan a story that takes over the clips of a chain as far as both are planned the same.

    from_clip  take over only those before it; None: as many as there are
    Raises     Problem conflict when a clip before from_clip would change
    """
    place, planner = place_of(services, caller, options), services.planner
    then, seen = settled_story(services, caller, payload_of(job)["story"])
    wanted, facts = settled_story(services, caller, story)
    old, new = lay_out(planner, then, seen, place), lay_out(planner, wanted, facts, place)
    shared = _shared(old.schedule, new.schedule, job.clips_completed)
    if from_clip is not None:
        if shared < from_clip:
            raise Problem(
                "conflict",
                f"The change begins with clip {shared}, so from_clip can be 0 to {shared}.",
                param="from_clip",
            )
        shared = from_clip
    planned = plan_story(planner, wanted, facts, place, skip=shared)
    if shared == len(planned.decided["clips"]):
        raise Problem("unprocessable", "Nothing would change; give another prompt, seed or shots.")
    if shared:
        planned.payload["takes"] = {"job": job.id, "clips": shared}
    return planned


def _shared(old: Schedule, new: Schedule, made: int) -> int:
    """Return how many clips, in the order of making, can be taken over.

    made  of the old ones
    """
    same = min(common_clips(old, new), made)
    handed = new.clips[same].overlap if same < len(new.clips) else 0
    if handed > 1 and same == len(old.clips):
        return max(0, same - 1)  # the chain kept too few frames of its last clip
    return same


def fork(
    services: Services, caller: Caller, job: Job, asked: Asked, from_clip: int | None
) -> Planned:
    """Plan a job that goes another way from a clip of a chain on.

    Raises  Problem
    """
    payload = payload_of(job)
    intake = Intake(services, caller)
    if "request" in payload:
        if asked.story is not None:
            raise Problem(
                "unprocessable", f"{job.id} is one clip and no story; change its fields.",
                param="story",
            )  # fmt: skip
        if from_clip:
            raise Problem(
                "unprocessable", f"{job.id} is one clip; leave from_clip out.", param="from_clip"
            )
        fields = outweighed(payload["request"], intake.request(asked.request))
        return make_clip(services, caller, fields, asked.options)
    refuse_extended(payload, job)
    story = payload["story"]
    if from_clip is not None and asked.story is None:
        story = _from_here(story, job, intake.request(asked.request), from_clip)
    else:
        story = laid_over(story, asked, intake)
    return share(services, caller, job, story, asked.options, from_clip)


def _from_here(
    story: Mapping[str, Any], job: Job, fields: dict[str, Any], from_clip: int
) -> dict[str, Any]:
    """Return a story in which the shot that begins with a clip is told anew."""
    planned = job.decided["clips"]
    if not 0 <= from_clip < len(planned):
        raise Problem(
            "unprocessable",
            f"from_clip={from_clip} is not a clip of {job.id}; use 0 to {len(planned) - 1}.",
            param="from_clip",
        )
    number = planned[from_clip]["shot"]
    begins = min(clip["index"] for clip in planned if clip["shot"] == number)
    if begins != from_clip:
        raise Problem(
            "unprocessable",
            f"Clip {from_clip} is inside shot {number + 1}, which begins with clip {begins}; fork "
            "there, or give a story.",
            param="from_clip",
        )
    shots = [dict(shot) for shot in story["shots"]]
    shots[number] |= {name: fields.pop(name) for name in ("prompt", "seconds") if name in fields}
    drawn = fields.pop("seed", None)
    shots[number]["seed"] = secrets.randbits(31) if drawn is None else drawn
    request = outweighed(story.get("request", {}), fields)
    return {**story, "shots": shots, "request": request}
