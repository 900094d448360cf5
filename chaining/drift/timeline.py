"""The clips of a chain laid end to end: signals of all frames, and where each clip begins."""

# f frames of all clips
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from chaining.drift.arrays import Array, Double
from chaining.drift.features import SCALARS, ClipFeatures
from vidgen.errors import BadRequest

Found = TypeVar("Found")
Memory = dict[Hashable, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """All frames of a chain.

    scalars  signal -> (f,)
    starts   first frame of each clip; kinds how each follows the one before it
    thumbs   of each clip
    memory   what was read of frames that later clips do not change; see `once`
    """

    fps: float
    scalars: dict[str, Double]
    starts: tuple[int, ...]
    kinds: tuple[str, ...]
    thumbs: tuple[Array, ...]
    memory: Memory = field(default_factory=dict)

    @property
    def num_frames(self) -> int:
        """The number of frames."""
        return len(self.scalars["luma"])

    def once(self, key: Hashable, until: int, make: Callable[[], Found]) -> Found:
        """Return what `make` gives, from memory where it is there.

        key    names it; until is the end of the frames that it depends on, all of which must be
               there for it to be kept
        """
        if key in self.memory:
            kept: Found = self.memory[key]
            return kept
        found = make()
        if until <= self.num_frames:
            self.memory[key] = found
        return found

    def clip_of(self, frame: int) -> int:
        """Return the clip that a frame belongs to."""
        return int(np.searchsorted(self.starts, frame, side="right")) - 1

    def segments(self) -> list[list[int]]:
        """Return the clips of each segment; a cut or an anchor begins a new one."""
        found: list[list[int]] = []
        for clip, kind in enumerate(self.kinds):
            if clip == 0 or kind != "continue":
                found.append([])
            found[-1].append(clip)
        return found

    def span(self, clips: Sequence[int]) -> tuple[int, int]:
        """Return first frame and end of some clips that follow each other."""
        last = clips[-1] + 1
        return self.starts[clips[0]], (
            self.starts[last] if last < len(self.starts) else self.num_frames
        )


def lay_out(clips: Sequence[ClipFeatures], memory: Memory | None = None) -> Timeline:
    """Lay clips end to end.

    memory  what was read of a beginning of the same clips
    Raises  BadRequest (none, or of different size or frame rate)
    """
    if not clips:
        raise BadRequest("There are no clips to analyse; give at least one.")
    first = clips[0]
    for index, clip in enumerate(clips):
        thumbs = (clip.thumbs_frwc.shape[1:], first.thumbs_frwc.shape[1:])
        if (clip.width, clip.height) != (first.width, first.height) or thumbs[0] != thumbs[1]:
            raise BadRequest(
                f"Clip {index} was measured at {clip.width}x{clip.height}, clip 0 at "
                f"{first.width}x{first.height}; measure all clips at one size."
            )
        if clip.fps != first.fps:
            raise BadRequest(
                f"Clip {index} has {clip.fps:g} frames per second, clip 0 has {first.fps:g}; "
                "give all clips one frame rate."
            )
    lengths = [clip.num_frames for clip in clips]
    return Timeline(
        fps=first.fps,
        scalars={name: np.concatenate([clip.scalars[name] for clip in clips]) for name in SCALARS},
        starts=tuple(int(start) for start in np.cumsum([0, *lengths[:-1]])),
        kinds=tuple(clip.kind for clip in clips),
        thumbs=tuple(clip.thumbs_frwc for clip in clips),
        memory={} if memory is None else memory,
    )


def usual(timeline: Timeline, name: str, values_f: Double, reach: int) -> tuple[Double, Double]:
    """Return medians and spreads of the frames around each frame, without itself.

    name    of the values, which at a frame depend on no later one
    reach   frames of each side
    """
    parts = []
    for clip, start in enumerate(timeline.starts):
        span = timeline.span([clip])
        read = partial(_usual_of, values_f, span, reach)
        parts.append(timeline.once(("usual", name, start), span[1] + reach, read))
    return np.concatenate([one for one, _ in parts]), np.concatenate([two for _, two in parts])


def _usual_of(values_f: Double, span: tuple[int, int], reach: int) -> tuple[Double, Double]:
    start, end = span
    low = max(start - reach, 0)
    middle, spread = middle_and_spread(around(values_f[low : end + reach], reach))
    own = slice(start - low, end - low)
    return middle[own], spread[own]


def around(values_f: Double, reach: int) -> Double:
    """Return each frame's neighbours up to `reach` away, without itself, as (f, 2 reach)."""
    padded = np.pad(values_f, reach, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    return np.delete(windows, reach, axis=1)


def middle_and_spread(neighbours_fn: Double) -> tuple[Double, Double]:
    """Return medians and scaled median deviations of rows, 0 where a row has no number."""
    known = np.asarray(np.isfinite(neighbours_fn).any(axis=1))
    middle, spread = np.zeros(len(known)), np.zeros(len(known))
    rows = neighbours_fn[known]
    middle[known] = np.nanmedian(rows, axis=1)
    spread[known] = 1.4826 * np.nanmedian(np.abs(rows - middle[known, None]), axis=1)
    return middle, spread
