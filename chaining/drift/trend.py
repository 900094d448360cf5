"""The slope of a signal over clips, with its steps, its interval and how it was found."""

# k clips  b draws
from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from chaining.drift.arrays import Array, Double
from chaining.drift.resample import SEED
from chaining.drift.student import student_quantile

_ALL_PAIRS = 40  # more clips than these: pairs half the length apart (Theil's short method)
_STEP_MINIMUM = 5  # clips
_STEP_SPREADS = 6.0


@dataclass(frozen=True, slots=True)
class Step:
    """A jump that stays: the clip (from 0) it begins with, and its size."""

    clip: int
    size: float


@dataclass(frozen=True, slots=True)
class Slope:
    """Change per clip.

    value   by Theil and Sen, steps taken out; ols the least-squares check
    ci95    the 95 % interval
    method  bootstrap (two levels, never narrower than t) or t (clips too short to resample)
    """

    value: float
    ci95: tuple[float, float]
    unit: str
    ols: float
    steps: tuple[Step, ...]
    num_clips: int
    method: str

    @property
    def crosses_zero(self) -> bool:
        """Whether no change at all is within the interval."""
        return self.ci95[0] <= 0 <= self.ci95[1]


def fit_slope(
    values_bk: Double, step_floor: float, unit: str, may_step: Container[int] | None = None
) -> tuple[Slope, Double]:
    """Fit m_k = m_0 + r k + steps to at least three clips.

    values_bk   row 0 the clips' readings, the other rows the same from resampled frames
    step_floor  the smallest jump that is taken for a step
    may_step    the clips at which one may be; None: any, which is for content that cancels
    Returns the slope and its draws (b - 1,).
    """
    values = values_bk[0]
    clips = len(values)
    if clips < 3:
        raise ValueError(f"{clips} clips have no slope; 3 are needed")
    at = _find_steps(values, step_floor)
    if may_step is not None:
        at = [clip for clip in at if clip in may_step]
    flat = _without_steps(values_bk, at)
    centre = float(_theil_sen(flat[:1])[0])
    design = np.stack(
        [np.ones(clips), np.arange(clips), *(np.arange(clips) >= s for s in at)], axis=1
    )
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    fitted = design @ solution
    signs = np.random.default_rng(SEED + 1).choice([-1.0, 1.0], (len(values_bk) - 1, clips))
    drawn = fitted + (values - fitted) * signs + (values_bk[1:] - values)
    draws = _theil_sen(_without_steps(drawn, at))
    half = _t_half_width(design, values - fitted)
    low, high = centre - half, centre + half
    resampled = bool(np.any(values_bk[1:] != values))
    if resampled:
        inner, outer = np.quantile(draws, (0.025, 0.975))
        low, high = min(low, float(inner)), max(high, float(outer))
    sizes = solution[2:]
    return Slope(
        value=centre,
        ci95=(float(low), float(high)),
        unit=unit,
        ols=float(solution[1]),
        steps=tuple(Step(int(s), float(size)) for s, size in zip(at, sizes, strict=True)),
        num_clips=clips,
        method="bootstrap" if resampled else "t",
    ), _widened(draws, centre, low, high)


def _widened(draws: Double, centre: float, low: float, high: float) -> Double:
    """Spread draws about the centre until their 95 % reach over the interval."""
    deviations = draws - draws.mean()
    spread = max(float(np.std(draws)), 1e-12)
    wanted = (high - low) / 2 / 1.96
    widened: Double = centre + deviations * max(1.0, wanted / spread)
    return widened


def _find_steps(values: Double, floor: float) -> list[int]:
    """Return the clips at which a jump stands out from the other differences, at most a quarter."""
    if len(values) < _STEP_MINIMUM:
        return []
    changes = np.diff(values)
    middle = np.median(changes)
    spread = 1.4826 * np.median(np.abs(changes - middle))
    out = np.abs(changes - middle)
    limit = max(_STEP_SPREADS * float(spread), floor)
    largest = np.argsort(-out)[: len(values) // 4]
    return sorted(int(place) + 1 for place in largest if out[place] > limit)


def _without_steps(values_bk: Double, at: list[int]) -> Double:
    """Take the steps out, each measured against the median of the other changes."""
    if not at:
        return values_bk
    changes = np.diff(values_bk, axis=1)
    places = [clip - 1 for clip in at]
    others = np.delete(changes, places, axis=1)
    changes[:, places] = np.median(others, axis=1, keepdims=True)
    rebuilt = np.cumsum(changes, axis=1)
    return np.concatenate([values_bk[:, :1], values_bk[:, :1] + rebuilt], axis=1)


def _theil_sen(values_bk: Double) -> Double:
    first, second = _pairs(values_bk.shape[1])
    slopes = (values_bk[:, second] - values_bk[:, first]) / (second - first)
    return np.asarray(np.median(slopes, axis=1))


def _pairs(clips: int) -> tuple[Array, Array]:
    if clips <= _ALL_PAIRS:
        return np.triu_indices(clips, 1)
    first = np.arange(clips // 2)
    return first, first + (clips + 1) // 2


def _t_half_width(design: Double, residuals: Double) -> float:
    freedom = len(residuals) - design.shape[1]
    variance = float(residuals @ residuals) / freedom
    inverse = np.linalg.inv(design.T @ design)
    return float(student_quantile(freedom) * np.sqrt(variance * inverse[1, 1]))
