"""storyboard: lays down all shots of a story, each by its own strategy, with cuts and bridges.

It also refuses what the model cannot do, before anything runs.
"""

import dataclasses
from collections.abc import Collection
from fractions import Fraction

from chaining.capabilities import Capability, missing, refuse_missing
from chaining.clip_plan import ClipPlan
from chaining.layout import Layout
from chaining.lengths import Lengths
from chaining.story import Story
from chaining.strategies import handing, strategies
from vidgen.errors import BadRequest, Unsupported


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


def _check_pictures(shot: int, story: Story) -> None:
    """A picture at the start of a shot that continues would be shown by no strategy."""
    if story.transition(shot) == "continue" and story.shots[shot].image is not None:
        raise BadRequest(
            f"Shot {shot + 1} continues the one before and has a picture of its own; give it "
            "transition cut or bridge, or let the shot before end on it (last_image).",
            field="shots",
        )


def _choose_windows(clips: list[ClipPlan], story: Story, lengths: Lengths) -> list[ClipPlan]:
    """Let a clip end early for the one that continues it, where neither aims at a picture."""
    found = list(clips)
    for clip in clips:
        wanted = handing(clip.strategy, story.handover, lengths.step).window
        if clip.previous is None or wanted == 1:
            continue
        before = found[clip.previous]
        if clip.end is not None:
            exact = clip.stop - clip.first
            found[clip.index] = dataclasses.replace(found[clip.index], num_frames=exact)
        elif before.end is None:
            window = min(wanted, before.shown)
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
    if story.handover.mode == "renoise" and story.strategy == "overlap":
        raise BadRequest(
            "handover.mode=renoise sets its own noise; leave controls.history_noise out, or use "
            "mode pin.",
            field="controls",
        )
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
