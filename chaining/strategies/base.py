"""What a strategy is: how its clips divide a shot, and what each clip is given.

A strategy knows arrays and frame counts; it makes no clip and reads no file.
"""

# f frames  r rows  w columns  c channels  t latent frames
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan, Source
from chaining.layout import Layout
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What earlier clips and files leave to a clip; colours as they are handed over.

    start, end   pictures
    tail_frwc    last shown frames of the clip before
    latents_ctrw all of the clip before
    """

    start_rwc: Float | None = None
    end_rwc: Float | None = None
    tail_frwc: Float | None = None
    latents_ctrw: Float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a clip is conditioned on.

    prefix          frames that it begins with; prefix_latents: what they were decoded from
    context         latents before those, for the decoder
    renoise, noise  how the frames that it begins with enter
    twins           frames that were handed over and that its first frames render again
    """

    image_rwc: Float | None = None
    last_image_rwc: Float | None = None
    prefix_frwc: Float | None = None
    prefix_latents_ctrw: Float | None = None
    context_ctrw: Float | None = None
    renoise: bool = False
    noise: float = 0.0
    twins_frwc: Float | None = None


class Handing(Protocol):
    """One way to hand over from clip to clip.

    needs   what the model must take where a clip continues another
    reads   fields of the story's hand-over that change what it does
    window  last shown frames among which the one that is handed over is chosen
    colours the colours of what it hands over can be corrected
    """

    name: ClassVar[str]
    needs: frozenset[Capability]
    reads: frozenset[str]
    window: int
    colours: bool

    def tail(self, plan: ClipPlan) -> int:
        """Return how many shown frames of the clip before it takes over."""

    def pick(self, frames_frwc: Float) -> int:
        """Return the number of the frame that is handed over, of a clip's last `window` ones."""

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Return what a clip is conditioned on."""


class Strategy(Handing, Protocol):
    """A way to hand over that can fill a shot with clips."""

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down the clips of a shot of about so many frames.

        Raises  BadRequest
        """


@dataclass(frozen=True, slots=True)
class Sharing:
    """Numbers of a strategy whose clips begin on frames of the clip before; see ClipPlan."""

    overlap: int
    mixed: int = 0
    window: int = 1

    def plan(self, name: str, shot: int, frames: int, layout: Layout) -> None:
        """Lay down a shot's clips, the first of them as the story's transition says.

        Raises  BadRequest when an overlap leaves no room for new frames
        """
        self._check_room(layout)
        begins = layout.story.transition(shot) != "continue"
        pieces = layout.divide(frames, self.overlap, self.window - 1, begins=begins)
        for number, piece in enumerate(pieces):
            end = end_of(shot, layout) if number == len(pieces) - 1 else None
            if begins and number == 0:
                layout.add(shot, name, piece, start=start_of(shot, layout), end=end)
                continue
            layout.add(
                shot,
                name,
                piece,
                previous=layout.last,
                end=end,
                overlap=self.overlap,
                mixed=self.mixed,
            )

    def _check_room(self, layout: Layout) -> None:
        step, most = layout.lengths.step, layout.lengths.most
        if (self.overlap - 1) % step:
            nearest = max(0, round((self.overlap - 1) / step)) * step + 1
            raise BadRequest(
                f"handover.overlap={self.overlap} is not {step}n+1; use {nearest}.",
                field="handover",
            )
        if self.overlap + self.window - 1 + step > most:
            raise BadRequest(
                f"The hand-over takes {self.overlap + self.window - 1} frames, which leaves none "
                f"to make of clips of num_frames={most}; use longer clips or a smaller overlap.",
                field="handover",
            )


def start_of(shot: int, layout: Layout) -> Source | None:
    """Return the picture that a shot begins with."""
    path = layout.story.shots[shot].image
    return None if path is None else Source(path=path)


def end_of(shot: int, layout: Layout) -> Source | None:
    """Return the picture that a shot ends on: its own, or for the last shot the story's."""
    path = layout.story.shots[shot].last_image
    if shot == len(layout.story.shots) - 1:
        path = path or layout.story.end_image
    return None if path is None else Source(path=path)
