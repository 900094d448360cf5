"""Two runs of the same seed and prompt, clip by clip: a paired reading."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaining.drift.features import ClipFeatures
from chaining.drift.readings import Reader
from chaining.drift.segment import colour_of, slopes_of, tone_of
from chaining.drift.thresholds import SLOPES
from chaining.drift.trend import Slope
from chaining.drift.verdict import (
    INCONCLUSIVE,
    Finding,
    Verdict,
    conclude,
    judge_interval,
)
from vidgen.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Level:
    """The mean difference over all clips, and its 95 % interval over resampled frames."""

    value: float
    ci95: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the second run differs from the first.

    levels  signal -> the difference that is there in every clip
    slopes  signal -> how the difference changes per clip; empty for fewer than 3 clips
    tone, colour  what explains the difference best
    verdict       of the slopes
    """

    num_clips: int
    levels: dict[str, Level]
    slopes: dict[str, Slope]
    tone: str
    colour: str
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        from pydantic import TypeAdapter

        data: dict[str, Any] = TypeAdapter(Comparison).dump_python(self, mode="json")
        return data


def compare(first: Sequence[ClipFeatures], second: Sequence[ClipFeatures]) -> Comparison:
    """Compare two runs that show the same content frame by frame.

    The content cancels, so that intervals are far narrower than those of two separate analyses.
    Raises  BadRequest (runs that do not match)
    """
    _match(first, second)
    reader = Reader()
    readings = [reader.read(b, a) for a, b in zip(first, second, strict=True)]
    levels = {}
    for name in readings[0].values:
        means = np.mean([reading.values[name] for reading in readings], axis=0)
        if np.isfinite(means).all():
            low, high = np.quantile(means, (0.025, 0.975))
            levels[name] = Level(float(means[0]), (float(low), float(high)))
    slopes = slopes_of(readings, None)[0] if len(readings) >= 3 else {}
    return Comparison(
        num_clips=len(readings),
        levels=levels,
        slopes=slopes,
        tone=tone_of(readings),
        colour=colour_of(readings),
        verdict=conclude(_findings(slopes, len(readings))),
    )


def _match(first: Sequence[ClipFeatures], second: Sequence[ClipFeatures]) -> None:
    if not first or len(first) != len(second):
        raise BadRequest(
            f"Runs of {len(first)} and {len(second)} clips cannot be compared; give two of equal "
            "length."
        )
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        if one.num_frames != two.num_frames or (one.width, one.height) != (two.width, two.height):
            raise BadRequest(
                f"Clip {index} has {one.num_frames} frames at {one.width}x{one.height} in one run, "
                f"{two.num_frames} at {two.width}x{two.height} in the other; they must be alike."
            )


def _findings(slopes: dict[str, Slope], num_clips: int) -> list[Finding]:
    if not slopes:
        why = f"the runs have {num_clips} clips; a slope needs 3"
        return [Finding("tone", INCONCLUSIVE, why)]
    found = []
    for name, limit in SLOPES.items():
        if name in slopes:
            low, high = slopes[name].ci95
            why = f"the difference in {limit.words} changes by {slopes[name].value:+.5f}"
            outcome = judge_interval(low, high, limit)
            found.append(Finding(limit.group, outcome, f"{why} {limit.unit}"))
    return found
