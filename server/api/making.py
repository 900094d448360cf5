"""Making: from a sorted body to a planned job, for a new video or one that comes of another."""

from collections.abc import Mapping
from typing import Any

from chaining.story import Story
from server.api.auth import Caller
from server.api.errors import problem_of
from server.api.fields import Asked, JobOptions
from server.api.intake import Intake
from server.api.planned import Planned
from server.api.services import Services
from server.api.stories import plan_story, read_story, story_model
from server.api.submit import place_of
from server.problems import Problem
from server.queue.job import Job
from vidgen.errors import VidgenError
from vidgen.request import parse_request
from vidgen.settings import outweighed


def make(services: Services, caller: Caller, asked: Asked) -> Planned:
    """Plan what a body asks for.

    Raises  Problem
    """
    intake = Intake(services, caller)
    if asked.story is not None:
        return make_story(services, caller, intake.story(asked.story), asked.options)
    return make_clip(services, caller, intake.request(asked.request), asked.options)


def make_clip(
    services: Services, caller: Caller, fields: Mapping[str, Any], options: JobOptions
) -> Planned:
    """Plan a clip.

    fields  canonical, files by references
    Raises  Problem
    """
    try:
        request = parse_request(fields)
    except VidgenError as error:
        raise problem_of(error) from None
    caller.check_model(request.model)
    intake = Intake(services, caller)
    payload = intake.resolve({"request": request.given()})
    facts = intake.facts(payload)
    return services.planner.clip(payload["request"], facts, place_of(services, caller, options))


def make_story(
    services: Services, caller: Caller, fields: Mapping[str, Any], options: JobOptions
) -> Planned:
    """Plan a story.

    fields  files by references
    Raises  Problem
    """
    story, facts = settled_story(services, caller, fields)
    return plan_story(services.planner, story, facts, place_of(services, caller, options))


def settled_story(
    services: Services, caller: Caller, fields: Mapping[str, Any]
) -> tuple[Story, dict[str, Mapping[str, Any]]]:
    """Return a story whose files are all there, and what is known of them.

    Raises  Problem
    """
    story = read_story(fields)
    caller.check_model(story_model(story))
    intake = Intake(services, caller)
    data = story.model_dump(mode="json", exclude_unset=True)
    payload = intake.resolve({"story": data})
    return read_story(payload["story"]), intake.facts(payload)


def payload_of(job: Job) -> dict[str, Any]:
    """Return what a job was asked.

    Raises  Problem gone for a zero-retention job, which nothing can be made of
    """
    if job.payload is None:
        raise Problem("gone", f"{job.id} keeps nothing, so nothing can be made of it.")
    return job.payload


def changed(services: Services, caller: Caller, job: Job, asked: Asked) -> Planned:
    """Plan a job again with changed fields.

    Raises  Problem
    """
    intake = Intake(services, caller)
    payload = payload_of(job)
    if "request" in payload:
        if asked.story is not None:
            raise Problem(
                "unprocessable", f"{job.id} is one clip and no story; change its fields.",
                param="story",
            )  # fmt: skip
        fields = outweighed(payload["request"], intake.request(asked.request))
        return make_clip(services, caller, _known(fields), asked.options)
    refuse_extended(payload, job)
    fields = laid_over(payload["story"], asked, intake)
    return make_story(services, caller, fields, asked.options)


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was set to null."""
    return {name: value for name, value in fields.items() if value is not None}


def refuse_extended(payload: Mapping[str, Any], job: Job) -> None:
    """Raise Problem for a chain that goes on from a file: its story is only the new part."""
    if "extension" in payload:
        raise Problem("conflict", f"{job.id} extends a file; extend that file again instead.")


def laid_over(story: Mapping[str, Any], asked: Asked, intake: Intake) -> dict[str, Any]:
    """Return a story with changed parts: those of a story, or fields of its clips.

    prompt is of a story with one shot
    Raises  Problem
    """
    if asked.story is not None:
        told = intake.story(asked.story)
        request = outweighed(story.get("request", {}), told.get("request", {}))
        return {**story, **told, "request": _known(request)}
    fields = intake.request(asked.request)
    shots = [dict(shot) for shot in story["shots"]]
    if "prompt" in fields:
        if len(shots) != 1:
            raise Problem(
                "unprocessable",
                f"prompt is of one shot and the story has {len(shots)}; change story.shots.",
                param="prompt",
            )
        shots[0]["prompt"] = fields.pop("prompt")
    seed = fields.pop("seed", story.get("seed"))
    request = outweighed(story.get("request", {}), fields)
    return {**story, "shots": shots, "seed": seed, "request": _known(request)}
