"""How many more clips until a chain is black, white, grey or blurred, if it goes on like this."""

# b draws
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from chaining.drift.arrays import Double

BLACK: Final = 16 / 255
WHITE: Final = 235 / 255
GREY: Final = 0.25  # of the first clip's chroma over lightness
BLURRED: Final = 4.0  # px^2 at 480 rows; see `blur_limit`
_FAR = 10_000  # clips; beyond, it is never


@dataclass(frozen=True, slots=True)
class Forecast:
    """Clips from the last one on; None means never.

    ci95  its interval; an upper end of None is open
    """

    clips: float | None
    ci95: tuple[float | None, float | None]


NEVER: Final = Forecast(None, (None, None))
REACHED: Final = Forecast(0.0, (0.0, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class ToneRates:
    """Change of brightness per clip: the curve's name, and its draws, row 0 the estimate.

    rate_b  ln gain, ln gamma, offset or ln contrast; lift_b the affine curve's constant per clip
    steady  whether the interval of the rate contains 0
    """

    model: str
    rate_b: Double
    lift_b: Double
    steady: bool


def forecast_luma(now: float, limit: float, rates: ToneRates) -> Forecast:
    """Say when mean luma `now` reaches a limit under the chosen curve."""
    if rates.steady or rates.model == "none":
        return NEVER
    if now <= limit <= BLACK or now >= limit >= WHITE:
        return REACHED
    until = _UNTIL[rates.model]
    clips = np.array(
        [
            until(now, limit, float(rate), float(lift))
            for rate, lift in zip(rates.rate_b, rates.lift_b, strict=True)
        ]
    )
    return _summary(clips)


def blur_limit(rows: int, source_rows: int) -> float:
    """Return the blur in px^2 of the analysis from which on a picture is of no use.

    It is a share of the picture, but never less than one pixel of the source: a small picture is
    not yet soft where a large one would be.
    rows, source_rows  of the analysis, and of the picture that it was made from
    """
    return max(BLURRED * (rows / 480) ** 2, (rows / source_rows) ** 2)


def forecast_line(now: float, limit: float, rate_b: Double, steady: bool) -> Forecast:
    """Say when a value that starts at 0 and changes evenly from clip to clip reaches a limit."""
    if steady:
        return NEVER
    if abs(now) >= abs(limit) and now * limit > 0:
        return REACHED
    return _summary(np.array([_by_line(now, limit, float(rate)) for rate in rate_b]))


def _summary(clips_b: Double) -> Forecast:
    centre = clips_b[0]
    if not centre < _FAR:
        return NEVER
    low, high = np.quantile(clips_b[1:], (0.025, 0.975), method="nearest")
    return Forecast(float(centre), (float(low), float(high) if high < _FAR else None))


def _by_line(now: float, limit: float, rate: float) -> float:
    missing = limit - now
    if rate == 0 or missing / rate < 0:
        return math.inf
    return missing / rate


def _by_gain(now: float, limit: float, rate: float, _: float) -> float:
    return _by_line(math.log(max(now, 1e-6)), math.log(limit), rate)


def _by_gamma(now: float, limit: float, rate: float, _: float) -> float:
    inside = min(max(now, 1e-6), 1 - 1e-6)
    return _by_line(math.log(-math.log(inside)), math.log(-math.log(limit)), rate)


def _by_offset(now: float, limit: float, rate: float, _: float) -> float:
    return _by_line(now, limit, rate)


def _by_affine(now: float, limit: float, rate: float, lift: float) -> float:
    """Solve y_n = c^n (y - f) + f for the limit, f being the value that the curve keeps."""
    contrast = math.exp(rate)
    if abs(1 - contrast) < 1e-6:
        return _by_line(now, limit, lift)
    kept = lift / (1 - contrast)
    ratio = (limit - kept) / (now - kept) if now != kept else 0.0
    if ratio <= 0:
        return math.inf
    clips = math.log(ratio) / rate
    return clips if clips >= 0 else math.inf


_UNTIL: dict[str, Callable[[float, float, float, float], float]] = {
    "gain": _by_gain,
    "gamma": _by_gamma,
    "offset": _by_offset,
    "affine": _by_affine,
}
