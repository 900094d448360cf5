"""Flashes: frames whose brightness leaps and comes back, at a clip's start or anywhere."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.timeline import Timeline, usual

_HEAD = 8  # a flash returns within so many frames
_LINE = 24  # the line that a clip's start is compared with ends here
_REACH = 12
_SMALLEST = 0.02


@dataclass(frozen=True, slots=True)
class Flash:
    """Frames first..last whose mean luma is off by `size` (below 0: darker)."""

    first: int
    last: int
    size: float


@dataclass(frozen=True, slots=True)
class Settling:
    """How a clip begins: the largest deviation of its first frames from the line that follows.

    frame    where that is, in the whole chain
    returns  whether it is over within eight frames
    """

    clip: int
    frame: int
    size: float
    returns: bool


def find_flashes(timeline: Timeline) -> list[Flash]:
    """Find brief leaps of brightness anywhere; a cut is no leap."""
    luma = timeline.scalars["luma"]
    steps = np.diff(luma, prepend=luma[0])
    cuts = [s for s, kind in zip(timeline.starts, timeline.kinds, strict=True) if kind == "cut"]
    steps[cuts] = 0
    middle, spread = usual(timeline, "luma steps", steps, _REACH)
    beyond = steps - middle
    leaps = [int(f) for f in np.flatnonzero(np.abs(beyond) > np.maximum(_SMALLEST, 6 * spread))]
    found: list[Flash] = []
    after = 0
    for place, start in enumerate(leaps):
        if start < after:
            continue
        end = _return_of(start, leaps[place + 1 :], beyond)
        if end is not None:
            found.append(Flash(start, end - 1, float((beyond[start] - beyond[end]) / 2)))
            after = end + 1
    return found


def _return_of(start: int, later: list[int], beyond: Double) -> int | None:
    """Return the frame at which a leap is taken back."""
    for end in (frame for frame in later if frame <= start + _HEAD):
        ratio = -beyond[end] / beyond[start]
        if 0.5 <= ratio <= 2:
            return end
    return None


def read_settling(timeline: Timeline) -> list[Settling]:
    """Read how each clip begins."""
    luma = timeline.scalars["luma"]
    ends = (*timeline.starts[1:], timeline.num_frames)
    return [
        timeline.once(("settling", clip), end, partial(_settling, luma[start:end], clip, start))
        for clip, (start, end) in enumerate(zip(timeline.starts, ends, strict=True))
    ]


def _settling(luma: Double, clip: int, start: int) -> Settling:
    """Compare the first frames with two lines, and believe the one that they leave less.

    One line runs through frames 8..24, the other begins right after the largest step; content that
    moves fools either now and then, a flash shows against both.
    """
    if len(luma) < _HEAD + 6:
        return Settling(clip, start, 0.0, True)
    far = _deviations(luma, _HEAD, _LINE, _HEAD)
    steps = np.diff(luma[: _HEAD + 1])
    middle = np.median(np.diff(luma[:_LINE]))
    end = int(np.abs(steps - middle).argmax()) + 1
    near = _deviations(luma, end, end + _HEAD, end)
    deviations = min(far, near, key=lambda each: float(np.abs(each).max()))
    place = int(np.abs(deviations).argmax())
    size = float(deviations[place])
    returns = bool(abs(far[-1]) < max(0.25 * abs(size), 0.01))
    return Settling(clip, start + place, size, returns)


def _deviations(luma: Double, first: int, end: int, count: int) -> Double:
    """Return how far frames 0..count-1 are from the line through frames first..end-1."""
    places = np.arange(first, min(end, len(luma)))
    line = np.polyfit(places, luma[places], 1)
    return np.asarray(luma[:count] - np.polyval(line, np.arange(count)))
