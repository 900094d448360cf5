"""Layout: the clips of a story as they are laid down one after the other; frame arithmetic only."""

import dataclasses
from fractions import Fraction

from chaining.clip_plan import ClipPlan, Follows, Kind, Source
from chaining.lengths import Lengths, divide
from chaining.seeds import clip_seed
from chaining.story import Story


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """One clip's part of a shot: frames that it adds to the video and frames that are made."""

    shown: int
    num_frames: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Bridge:
    num_frames: int
    before: int
    first: int
    place: int


class Layout:
    """The clips so far, in the order in which they are made.

    end     frames of the video so far
    last    number of the clip that ends there
    anchor  the picture from which the segment began
    """

    def __init__(self, story: Story, lengths: Lengths, fps: Fraction, seed: int) -> None:
        self.story = story
        self.lengths = lengths
        self.fps = fps
        self.clips: list[ClipPlan] = []
        self.end = 0
        self.last: int | None = None
        self.anchor: Source | None = None
        self._seed = seed
        self._places = 0
        self._segment = -1
        self._asked = Fraction(0)
        self._bridged = 0
        self._bridge: _Bridge | None = None
        self._follows: Follows = "cut"

    def begin_shot(self, shot: int) -> int:
        """Take up the next shot; return how many frames it should have.

        Ends are counted from the start of the video, so that roundings do not add up.
        """
        transition = self.story.transition(shot)
        if transition == "bridge":
            self._open_bridge()
        if transition != "continue":
            self._segment += 1
            self._follows = "anchor" if transition == "bridge" else "cut"
            self.anchor = None
        self._asked += Fraction(self.story.shots[shot].seconds).limit_denominator(10000)
        return max(1, round(self._asked * self.fps) + self._bridged - self.end)

    def divide(self, frames: int, overlap: int, spare: int, *, begins: bool) -> list[Piece]:
        """Divide about so many frames among clips of legal lengths.

        overlap  frames that a continuing clip shares with the one before
        spare    frames that it makes beyond those that it shows
        """
        step, most = self.lengths.step, self.lengths.most
        room = (most - overlap - spare) // step
        first_room = (most - 1) // step if begins else room
        groups = max(1, round((frames - begins) / step))
        counts = divide(groups, first_room, room)
        while begins and step * counts[0] + 1 < overlap and max(counts[1:], default=1) > 1:
            counts[counts.index(max(counts[1:]), 1)] -= 1  # the second needs that many to go on
            counts[0] += 1
        pieces = []
        for number, count in enumerate(counts):
            fresh = begins and number == 0
            shown = step * count + fresh
            made = shown if fresh else self.lengths.up(shown + overlap + spare)
            pieces.append(Piece(shown, made))
        return pieces

    def add(
        self,
        shot: int,
        strategy: str,
        piece: Piece,
        *,
        previous: int | None = None,
        start: Source | None = None,
        end: Source | None = None,
        overlap: int = 0,
        mixed: int = 0,
    ) -> ClipPlan:
        """Lay down the next clip that is shown, and a bridge that waits for it."""
        place = self._next_place()
        own_first = not any(clip.shot == shot and clip.kind == "clip" for clip in self.clips)
        plan = ClipPlan(
            index=len(self.clips),
            kind="clip",
            place=place,
            shot=shot,
            segment=self._segment,
            strategy=strategy,
            follows=self._follows,
            prompt=self.story.shots[shot].prompt,
            seed=self._seed_of(shot, "clip", place, own=own_first),
            num_frames=piece.num_frames,
            previous=previous,
            start=start,
            end=end,
            overlap=overlap,
            mixed=mixed,
            first=self.end - overlap,
            stop=self.end + piece.shown,
        )
        self.clips.append(plan)
        self.end, self.last, self._follows = plan.stop, plan.index, "continue"
        self.anchor = self.anchor or Source(clip=plan.index, at="first")
        if self._bridge is not None:
            self._close_bridge(plan)
        return plan

    def add_keyframe(self, shot: int, num_frames: int, start: Source | None) -> ClipPlan:
        """Lay down a clip of which only the last frame is used."""
        index = len(self.clips)
        plan = ClipPlan(
            index=index,
            kind="keyframe",
            place=-1,
            shot=shot,
            segment=self._segment,
            strategy="keyframes",
            follows="anchor",
            prompt=self.story.shots[shot].prompt,
            seed=self._seed_of(shot, "keyframe", index, own=False),
            num_frames=num_frames,
            start=start,
            stop=num_frames,
        )
        self.clips.append(plan)
        return plan

    def _seed_of(self, shot: int, kind: Kind, number: int, *, own: bool) -> int:
        asked = self.story.shots[shot].seed
        same = self.story.handover.seeds == "same"
        if asked is not None and (own or same):
            return asked
        label = "clip 0" if same else f"{kind} {number}"
        return clip_seed(self._seed if asked is None else asked, label)

    def _next_place(self) -> int:
        self._places += 1
        return self._places - 1

    def _open_bridge(self) -> None:
        """Make room for a bridge: both of its end frames are shown by its neighbours."""
        assert self.last is not None
        wanted = max(1, round(Fraction(self.story.handover.bridge_seconds) * self.fps)) + 2
        made = min(self.lengths.up(wanted), self.lengths.most)
        self._bridge = _Bridge(made, self.last, self.end - 1, self._next_place())
        self._bridged += made - 2
        self.end += made - 2

    def _close_bridge(self, after: ClipPlan) -> None:
        bridge = self._bridge
        assert bridge is not None
        self._bridge = None
        shot = self.story.shots[after.shot]
        self.clips.append(
            ClipPlan(
                index=len(self.clips),
                kind="bridge",
                place=bridge.place,
                shot=after.shot,
                segment=self.clips[bridge.before].segment,
                strategy="flf_bridge",
                follows="continue",
                prompt=shot.prompt,
                seed=self._seed_of(after.shot, "bridge", bridge.place, own=False),
                num_frames=bridge.num_frames,
                start=Source(clip=bridge.before),
                end=Source(clip=after.index, at="first"),
                overlap=1,
                first=bridge.first,
                stop=after.first,
            )
        )
