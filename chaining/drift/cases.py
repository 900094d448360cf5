"""What the meter must read where drift was injected: the ground truth of its own test."""

# k clips
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from chaining.colour.oklab import srgb_to_oklab
from chaining.drift.arrays import Double, Float
from chaining.drift.drift import Drift
from chaining.drift.thresholds import SEAM_RATIO

CLIPS: Final = 8
CLIP_FRAMES: Final = 40


@dataclass(frozen=True, slots=True)
class Check:
    """One reading against what it must be: within `tolerance` of `expected`."""

    name: str
    reading: float
    expected: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether the reading is close enough."""
        return abs(self.reading - self.expected) <= self.tolerance * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Truth:
    """What the injected pixels themselves say, at full size: mean chroma and lightness of clips."""

    chroma: tuple[float, ...]
    lightness: tuple[float, ...]

    def chroma_rate(self) -> float:
        """Return the factor of chroma per clip."""
        return _rate(np.log(self.chroma))

    def colour_rate(self) -> float:
        """Return the factor of chroma over lightness per clip."""
        return _rate(np.log(self.chroma) - np.log(self.lightness))


def pixel_means(frames_frwc: Float) -> tuple[float, float]:
    """Return the mean Oklab chroma and lightness of a clip's settled pixels."""
    means = []
    for frame in frames_frwc[4:]:
        lab = srgb_to_oklab(frame)
        chroma = np.hypot(lab[..., 1], lab[..., 2]).mean(dtype=np.float64)
        means.append((chroma, lab[..., 0].mean(dtype=np.float64)))
    chroma, lightness = np.mean(means, axis=0)
    return float(chroma), float(lightness)


def _rate(logs_k: Double) -> float:
    first, second = np.triu_indices(len(logs_k), 1)
    return float(np.exp(np.median((logs_k[second] - logs_k[first]) / (second - first))))


@dataclass(frozen=True, slots=True)
class Case:
    """An injection and the checks that must hold after it."""

    spec: str
    check: Callable[[Drift, Truth], list[Check]]


def _factor(drift: Drift, signal: str) -> float:
    return float(np.exp(drift.slopes[signal].value))


def _undrifted(drift: Drift, _: Truth) -> list[Check]:
    return [
        Check("gain per clip", _factor(drift, "gain"), 1.0, 0.0005),
        Check("chroma per clip", _factor(drift, "chroma"), 1.0, 0.0005),
        Check("hue per clip (deg)", drift.slopes["hue"].value, 0.0, 0.1),
        Check("blur per clip (px^2)", drift.slopes["blur"].value, 0.0, 0.02),
        Check("alarms", len(drift.verdict.reasons), 0, 0),
    ]


def _gain(expected: float, tolerance: float) -> Callable[[Drift, Truth], list[Check]]:
    def check(drift: Drift, _: Truth) -> list[Check]:
        named = sum(row.tone == "gain" for row in drift.clips[1:])
        return [
            Check("gain per clip", _factor(drift, "gain"), expected, tolerance),
            Check("clips named gain", named, 7, 3),
        ]

    return check


def _gamma(drift: Drift, _: Truth) -> list[Check]:
    named = sum(row.tone == "gamma" for row in drift.clips[1:])
    return [
        Check("gamma per clip", _factor(drift, "gamma"), 1.03, 0.003),
        Check("clips named gamma", named, 7, 3),
    ]


def _offset(drift: Drift, _: Truth) -> list[Check]:
    return [Check("offset per clip", drift.slopes["offset"].value, -0.01, 0.0005)]


def _contrast(drift: Drift, _: Truth) -> list[Check]:
    return [Check("contrast per clip", _factor(drift, "contrast"), 1.05, 0.003)]


def _chroma(tolerance: float) -> Callable[[Drift, Truth], list[Check]]:
    def check(drift: Drift, truth: Truth) -> list[Check]:
        reading = _factor(drift, "chroma_absolute")
        return [Check("chroma per clip", reading, truth.chroma_rate(), tolerance)]

    return check


def _hue(drift: Drift, _: Truth) -> list[Check]:
    return [Check("hue per clip (deg)", drift.slopes["hue"].value, 2.0, 0.15)]


