"""Schedule: every clip of a story before anything runs, with exact frame counts; needs no torch."""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.lengths import Lengths
from chaining.story import Story
from chaining.strategies.storyboard import lay_story, refuse_unused
from vidgen.adjustment import Adjustment


@dataclass(frozen=True, slots=True)
class Schedule:
    """The clips of a story.

    clips        in the order in which they are made
    num_frames   of the whole video
    seed         of the story, drawn if it had none
    adjustments  what the seconds that were asked for became
    """

    clips: tuple[ClipPlan, ...]
    fps: Fraction
    seed: int
    num_frames: int
    adjustments: tuple[Adjustment, ...]

    @property
    def shown(self) -> tuple[ClipPlan, ...]:
        """The clips that are shown, in the order of the video."""
        found = [clip for clip in self.clips if clip.place >= 0]
        return tuple(sorted(found, key=lambda clip: clip.place))

    @property
    def num_frames_made(self) -> int:
        """Frames that the model makes in all."""
        return sum(clip.num_frames for clip in self.clips)

    @property
    def seconds(self) -> Fraction:
        """Exact length of the video."""
        return self.num_frames / self.fps

    def as_dict(self) -> dict[str, Any]:
        """Return the schedule as JSON-ready data."""
        return {
            "seed": self.seed,
            "fps": str(self.fps),
            "num_frames": self.num_frames,
            "num_frames_made": self.num_frames_made,
            "seconds": float(self.seconds),
            "clips": [clip.as_dict() for clip in self.clips],
            "adjustments": [item.as_dict() for item in self.adjustments],
        }


def make_schedule(
    story: Story,
    lengths: Lengths,
    fps: Fraction,
    able: Collection[Capability],
    seed: int | None = None,
    *,
    begun: bool = False,
) -> Schedule:
    """Decide every clip of a story.

    able    what the model can be given
    seed    used when the story has none; drawn when both are missing
    begun   there is a chain of it, so that options which do nothing are not refused any more
    Raises  BadRequest, Unsupported
    """
    if not begun:
        refuse_unused(story, lengths.step)
    found = story.seed if story.seed is not None else seed
    found = secrets.randbits(31) if found is None else found
    clips = tuple(lay_story(story, lengths, fps, able, found))
    num_frames = max(clip.stop for clip in clips if clip.place >= 0)
    told = tuple(_explain(story, clips, lengths, fps))
    return Schedule(clips, fps, found, num_frames, told)


def _explain(
    story: Story, clips: tuple[ClipPlan, ...], lengths: Lengths, fps: Fraction
) -> list[Adjustment]:
    """Say what each shot's seconds became, and how much longer bridges make the video."""
    rule = f"clips have {lengths.step}n+1 frames"
    found = []
    for number, shot in enumerate(story.shots):
        frames = sum(clip.shown for clip in clips if clip.shot == number and clip.kind == "clip")
        used = round(float(frames / fps), 6)
        if abs(used - shot.seconds) > 1e-6:
            why = f"{rule}; {frames} frames at {fps} fps"
            found.append(Adjustment(f"shots.{number}.seconds", shot.seconds, used, why))
    bridges = [clip for clip in clips if clip.kind == "bridge"]
    if bridges:
        added = round(float(sum(clip.shown for clip in bridges) / fps), 6)
        total = round(float(max(clip.stop for clip in clips if clip.place >= 0) / fps), 6)
        why = f"bridges are made between shots and add {added:g} s"
        found.append(Adjustment("seconds", story.seconds, total, why))
    return found
