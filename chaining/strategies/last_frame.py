"""last_frame: the last frame of a clip, or its sharpest late one, is the next clip's first."""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.controls import Handover
from chaining.joins import sharpest
from chaining.layout import Layout
from chaining.strategies.base import Float, Given, Seen, Sharing

WINDOW = 8  # late frames among which the sharpest is chosen


class LastFrame:
    """One frame is handed over; the new clip's own rendering of it is dropped."""

    name: ClassVar[str] = "last_frame"
    needs: frozenset[Capability] = frozenset({Capability.FIRST_FRAME})
    reads: frozenset[str] = frozenset({"pick", "through"})
    colours = True

    def __init__(self, handover: Handover) -> None:
        self.window = WINDOW if handover.pick == "sharpest" else 1
        self._sharing = Sharing(1, window=self.window)

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down the clips of a shot; see Strategy.plan."""
        self._sharing.plan(self.name, shot, frames, layout)

    def tail(self, plan: ClipPlan) -> int:
        """One frame."""
        return plan.overlap

    def pick(self, frames_frwc: Float) -> int:
        """Choose the last or the sharpest of the frames."""
        return len(frames_frwc) - 1 if self.window == 1 else sharpest(frames_frwc, len(frames_frwc))

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give the frame as the clip's first picture."""
        if plan.previous is None:
            return Given(image_rwc=seen.start_rwc, last_image_rwc=seen.end_rwc)
        assert seen.tail_frwc is not None
        frame_frwc = seen.tail_frwc[-1:]
        return Given(image_rwc=frame_frwc[0], last_image_rwc=seen.end_rwc, twins_frwc=frame_frwc)