def _cast(drift: Drift, _: Truth) -> list[Check]:
    named = sum(row.colour == "cast" for row in drift.clips[1:])
    return [
        Check("b per clip", drift.slopes["cast_b"].value, 0.004, 0.12 * 0.004),
        Check("clips named cast", named, 7, 3),
    ]


def _blur(drift: Drift, _: Truth) -> list[Check]:
    return [Check("blur per clip (px^2)", drift.slopes["blur"].value, 0.16, 0.05 * 0.16)]


def _noise(drift: Drift, _: Truth) -> list[Check]:
    sigma = float(np.sqrt(max(drift.clips[7].readings["noise"], 0)))
    expected = 1.5 * float(np.sqrt(7 * (0.2126**2 + 0.7152**2 + 0.0722**2)))
    return [Check("luma noise of clip 7 (1/255)", sigma, expected, 0.1 * expected)]


def _jpeg(drift: Drift, _: Truth) -> list[Check]:
    codec = sum("codec" in reason for reason in drift.verdict.reasons)
    blurred = sum(": blur changes" in reason for reason in drift.verdict.reasons)
    return [
        Check("codec alarms", codec, 1, 0),
        Check("blur alarms", blurred, 0, 0),
    ]


def _freeze(drift: Drift, _: Truth) -> list[Check]:
    longest = max((freeze.length for freeze in drift.freezes), default=0)
    return [
        Check("longest freeze (frames)", longest, 20, 0),
        Check("clips that freeze", len(drift.freezes), 4, 0),
    ]


def _step(drift: Drift, _: Truth) -> list[Check]:
    others = [abs(seam.luma_step) for seam in drift.seams if seam.clip != 4]
    return [
        Check("luma step at seam 4", drift.seams[3].luma_step, 0.04, 0.005),
        Check("largest other step", max(others), 0.0, 0.01),
        Check("gain per clip", _factor(drift, "gain"), 1.0, 0.0005),
    ]


def _flash(drift: Drift, _: Truth) -> list[Check]:
    sizes = [start.size for start in drift.settling[1:]]
    return [
        Check("smallest flash", min(sizes), 0.08, 0.015),
        Check("largest flash", max(sizes), 0.08, 0.015),
    ]


def _speed(drift: Drift, _: Truth) -> list[Check]:
    expected = {3: 0.34, 5: 0.50, 7: 0.62}
    return [
        Check(f"repeats in clip {k}", drift.clips[k].readings["duplicates"], share, 0.05)
        for k, share in expected.items()
    ]


def _jump(drift: Drift, _: Truth) -> list[Check]:
    flagged = sum(seam.ratio >= SEAM_RATIO.passes for seam in drift.seams)
    return [Check("seams flagged", flagged, 7, 0)]


def _combined(drift: Drift, truth: Truth) -> list[Check]:
    return [
        Check("gain per clip", _factor(drift, "gain"), 0.97, 0.007),
        Check("blur per clip (px^2)", drift.slopes["blur"].value, 0.09, 0.05 * 0.09),
        Check("chroma / lightness per clip", _factor(drift, "chroma"), truth.colour_rate(), 0.01),
    ]


CASES: Final = (
    Case("none", _undrifted),
    Case("gain=0.97", _gain(0.97, 0.0005)),
    Case("gain=1.03", _gain(1.03, 0.002)),
    Case("gamma=1.03", _gamma),
    Case("offset=-0.01", _offset),
    Case("contrast=1.05", _contrast),
    Case("chroma=0.95", _chroma(0.001)),
    Case("chroma=1.08", _chroma(0.002)),
    Case("hue=2", _hue),
    Case("cast=0.004", _cast),
    Case("blur=0.4", _blur),
    Case("noise=1.5", _noise),
    Case("jpeg=75", _jpeg),
    Case("freeze=20", _freeze),
    Case("step=0.04", _step),
    Case("flash=0.08", _flash),
    Case("speed=1.15", _speed),
    Case("jump=0.25", _jump),
    Case("gain=0.97,blur=0.3,chroma=1.04", _combined),
)
