"""overlap: a clip begins on the last frames of the one before, which say where things move."""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.controls import Handover
from chaining.layout import Layout
from chaining.strategies.base import Float, Given, Seen, Sharing


class Overlap:
    """Several frames are handed over; the end of the overlap is mixed, the rest is dropped.

    In mode blend only the first of them is given, both clips are free, and all of it is mixed.
    """

    name: ClassVar[str] = "overlap"
    window = 1
    colours = True

    def __init__(self, handover: Handover) -> None:
        self._mode = handover.mode
        self._noise = handover.noise if handover.mode == "noise" else 0.0
        whole = handover.mode == "blend" or handover.join == "cut"
        mixed = handover.overlap if whole else min(handover.join_frames, handover.overlap)
        self._sharing = Sharing(handover.overlap, mixed=mixed)
        reads = {"overlap", "mode", "join", "through"}
        reads |= {"noise"} if handover.mode == "noise" else set()
        self.reads = frozenset(reads if whole else reads | {"join_frames"})
        self.needs: frozenset[Capability] = {
            "pin": frozenset({Capability.MULTI_FRAME}),
            "noise": frozenset({Capability.MULTI_FRAME, Capability.PER_TOKEN_T}),
            "renoise": frozenset({Capability.MULTI_FRAME, Capability.RENOISE}),
            "blend": frozenset({Capability.FIRST_FRAME}),
        }[handover.mode]

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down the clips of a shot; see Strategy.plan."""
        self._sharing.plan(self.name, shot, frames, layout)

    def tail(self, plan: ClipPlan) -> int:
        """The whole overlap."""
        return plan.overlap

    def pick(self, frames_frwc: Float) -> int:
        """The last frame: motion goes on from there."""
        return len(frames_frwc) - 1

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give the shared frames, or in mode blend the first of them."""
        if plan.previous is None:
            return Given(image_rwc=seen.start_rwc, last_image_rwc=seen.end_rwc)
        assert seen.tail_frwc is not None
        if self._mode == "blend":
            return Given(
                image_rwc=seen.tail_frwc[0],
                last_image_rwc=seen.end_rwc,
                twins_frwc=seen.tail_frwc[:1],
            )
        return Given(
            last_image_rwc=seen.end_rwc,
            prefix_frwc=seen.tail_frwc,
            renoise=self._mode == "renoise",
            noise=self._noise,
            twins_frwc=seen.tail_frwc,
        )
