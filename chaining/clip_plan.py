"""ClipPlan: one clip of a chain as it is decided before anything runs; plain data."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["clip", "keyframe", "bridge"]
Follows = Literal["continue", "cut", "anchor"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a picture comes from: a file, or a frame of another clip of the chain.

    at  first or last frame that is shown of that clip
    """

    path: str | None = None
    clip: int | None = None
    at: Literal["first", "last"] = "last"

    @classmethod
    def from_dict(cls, data: dict[str, Any] | None) -> "Source | None":
        """Read what `asdict` gave."""
        return None if data is None else cls(**data)


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """One clip, in the order in which clips are made.

    index       place in that order
    kind        clip, keyframe (only its last frame is used) or bridge
    place       place in the video, -1 for a keyframe
    segment     clips of one segment follow from one start; drift is counted within it
    follows     how it follows the clip shown before it
    previous    clip whose last frames it takes over, if any
    start, end  pictures that it begins and ends with, if any
    num_frames  frames that the model makes
    overlap     frames at its start that stand for frames of the clip shown before
    mixed       of the overlap's last frames, how many are mixed with the clip before; the others
                are dropped
    first       frame of the video at which its frame 0 would stand
    stop        frame of the video at which it ends, exclusive
    window      its last so many shown frames of which the next clip may choose its start
    """

    index: int
    kind: Kind
    place: int
    shot: int
    segment: int
    strategy: str
    follows: Follows
    prompt: str
    seed: int
    num_frames: int
    previous: int | None = None
    start: Source | None = None
    end: Source | None = None
    overlap: int = 0
    mixed: int = 0
    first: int = 0
    stop: int = 0
    window: int = 1

    @property
    def shown(self) -> int:
        """Frames that it adds to the video, were the last one handed over."""
        if self.kind == "keyframe":
            return 0
        return self.stop - self.first - self.overlap

    @property
    def dropped(self) -> int:
        """Frames that are made and not shown, were the last one handed over."""
        return self.num_frames - self.shown - self.mixed

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data that from_dict turns back into an equal plan."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "ClipPlan":
        """Read what as_dict gave."""
        sources = {name: Source.from_dict(data[name]) for name in ("start", "end")}
        return cls(**{**data, **sources})
