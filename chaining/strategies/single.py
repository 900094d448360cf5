"""single: one clip a shot, no hand-over."""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.layout import Layout, Piece
from chaining.strategies.base import Float, Given, Seen, end_of, start_of
from vidgen.errors import BadRequest


class Single:
    """A shot is one clip; it begins with its picture or with the prompt alone."""

    name: ClassVar[str] = "single"
    needs: frozenset[Capability] = frozenset()
    reads: frozenset[str] = frozenset()
    window = 1
    colours = True

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down one clip of the nearest legal length.

        Raises  BadRequest for a shot that continues, and for one beyond the model's longest clip
        """
        if layout.story.transition(shot) == "continue":
            raise BadRequest(
                f"Shot {shot + 1} cannot continue with strategy single; give it transition cut, or "
                "the strategy last_frame.",
                field="strategy",
            )
        step, longest = layout.lengths.step, layout.lengths.longest
        made = max(0, round((frames - 1) / step)) * step + 1
        if made > longest:
            raise BadRequest(
                f"Shot {shot + 1} takes {made} frames in one clip and the model was trained on "
                f"{longest}; use the strategy last_frame, or a shorter shot.",
                field="strategy",
            )
        start, end = start_of(shot, layout), end_of(shot, layout)
        layout.add(shot, self.name, Piece(made, made), start=start, end=end)

    def tail(self, plan: ClipPlan) -> int:
        """It takes over nothing."""
        del plan
        return 0

    def pick(self, frames_frwc: Float) -> int:
        """Nothing continues from it by this strategy."""
        return len(frames_frwc) - 1

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give the pictures that it begins and ends with."""
        del plan
        return Given(image_rwc=seen.start_rwc, last_image_rwc=seen.end_rwc)
