"""The fitted line of a signal and its interval, in the unit of the plot."""

# k clips  f frames
from dataclasses import dataclass

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.resample import settled
from chaining.drift.segment import Segment
from chaining.drift.trend import Slope
from chaining.drift_report.measured import Measured
from chaining.drift_report.panels import Line


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A line through a segment's clips: where their middles lie, its values, and its interval."""

    seconds: Double
    centre: Double
    low: Double
    high: Double


def clip_levels(measured: Measured, line: Line) -> Double:
    """Return what each clip reads in a line's unit, (k,), nan where nothing is known."""
    levels = []
    for clip, row in zip(measured.features, measured.drift.clips, strict=True):
        values = line.values(clip)
        if values is None:
            levels.append(row.readings.get(line.reading, float("nan")))
        else:
            kept = values[settled(len(values)) :]
            known = kept[np.isfinite(kept)]
            levels.append(float(known.mean()) if len(known) else float("nan"))
    return np.array(levels)


def middles(measured: Measured) -> Double:
    """Return the middle of each clip in seconds, (k,)."""
    fps = measured.drift.source.fps
    return np.array([(row.start + row.end - 1) / 2 / fps for row in measured.drift.clips])


def fits(measured: Measured, line: Line) -> list[Fit]:
    """Return the fitted line of every segment that has a slope for it."""
    levels, seconds = clip_levels(measured, line), middles(measured)
    found = []
    for segment in measured.drift.segments:
        members = slice(segment.first, segment.last + 1)
        values = levels[members]
        if line.slope not in segment.slopes or not np.isfinite(values).all():
            continue
        if line.ratio and (values <= 0).any():
            continue
        found.append(_fit(segment, segment.slopes[line.slope], values, seconds[members], line))
    return found


def _fit(segment: Segment, slope: Slope, values_k: Double, seconds_k: Double, line: Line) -> Fit:
    """Put the slope through the clips' values; the interval turns about the middle clip."""
    clips = np.arange(segment.num_clips)
    jumps = np.sum([step.size * (clips >= step.clip) for step in slope.steps], axis=0)
    flat = (np.log(values_k) if line.ratio else values_k) - jumps
    start = np.median(flat - slope.value * clips)
    pivot = (segment.num_clips - 1) / 2
    at_pivot = start + slope.value * pivot
    lines = [at_pivot + rate * (clips - pivot) + jumps for rate in (slope.value, *slope.ci95)]
    lines = [np.exp(each) for each in lines] if line.ratio else lines
    low, high = np.minimum(lines[1], lines[2]), np.maximum(lines[1], lines[2])
    return Fit(seconds_k, lines[0], low, high)
