"""What happens at the junction of two clips."""

from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.timeline import Timeline, middle_and_spread, usual

_REACH = 12  # frames before and after a seam that it is compared with
_LEVELS = ("luma", "chroma", "ok_a", "ok_b", "high_share", "noise")
_ABRUPT = 5.0  # usual errors
_ENOUGH = 6  # places without a seam that say what error is usual
_SIDE = 4  # frames of each side that make its level
# Weights of the frames around a jump: lines through four frames of each side, or the step less the
# mean of the steps before and after it.
_JUMPS = (
    np.array([0.35, -0.05, -0.45, -0.85, 0.85, 0.45, 0.05, -0.35]),
    np.array([0.5, -1.5, 1.5, -0.5]),
)


@dataclass(frozen=True, slots=True)
class Seam:
    """One junction.

    frame, clip   the first frame after it and that frame's clip
    ratio, z      change of the thumbnails at the seam over, and in spreads beyond, the usual one
    luma_step     jump of the mean luma beyond what the motion on both sides explains; luma_spread
                  what that usually reads where no seam is, luma_z the step in such spreads, 0
                  where too few frames are around to tell what is usual
    high_step     logarithm of the ratio of fine detail after and before
    flow_ratio, flow_angle  motion after over before, and the turn of its direction in degrees
    """

    frame: int
    clip: int
    kind: str
    ratio: float
    z: float
    luma_step: float
    luma_z: float
    luma_spread: float
    high_step: float
    flow_ratio: float
    flow_angle: float


def read_seams(timeline: Timeline) -> list[Seam]:
    """Read every junction of a chain."""
    return [
        timeline.once(
            ("seam", clip), timeline.starts[clip] + _REACH + 1, partial(_read, timeline, clip)
        )
        for clip in range(1, len(timeline.starts))
    ]


def _read(timeline: Timeline, clip: int) -> Seam:
    frame = timeline.starts[clip]
    signals = timeline.scalars
    low, high = max(frame - _REACH - 1, 0), min(frame + _REACH + 1, timeline.num_frames)
    change = signals["thumb_change"][low:high]
    middle, spread = _usual(change, frame - low)
    here = float(np.nan_to_num(change[frame - low]))
    step, step_spread = step_at(timeline, "luma", frame)
    is_known = bool(np.isfinite(step_spread))
    step_spread = max(step_spread, 0.001) if is_known else 0.001
    before, after = slice(max(frame - _SIDE, 0), frame), slice(frame + 1, frame + 1 + _SIDE)
    detail = signals["high_share"]
    fine_after = detail[frame : frame + _SIDE].mean()
    return Seam(
        frame=frame,
        clip=clip,
        kind=timeline.kinds[clip],
        ratio=here / max(middle, 0.003),
        z=(here - middle) / max(spread, 0.001),
        luma_step=step,
        luma_z=abs(step) / step_spread if is_known else 0.0,
        luma_spread=step_spread,
        high_step=float(np.log((fine_after + 1e-6) / (detail[before].mean() + 1e-6))),
        flow_ratio=(_mean(signals["flow"][after]) + 0.02) / (_mean(signals["flow"][before]) + 0.02),
        flow_angle=_turn(signals, before, after),
    )


def _usual(values: Double, place: int) -> tuple[float, float]:
    neighbours = np.delete(values, place)[None]
    middle, spread = middle_and_spread(neighbours)
    return float(middle[0]), float(spread[0])


def is_abrupt(timeline: Timeline, clip: int) -> bool:
    """Say whether any signal jumps at the seam into a clip by far more than between its frames.

    Only there may a step be taken out of a trend: content that comes and goes jumps at no seam.
    """
    frame = timeline.starts[clip]
    for name in _LEVELS:
        step, spread = step_at(timeline, name, frame)
        error = spread if np.isfinite(spread) else 0.0
        if abs(step) > max(_ABRUPT * error, 1e-3):
            return True
    return False


def step_at(timeline: Timeline, name: str, frame: int) -> tuple[float, float]:
    """Return `level_step` of a signal."""
    read = partial(level_step, timeline.scalars[name], frame)
    return timeline.once(("step", name, frame), frame + _REACH, read)


def level_step(values_f: Double, frame: int) -> tuple[float, float]:
    """Return a signal's jump at a frame beyond its motion, and what that reads where none is.

    Two ways of taking the motion out are tried on the frames around; the one that errs less there
    is used. The second value is its usual error, inf where too few frames are around to tell.
    """
    tried = []
    for weights in _JUMPS:
        reach = len(weights) // 2
        low = max(frame - _REACH, 0)
        stretch = values_f[low : frame + _REACH]
        if frame - low < reach or len(stretch) - (frame - low) < reach:
            continue
        jumps = np.correlate(stretch, weights, "valid")  # jumps[i] is that at frame low + reach + i
        place = frame - low - reach
        others = np.abs(np.delete(jumps, slice(max(place - _SIDE, 0), place + _SIDE + 1)))
        is_known = len(others) >= _ENOUGH
        spread = 1.4826 * float(np.median(others)) if is_known else float("inf")
        tried.append((spread, float(jumps[place])))
    if not tried:
        return float(values_f[frame] - values_f[frame - 1]), float("inf")
    spread, step = min(tried, key=itemgetter(0))
    return step, spread


def _mean(values: Double) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _turn(signals: dict[str, Double], before: slice, after: slice) -> float:
    """Return the angle between the mean motions of two stretches, 0 where there is none."""
    one, two = (
        complex(_mean(signals["flow_x"][side]), _mean(signals["flow_y"][side]))
        for side in (before, after)
    )
    if min(abs(one), abs(two)) < 0.02:
        return 0.0
    return float(abs(np.rad2deg(np.angle(two / one))))


def outliers(timeline: Timeline) -> list[int]:
    """Return the frames, seams included, that differ from the one before as cuts do."""
    change = timeline.scalars["thumb_change"]
    middle, spread = usual(timeline, "thumb_change", change, _REACH)
    here = np.nan_to_num(change)
    beyond = here - middle >= 6 * np.maximum(spread, 0.001)
    jumps = (here / np.maximum(middle, 0.003) >= 4) & beyond
    return [int(frame) for frame in np.flatnonzero(jumps)]
