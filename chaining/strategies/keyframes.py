"""keyframes: the frames between clips are made first, each from the start; then the clips between.

No clip starts from a generated neighbour, so an error is that of one clip, however long the video.
"""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan, Source
from chaining.layout import Layout, Piece
from chaining.strategies.base import Float, Given, Seen, end_of, start_of


class Keyframes:
    """Boundaries are the user's pictures or the last frames of clips made from the start."""

    name: ClassVar[str] = "keyframes"
    needs: frozenset[Capability] = frozenset({Capability.FIRST_FRAME, Capability.LAST_FRAME})
    reads: frozenset[str] = frozenset({"through"})
    window = 1
    colours = True

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down a shot's keyframes, then the clips between them."""
        begins = layout.story.transition(shot) != "continue"
        pieces = layout.divide(frames, 1, 0, begins=begins)
        before = None if begins else layout.last
        bounds = self._boundaries(shot, pieces, before, layout)
        for number, piece in enumerate(pieces):
            layout.add(
                shot,
                self.name,
                piece,
                start=bounds[number],
                end=bounds[number + 1],
                overlap=0 if begins and number == 0 else 1,
            )

    def _boundaries(
        self, shot: int, pieces: list[Piece], before: int | None, layout: Layout
    ) -> list[Source]:
        """Return where each clip begins and the last one ends, laying down the keyframes."""
        length = max(piece.num_frames for piece in pieces)
        if layout.anchor is None:
            layout.anchor = start_of(shot, layout)
        if layout.anchor is None:
            opening = layout.add_keyframe(shot, length, None)
            layout.anchor = Source(clip=opening.index, at="first")
        anchor = layout.anchor
        bounds = [anchor]
        if before is not None:
            bounds = [layout.clips[before].end or Source(clip=before)]
        for _ in pieces[1:]:
            bounds.append(Source(clip=layout.add_keyframe(shot, length, anchor).index))
        end = end_of(shot, layout)
        if end is None:
            end = Source(clip=layout.add_keyframe(shot, length, anchor).index)
        return [*bounds, end]

    def tail(self, plan: ClipPlan) -> int:
        """It takes over nothing but boundaries."""
        del plan
        return 0

    def pick(self, frames_frwc: Float) -> int:
        """The last frame is the boundary."""
        return len(frames_frwc) - 1

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give both boundaries; the first one is rendered again by the clip."""
        del plan
        twins = None if seen.start_rwc is None else seen.start_rwc[None]
        return Given(image_rwc=seen.start_rwc, last_image_rwc=seen.end_rwc, twins_frwc=twins)
