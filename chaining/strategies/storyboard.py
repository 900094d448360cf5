"""storyboard: lays down all shots of a story, each by its own strategy, with cuts and bridges.

It also refuses what the model cannot do, before anything runs.
"""

import dataclasses
from collections.abc import Collection
from fractions import Fraction

from chaining.capabilities import Capability, missing, refuse_missing
from chaining.clip_plan import ClipPlan
from chaining.controls import Handover
from chaining.layout import Layout
from chaining.lengths import Lengths
from chaining.story import Story
from chaining.strategies import Handing, handing, strategies
from chaining.strategies.flf_bridge import FlfBridge
from vidgen.errors import BadRequest, Unsupported

_READERS = {
    "pick": "strategy last_frame",
    "overlap": "strategy overlap",
    "mode": "strategy overlap",
    "noise": "strategy overlap with handover.mode=noise",
    "latents": "strategy last_latent",
    "join": "strategy overlap",
    "join_frames": "strategy overlap, with a join that mixes and a mode other than blend",
    "bridge_seconds": "transition bridge",
    "through": "a strategy that hands over",
}


def lay_story(
    story: Story, lengths: Lengths, fps: Fraction, able: Collection[Capability], seed: int
) -> list[ClipPlan]:
    """Return the clips of a story, in the order in which they are made.

    able    what the model can be given
    Raises  BadRequest, Unsupported
    """
    table = strategies(story.handover, lengths.step)
    layout = Layout(story, lengths, fps, seed)
    for shot in range(len(story.shots)):
        _check_pictures(shot, story)
        frames = layout.begin_shot(shot)
        table[story.strategy_of(shot)].plan(shot, frames, layout)
    clips = _choose_windows(layout.clips, story, lengths)
    for clip in clips:
        _check(clip, story, lengths, able)
        _check_tail(clip, clips)
    _check_noise(story, able)
    return clips


def refuse_unused(story: Story, step: int) -> None:
    """Raise BadRequest for an option of the hand-over, or noise on it, that a story's shots ignore.

    step  frames per latent frame of the model
    """
    table = strategies(story.handover, step)
    names = dict.fromkeys(story.strategy_of(shot) for shot in range(len(story.shots)))
    used: list[Handing] = [table[name] for name in names]
    if any(shot.transition == "bridge" for shot in story.shots):
        used.append(FlfBridge())
    read = {"seeds"}.union(*(how.reads for how in used))
    for name, info in Handover.model_fields.items():
        value = getattr(story.handover, name)
        if name not in read and value != info.default:
            raise BadRequest(
                f"handover.{name}={value} does nothing with strategy {' and '.join(names)}; leave "
                f"it out or use {_READERS[name]}.",
                field="handover",
            )
    if story.controls.history_noise:
        _refuse_noise(story, set(names))


def _refuse_noise(story: Story, used: set[str]) -> None:
    """Raise BadRequest for noise that the clips of some strategy in use cannot have."""
    if used <= {"single", "keyframes"}:
        raise BadRequest(
            f"controls.history_noise={story.controls.history_noise} does nothing with strategy "
            f"{' and '.join(sorted(used))}; leave it out or use strategy last_frame or overlap.",
            field="controls",
        )
    if story.handover.mode == "renoise" and "overlap" in used:
        raise BadRequest(
            "handover.mode=renoise sets its own noise; leave controls.history_noise out, or use "
            "mode pin.",
            field="controls",
        )


def _check_pictures(shot: int, story: Story) -> None:
    """A picture at the start of a shot that continues would be shown by no strategy."""
    if story.transition(shot) == "continue" and story.shots[shot].image is not None:
        raise BadRequest(
            f"Shot {shot + 1} continues the one before and has a picture of its own; give it "
            "transition cut or bridge, or let the shot before end on it (last_image).",
            field="shots",
        )


def _choose_windows(clips: list[ClipPlan], story: Story, lengths: Lengths) -> list[ClipPlan]:
    """Let a clip end early for the one that continues it, where its own end is free.

    An end is not free where it is a picture, or where latents go on from it: those end with the
    last frame that is made, so it must be one that is shown.
    """
    found = list(clips)
    hows = [handing(clip.strategy, story.handover, lengths.step) for clip in clips]
    fixed = {clip.index for clip in clips if clip.end is not None}
    fixed |= {
        clip.previous
        for clip, how in zip(clips, hows, strict=True)
        if clip.previous is not None and not how.colours
    }
    for clip, how in zip(clips, hows, strict=True):
        if clip.previous is None or how.window == 1:
            continue
        before = found[clip.previous]
        if clip.index in fixed:
            exact = clip.stop - clip.first
            found[clip.index] = dataclasses.replace(found[clip.index], num_frames=exact)
        elif before.index not in fixed:
            window = min(how.window, before.shown)
            found[before.index] = dataclasses.replace(before, window=window)
    return found


def _check(clip: ClipPlan, story: Story, lengths: Lengths, able: Collection[Capability]) -> None:
    needs = set(_needs(clip, story, lengths))
    if needs == {Capability.TEXT} and missing(needs, able):
        raise Unsupported(
            f"Shot {clip.shot + 1} begins with no picture and this model needs one; give the shot "
            "an image.",
            field="shots",
        )
    table = strategies(story.handover, lengths.step)
    usable = [name for name, item in table.items() if not missing(item.needs, able)]
    what = f"Shot {clip.shot + 1} with strategy {clip.strategy}"
    if clip.end is not None and clip.end.path is not None:
        what += ", which ends on a picture,"
    refuse_missing(what, needs, able, usable, "strategy")


def _check_tail(clip: ClipPlan, clips: list[ClipPlan]) -> None:
    if clip.previous is None:
        return
    before = clips[clip.previous]
    if before.stop - before.first < clip.overlap:
        raise BadRequest(
            f"Shot {clip.shot + 1} takes over {clip.overlap} frames and the clip before has "
            f"{before.stop - before.first}; use a longer shot or a smaller handover.overlap.",
            field="handover",
        )


def _check_noise(story: Story, able: Collection[Capability]) -> None:
    noise = story.controls.history_noise
    if noise == 0:
        return
    refuse_missing(
        f"history_noise={noise}", {Capability.PER_TOKEN_T}, able, ["history_noise=0"], "controls"
    )


def _needs(clip: ClipPlan, story: Story, lengths: Lengths) -> frozenset[Capability]:
    """Return what a model must take to make a clip."""
    if clip.previous is None:
        return {
            (False, False): frozenset({Capability.TEXT}),
            (True, False): frozenset({Capability.FIRST_FRAME}),
            (False, True): frozenset({Capability.END_FRAME}),
            (True, True): frozenset({Capability.LAST_FRAME}),
        }[clip.start is not None, clip.end is not None]
    needs = handing(clip.strategy, story.handover, lengths.step).needs
    if clip.end is None:
        return needs
    # A model that takes a last frame alone pins frames wherever they are.
    by_picture = Capability.FIRST_FRAME in needs
    return needs | {Capability.LAST_FRAME if by_picture else Capability.END_FRAME}
