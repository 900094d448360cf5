"""Planning of long video: a story becomes its clips, their cost, and what can be taken over."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from chaining.capabilities import capabilities_of
from chaining.cli.cost import Cost, chain_cost
from chaining.clip_plan import ClipPlan
from chaining.engine_maker import first_plan
from chaining.lengths import Lengths
from chaining.schedule import Schedule, make_schedule
from chaining.story import Story, parse_story
from server.api.errors import problem_of
from server.api.planned import Planned
from server.api.planning import Facts, Place, Planner, estimate_of, shape_of, stand_in
from server.inputs.names import model_of
from server.problems import Problem
from vidgen.adjustment import Adjustment
from vidgen.device import DeviceProfile
from vidgen.errors import VidgenError
from vidgen.inputs import Inputs
from vidgen.models import Model
from vidgen.plan import Plan


@dataclass(frozen=True, slots=True)
class Laid:
    """A story laid out on a device."""

    story: Story
    first: Plan
    schedule: Schedule
    cost: Cost


def read_story(fields: Mapping[str, Any]) -> Story:
    """Make a story of untrusted fields.

    Raises  Problem invalid_request; what is wrong with no field alone is so with the shots
    """
    try:
        return parse_story(fields)
    except VidgenError as error:
        problem = problem_of(error)
        problem.param = problem.param or "shots"
        raise problem from None


def story_model(story: Story) -> str:
    """Return the name of the model that makes a story's clips."""
    return model_of(story.request)


def plan_story(
    planner: Planner,
    story: Story,
    facts: Mapping[str, Facts],
    place: Place,
    *,
    skip: int = 0,
) -> Planned:
    """Decide every clip of a story.

    facts   of each reference: width and height
    skip    clips, in the order of making, that exist already and cost nothing
    Raises  Problem
    """
    laid = lay_out(planner, story, facts, place, skip=skip)
    return _planned(planner, laid)


def lay_out(
    planner: Planner, story: Story, facts: Mapping[str, Facts], place: Place, *, skip: int = 0
) -> Laid:
    """Return the clips of a story and what those from `skip` on cost.

    Raises  Problem
    """
    model = planner.devices.model

    def make(device: DeviceProfile) -> Laid:
        return _laid(story, facts, device, model(story_model(story)), skip)

    laid = planner.on_best(place, story_model(story), make, lambda m: m.cost.largest.check_fits())
    found = (*laid.first.adjustments, *laid.schedule.adjustments)
    if found and story.request.get("strict"):
        text = "; ".join(str(item) for item in found)
        raise Problem("unprocessable", f"strict: {text}.", param=found[0].field.split(".")[0])
    return laid


def _laid(
    story: Story, facts: Mapping[str, Facts], device: DeviceProfile, model: Model, skip: int
) -> Laid:
    lenient = story.model_copy(update={"request": {**story.request, "strict": False}})
    pictures = Inputs(image=stand_in(story.shots[0].image, facts))
    first = first_plan(lenient, device, model, pictures)
    lengths = Lengths.of(model.family, first.num_frames)
    schedule = make_schedule(story, lengths, first.fps, capabilities_of(model.family))
    story = story.model_copy(update={"seed": schedule.seed})
    made = replace(schedule, clips=schedule.clips[skip:] or schedule.clips[-1:])
    return Laid(story, first, schedule, chain_cost(story, made, first, device))


def _planned(planner: Planner, laid: Laid) -> Planned:
    story, first, schedule = laid.story, laid.first, laid.schedule
    factor = planner.factor(first)
    found = (*first.adjustments, *schedule.adjustments)
    decided = shape_of(first) | {
        "num_frames": schedule.num_frames,
        "seconds": round(float(schedule.seconds), 6),
        "seed": schedule.seed,
        "task": first.task,
        "fidelity": first.fidelity,
        "prompt_tokens": str(first.prompt_tokens),
        "adjustments": [item.as_dict() for item in found],
        "warnings": list(first.notes),
        "estimate": estimate_of(laid.cost.seconds, laid.cost.folder, laid.cost.largest, factor),
        "clips": [clip_facts(clip) for clip in schedule.clips],
        "shots": len(story.shots),
    }
    return Planned(
        kind="chain",
        payload={"story": story.model_dump(mode="json", exclude_unset=True)
                 | {"seed": schedule.seed}},
        text=" / ".join(shot.prompt for shot in story.shots),
        model=story_model(story),
        loras=_loras(story),
        clips=len(schedule.clips),
        tokens=laid.cost.largest.estimate.tokens,
        cost_seconds=laid.cost.seconds.middle * factor,
        device_bytes=int(laid.cost.largest.estimate.device_bytes.low),
        disk_bytes=int(laid.cost.folder.high + laid.cost.video.high),
        decided=decided,
    )  # fmt: skip


def _loras(story: Story) -> tuple[str, ...]:
    return tuple(str(item["path"]) for item in story.request.get("loras", ()))


def clip_facts(clip: ClipPlan) -> dict[str, Any]:
    """Return what clients see of a planned clip: no words, no pictures."""
    return {
        "index": clip.index,
        "place": clip.place,
        "shot": clip.shot,
        "kind": clip.kind,
        "follows": clip.follows,
        "previous": clip.previous,
        "seed": clip.seed,
        "start": clip.first + clip.overlap,
        "stop": clip.stop,
    }


def common_clips(old: Schedule, new: Schedule) -> int:
    """Return how many clips at the start, in the order of making, are planned the same."""
    same = 0
    for before, after in zip(old.clips, new.clips, strict=False):
        if before != after:
            break
        same += 1
    return same


def shots_adjusted(items: tuple[Adjustment, ...], added: int) -> list[Adjustment]:
    """Count shots as the client does: `added` at the start are none of them."""
    out = []
    for item in items:
        parts = item.field.split(".")
        if parts[0] == "shots":
            parts[1] = str(int(parts[1]) - added)
        out.append(replace(item, field=".".join(parts)))
    return out
