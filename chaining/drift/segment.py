"""The trend of a segment: clips of one scene that follow each other without a cut."""

# b draws  k clips
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.features import ClipFeatures
from chaining.drift.forecast import (
    BLACK,
    GREY,
    WHITE,
    Forecast,
    ToneRates,
    blur_limit,
    forecast_line,
    forecast_luma,
)
from chaining.drift.readings import Reader, Reading
from chaining.drift.resample import settled
from chaining.drift.seams import is_abrupt, step_at
from chaining.drift.thresholds import SLOPES, UNITS, step_floor
from chaining.drift.timeline import Timeline
from chaining.drift.tone import MODELS
from chaining.drift.trend import Slope, fit_slope

_RATE_OF = {"gain": "gain", "gamma": "gamma", "offset": "offset", "affine": "contrast"}
_SPLIT = ("luma", "ok_l", "ok_a", "ok_b", "chroma", "high_share")


@dataclass(frozen=True, slots=True)
class Split:
    """Change of a signal's mean per clip: in all, the part at the seams, the part inside clips."""

    total: float
    at_seams: float
    inside: float


@dataclass(frozen=True, slots=True)
class Segment:
    """Clips first..last of one scene.

    slopes    signal -> change per clip; empty for fewer than 3 clips
    tone      the curve that explains its change of brightness best; colour likewise
    forecast  black, white, grey, blur -> clips from its last one on
    """

    first: int
    last: int
    slopes: dict[str, Slope]
    tone: str
    colour: str
    split: dict[str, Split]
    forecast: dict[str, Forecast]

    @property
    def num_clips(self) -> int:
        """The number of its clips."""
        return self.last - self.first + 1


def read_segment(
    clips: Sequence[ClipFeatures], members: Sequence[int], timeline: Timeline, reader: Reader
) -> tuple[Segment, list[Reading]]:
    """Read each clip of a segment against its first, and fit the slopes."""
    anchor = clips[members[0]]
    readings = [reader.read(clips[index], anchor) for index in members]
    may_step = {place for place, index in enumerate(members[1:], 1) if is_abrupt(timeline, index)}
    slopes, draws = slopes_of(readings, may_step) if len(members) >= 3 else ({}, {})
    tone, colour = tone_of(readings[1:]), colour_of(readings[1:])
    return Segment(
        first=members[0],
        last=members[-1],
        slopes=slopes,
        tone=tone,
        colour=colour,
        split=_split(timeline, members) if len(members) >= 2 else {},
        forecast=_forecasts(clips[members[-1]], readings, slopes, draws, tone) if slopes else {},
    ), readings


def slopes_of(
    readings: Sequence[Reading], may_step: Container[int] | None
) -> tuple[dict[str, Slope], dict[str, Double]]:
    """Fit the slope of every signal that all clips have; returns the slopes' draws too.

    may_step  the readings at which a step may be; None: any
    """
    slopes: dict[str, Slope] = {}
    draws: dict[str, Double] = {}
    units = {name: limit.unit for name, limit in SLOPES.items()} | UNITS
    for name in readings[0].values:
        values_bk = np.stack([reading.values[name] for reading in readings], axis=1)
        if np.isfinite(values_bk).all():
            slopes[name], draws[name] = fit_slope(
                values_bk, step_floor(name), units[name], may_step
            )
    slopes["cast"], draws["cast"] = _cast(slopes, draws)
    return slopes, draws


def _cast(slopes: dict[str, Slope], draws: dict[str, Double]) -> tuple[Slope, Double]:
    """Add the sizes of the a and b slopes; where both may be 0, so may the sum."""
    parts = [slopes["cast_a"], slopes["cast_b"]]
    size = np.abs(draws["cast_a"]) + np.abs(draws["cast_b"])
    low, high = (float(end) for end in np.quantile(size, (0.025, 0.975)))
    if all(part.crosses_zero for part in parts):
        low = 0.0
    value = sum(abs(part.value) for part in parts)
    ols = sum(abs(part.ols) for part in parts)
    ends = (min(low, value), max(high, value))
    first = parts[0]
    unit = SLOPES["cast"].unit
    return Slope(value, ends, unit, ols, (), first.num_clips, first.method), size


def tone_of(readings: Sequence[Reading]) -> str:
    """Name the curve with the least sum of Akaike's criterion over clips; none without clips."""
    if not readings:
        return "none"
    total = np.sum([reading.aic for reading in readings], axis=0)
    return MODELS[int(total.argmin())]


def colour_of(readings: Sequence[Reading]) -> str:
    """Name what explains the colour of most clips; of equals, that of the later clip."""
    if not readings:
        return "none"
    votes = Counter(reading.colour for reading in readings)
    most = max(votes.values())
    return next(r.colour for r in reversed(readings) if votes[r.colour] == most)


def _split(timeline: Timeline, members: Sequence[int]) -> dict[str, Split]:
    found = {}
    for name in _SPLIT:
        means = [
            timeline.once(("mean", name, index), 0, partial(_settled_mean, timeline, name, index))
            for index in members
        ]
        total = (means[-1] - means[0]) / (len(means) - 1)
        steps = [step_at(timeline, name, timeline.starts[index])[0] for index in members[1:]]
        at_seams = float(np.mean(steps))
        found[name] = Split(total, at_seams, total - at_seams)
    return found


def _settled_mean(timeline: Timeline, name: str, clip: int) -> float:
    start, end = timeline.span([clip])
    return float(timeline.scalars[name][start + settled(end - start) : end].mean())


def _forecasts(
    last: ClipFeatures,
    readings: Sequence[Reading],
    slopes: dict[str, Slope],
    draws: dict[str, Double],
    tone: str,
) -> dict[str, Forecast]:
    now = float(last.scalars["luma"][settled(last.num_frames) :].mean())
    rates = _tone_rates(readings, slopes, draws, tone)
    now_chroma = float(readings[-1].values["chroma"][0])
    now_blur = float(readings[-1].values["blur"][0])
    limit = blur_limit(last.height, last.source_height)
    found = {
        "black": forecast_luma(now, BLACK, rates),
        "white": forecast_luma(now, WHITE, rates),
    }
    for name, signal, value, end in (
        ("grey", "chroma", now_chroma, float(np.log(GREY))), ("blur", "blur", now_blur, limit),
    ):  # fmt: skip
        slope = slopes[signal]
        rate_b = np.concatenate([[slope.value], draws[signal]])
        found[name] = forecast_line(value, end, rate_b, slope.crosses_zero)
    return found


def _tone_rates(
    readings: Sequence[Reading],
    slopes: dict[str, Slope],
    draws: dict[str, Double],
    tone: str,
) -> ToneRates:
    """Turn the chosen curve's slope into a rate per clip."""
    signal = _RATE_OF.get(tone, "gain")
    slope = slopes[signal]
    rate_b = np.concatenate([[slope.value], draws[signal]])
    contrast_b = np.exp(rate_b)
    lifts = []
    geometric_b = np.zeros_like(contrast_b)
    for k, reading in enumerate(readings[1:]):
        geometric_b = geometric_b + contrast_b**k
        lifts.append(reading.values["lift"] / geometric_b)
    lift_b = np.median(lifts, axis=0)
    steady = slope.crosses_zero and (tone != "affine" or slopes["gain"].crosses_zero)
    return ToneRates(tone, rate_b, lift_b, steady)
