"""The readings in words: what a person reads first, in the terminal and on the page."""

import math
from typing import Final

from chaining.drift.drift import Drift
from chaining.drift.forecast import Forecast
from chaining.drift.judge import explained
from chaining.drift.segment import Segment
from chaining.drift.thresholds import SLOPES, UNITS
from chaining.drift.trend import Slope
from chaining.drift.verdict import FAIL, INCONCLUSIVE, PASS, WARN, judge_interval

HEADLINES: Final = {
    PASS: "Steady: nothing drifts beyond what is good.",
    WARN: "Look at it: something is not as good as it should be.",
    FAIL: "It drifts: at least one reading is bad.",
    INCONCLUSIVE: "It cannot be told yet: the readings are too uncertain or too few.",
}
COMPARED: Final = {
    PASS: "They drift alike.",
    WARN: "One drifts somewhat more than the other.",
    FAIL: "One drifts away from the other.",
    INCONCLUSIVE: "Which drifts more cannot be told.",
}
MARKS: Final = {PASS: "✓", WARN: "!", FAIL: "✗", INCONCLUSIVE: "?"}
_PER_CENT: Final = frozenset(
    name
    for name, unit in (UNITS | {name: limit.unit for name, limit in SLOPES.items()}).items()
    if unit.startswith("ln ")
)
_DIGITS: Final = {"cast": 4, "hue": 2}
_UNITS: Final = {"blur": "px²", "hue": "°", "noise": "(1/255)²"}
_MOVES: Final = {
    "gain": ("gets brighter", "gets darker"),
    "spread": ("gains contrast", "loses contrast"),
    "chroma": ("gains colour", "loses colour"),
    "hue": ("turns its hue", "turns its hue"),
    "cast": ("takes on a tint", "takes on a tint"),
    "blur": ("gets blurred", "gets sharper than it was"),
    "noise": ("gets noisier", "gets cleaner"),
    "flow": ("moves more", "moves less"),  # more or less than in the first clip
}
_ENDS: Final = {
    "black": "black", "white": "white", "grey": "without colour", "blur": "too blurred to use",
}  # fmt: skip


def amount(signal: str, value: float, *, sign: bool = True) -> str:
    """Write a change of a signal with its unit: logarithms as per cent, the rest as it is."""
    text = _number(signal, value, "+" if sign else "")
    unit = "%" if signal in _PER_CENT else _UNITS.get(signal, "")
    return f"{text}{unit}" if unit == "°" else f"{text} {unit}".rstrip()


def interval(signal: str, slope: Slope) -> str:
    """Write a slope's 95 % interval, in the unit of `amount`."""
    low, high = (_number(signal, end, "+") for end in slope.ci95)
    return f"{low} to {high}"


def limits(signal: str) -> str:
    """Write up to where a judged signal is good, and from where on bad, in the unit of `amount`."""
    limit = SLOPES[signal]
    ends = (limit.passes, limit.fails)
    if signal in _PER_CENT:
        text = " / ".join(f"{100 * math.expm1(end):.1f}" for end in ends)
    else:
        text = " / ".join(f"{end:g}" for end in ends)
    return text if limit.rises_only else f"± {text}"


def _number(signal: str, value: float, flag: str) -> str:
    if signal in _PER_CENT:
        return f"{100 * math.expm1(value):{flag}.2f}"
    return f"{value:{flag}.{_DIGITS.get(signal, 3)}f}"


def outcome(signal: str, slope: Slope) -> str:
    """Judge a slope by itself."""
    return judge_interval(*slope.ci95, SLOPES[signal])


def counts(signal: str, segment: Segment) -> bool:
    """Say whether a signal is judged by itself; where another explains it better, that one is."""
    return signal in SLOPES and not explained(signal, segment)


def movements(drift: Drift) -> list[str]:
    """Say in plain words what changes from clip to clip, the worst first."""
    found = []
    for segment in drift.segments:
        where = "" if len(drift.segments) == 1 else f" ({clips_of(segment)})"
        for signal, slope in segment.slopes.items():
            judged = outcome(signal, slope) if counts(signal, segment) else PASS
            if judged in (FAIL, WARN) and not slope.crosses_zero:
                found.append((judged != FAIL, f"{_movement(signal, slope)}{where}"))
    return [text for _, text in sorted(found, key=lambda item: item[0])]


def _movement(signal: str, slope: Slope) -> str:
    move = _MOVES[signal][slope.value < 0]
    size = amount(signal, slope.value, sign=signal == "hue").lstrip("-")
    return f"The picture {move} by {size} per clip (95 %: {interval(signal, slope)})."


def clips_of(segment: Segment) -> str:
    """Name a segment's clips, counted from 0."""
    if segment.first == segment.last:
        return f"clip {segment.first}"
    return f"clips {segment.first} to {segment.last}"


def forecasts(drift: Drift) -> list[str]:
    """Say when the newest scene ends in black, white, grey or blur, if it goes on like this."""
    segment = drift.segments[-1]
    if not segment.forecast:
        clips = f"{segment.num_clips} clip{'s' if segment.num_clips > 1 else ''}"
        return [f"No forecast: the last scene has {clips} and 3 are needed."]
    found = [(name, item) for name, item in segment.forecast.items() if item.clips is not None]
    found.sort(key=lambda pair: pair[1].clips or 0.0)
    never = [_ENDS[name] for name, item in segment.forecast.items() if item.clips is None]
    texts = [_forecast(name, item) for name, item in found]
    if never:
        texts.append(f"Never {_listed(never)}, as far as this shows.")
    return texts


def _forecast(name: str, found: Forecast) -> str:
    word = _ENDS[name].capitalize()
    if found.clips == 0:
        return f"{word} already."
    low, high = found.ci95
    if low is None:
        reach = ""
    elif high is None:
        reach = f" ({_count(low)} or more)"
    else:
        reach = f" ({_count(low)} to {_count(high)})" if _count(low) != _count(high) else ""
    return f"{word} after about {_count(found.clips or 0.0)} more clips{reach}."


def _count(clips: float) -> str:
    return f"{clips:.1f}" if clips < 3 else f"{clips:.0f}"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def facts(drift: Drift, notes: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return what was measured, as names and values."""
    source = drift.source
    kinds = {"float": "frames in memory", "png": "lossless file", "lossy": "lossy file"}
    rows = [
        ("length", f"{source.frames} frames at {source.fps:g} fps, "
                   f"{source.frames / source.fps:.1f} s"),
        ("size", f"{source.width}x{source.height}, measured at "
                 f"{source.analysis_width}x{source.analysis_height}"),
        ("read from", kinds.get(source.kind, source.kind)),
        ("clips", f"{len(drift.clips)} in {len(drift.segments)} scene"
                  f"{'s' if len(drift.segments) > 1 else ''}"),
    ]  # fmt: skip
    if source.sha256 is not None:
        rows.append(("sha256", source.sha256))
    rows.append(("meter", f"version {drift.meter_version}"))
    return [*rows, *(("note", note) for note in notes)]
