"""Going on with a file of a chain in the chain's own folder: its frames were never a file."""

from dataclasses import replace
from pathlib import Path

from chaining.chain import Chain, Result
from chaining.cli.asked import Asked, check_pictures
from chaining.cli.cost import chain_cost
from chaining.cli.telling import Teller, schedule_data, schedule_text, tell_schedule
from chaining.cli.work import Place, Work, check_start, run, schedule_of
from chaining.engine_maker import EngineMaker, first_plan
from chaining.held import Held
from chaining.seeds import with_seed
from chaining.story import Story, parse_story
from vidgen.errors import BadRequest
from vidgen.events import CancelToken


def branch_story(held: Held, new: Story, asked: Asked) -> Story:
    """Return the chain's story with the new shots, which continue it.

    Raises  BadRequest
    """
    first, *others = new.model_dump(mode="json", exclude_unset=True)["shots"]
    if first.get("transition") not in (None, "continue"):
        raise BadRequest("The first shot continues the video; leave its transition out.")
    shots = [{**first, "transition": "continue"}, *others]
    strategy = asked.parts.get("strategy")
    if strategy is not None:
        shots = [{"strategy": strategy, **shot} for shot in shots]
    if new.seed is not None:
        shots = with_seed(shots, new.seed)
    values = asked.settings.values
    flags = {name: item.value for name, item in values.items() if item.origin == "flag"}
    plain = {"prompt": "a shot", "seconds": 1}
    given = parse_story({"shots": [plain], "request": _of_clips(flags)}).request
    data = {**held.story, "shots": [*held.story["shots"], *shots]}
    data["request"] = {**held.story["request"], **given}
    data["end_image"] = asked.parts.get("end_image")
    for name in ("handover", "controls"):
        data[name] = {**held.story[name], **asked.parts.get(name, {})}
    return parse_story(data)


def _of_clips(flags: dict[str, object]) -> dict[str, object]:
    return {
        k: v for k, v in flags.items() if k not in ("device", "offline", "name_template", "seed")
    }


def decide_branch(held: Held, story: Story, output: Path, place: Place) -> tuple[Work, int]:
    """Decide every clip; return the work, and the clip from which on clips are made.

    An overlap takes over more frames than the chain kept of its last clip: that one is made again,
    to the same frames.
    """
    check_pictures(story)
    first = first_plan(story, place.device.profile)
    schedule = schedule_of(story, first, None)
    new = [clip.index for clip in schedule.clips if clip.shot >= held.shots]
    from_clip = min(new)
    if any(
        schedule.clips[i].overlap > 1 for i in new if schedule.clips[i].previous == from_clip - 1
    ):
        from_clip = held.last_clip
    made = replace(schedule, clips=schedule.clips[from_clip:])
    cost = chain_cost(story, made, first, place.device.profile)
    again = ("vidgen", "chain", "--resume", "--folder", str(held.folder), "--out", str(output))
    return Work(story, first, schedule, cost, held.folder, output, again), from_clip


def answer_branch(work: Work, from_clip: int, place: Place) -> None:
    """Print what a dry run decided."""
    data = schedule_data(work.schedule, work.cost, work.first)
    data |= {"event": "schedule", "dry_run": True, "from_clip": from_clip}
    text = schedule_text(work.schedule, work.cost, work.first, ())
    place.reporter.answer(data, f"{_where(work, from_clip)}\n{text}")


def run_branch(work: Work, from_clip: int, place: Place) -> Result:
    """Make the new clips in the chain's folder, and the file."""
    check_start(work, resume=True)
    place.reporter.warn(_where(work, from_clip), "extends")
    tell_schedule(place.reporter, work.schedule, work.cost, work.first)

    def go(maker: EngineMaker, teller: Teller, cancel: CancelToken) -> Result:
        chain = Chain(work.story, maker, work.folder)
        return chain.run(work.output, on=teller, cancel=cancel, resume=True, from_clip=from_clip)

    return run(work, place, go)


def _where(work: Work, from_clip: int) -> str:
    return (
        f"goes on in {work.folder} from clip {from_clip} on, from frames in float as they were "
        "made; name another --folder to go on from the file"
    )
