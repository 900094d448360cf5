"""Brightness: luma histograms of frames, and the curve that leads from one clip's to another's."""

# r rows  w columns  n histogram bins  q quantiles  b draws
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double, Float

BINS: Final = 512
QUANTILES: Final = np.linspace(0.02, 0.98, 49)
MODELS: Final = ("none", "gain", "gamma", "offset", "affine")
_DARK, _BRIGHT = 6 / 255, 249 / 255  # beyond these, values may have been cut off
_INDEPENDENT = 10  # of the 49 quantiles, neighbours of which err alike
_ROUNDING = 0.0007  # error of a quantile that comes from 8-bit codes


def luma_histogram(luma_rw: Float) -> Array:
    """Count luma values 0..1 in 512 equal bins; returns uint32 (512,)."""
    import cv2

    counts = cv2.calcHist([np.clip(luma_rw, 0, 1)], [0], None, [BINS], [0.0, 1.0 + 1e-6])
    histogram: Array = counts.reshape(-1).astype(np.uint32)
    return histogram


def tone_signals(rgb_rwc: Float, luma_rw: Float, linear_luma: float) -> dict[str, float]:
    """Return the brightness signals of one frame: luma mean, EV, and shares at the ends."""
    import cv2

    pixels = luma_rw.size
    under = cv2.inRange(rgb_rwc, (-1e9,) * 3, (254 / 255 - 1e-6,) * 3)
    return {
        "luma": float(luma_rw.mean()),
        "ev": float(np.log2(max(linear_luma, 1e-6))),
        "black": float(np.count_nonzero(luma_rw < 16 / 255)) / pixels,
        "white": float(np.count_nonzero(luma_rw > 235 / 255)) / pixels,
        "clipped": 1 - cv2.countNonZero(under) / pixels,
    }


def pooled_quantiles(counts_bn: Double) -> Double:
    """Return luma at 2..98 % of histograms (b, 512), as (b, 49)."""
    edges = np.linspace(0, 1, BINS + 1)
    cumulative = np.zeros((len(counts_bn), BINS + 1))
    np.cumsum(counts_bn, axis=1, out=cumulative[:, 1:])
    cumulative /= cumulative[:, -1:]
    ramp = np.linspace(0, 1e-9, BINS + 1)  # keeps empty bins in order
    return np.stack([np.interp(QUANTILES, row + ramp, edges) for row in cumulative])


def fit_tone(before_bq: Double, after_bq: Double) -> dict[str, Double]:
    """Fit gain, gamma, offset and affine curves from one clip's luma quantiles to another's.

    Returns  "gain", "gamma", "contrast" (natural logarithms), "offset", "lift" (the affine curve's
             constant), each (b,), and "aic" (b, 5) in the order of MODELS
    """
    use = (before_bq > _DARK) & (before_bq < _BRIGHT) & (after_bq > _DARK) & (after_bq < _BRIGHT)
    weight = np.where(use.sum(axis=1, keepdims=True) >= 8, use, 1.0)
    x, y = np.clip(before_bq, 1e-3, 1), np.clip(after_bq, 1e-3, 1)
    total = weight.sum(axis=1)
    gain = (weight * x * y).sum(axis=1) / (weight * x * x).sum(axis=1)
    offset = (weight * (y - x)).sum(axis=1) / total
    mean_x, mean_y = (weight * x).sum(axis=1) / total, (weight * y).sum(axis=1) / total
    from_x = x - mean_x[:, None]
    spread = np.maximum((weight * from_x**2).sum(axis=1), 1e-9)
    contrast = np.maximum((weight * from_x * (y - mean_y[:, None])).sum(axis=1) / spread, 1e-3)
    lift = mean_y - contrast * mean_x
    gamma = _fit_gamma(x, y, weight)
    curves = (
        x,
        gain[:, None] * x,
        x ** gamma[:, None],
        x + offset[:, None],
        contrast[:, None] * x + lift[:, None],
    )
    errors = [(weight * (y - curve) ** 2).sum(axis=1) / total for curve in curves]
    aic = [
        _INDEPENDENT * np.log(error + _ROUNDING**2) + 2 * parameters
        for error, parameters in zip(errors, (0, 1, 1, 1, 2), strict=True)
    ]
    return {
        "gain": np.log(np.maximum(gain, 1e-6)),
        "gamma": np.log(gamma),
        "offset": offset,
        "contrast": np.log(contrast),
        "lift": lift,
        "aic": np.stack(aic, axis=1),
    }


def _fit_gamma(x: Double, y: Double, weight: Double) -> Double:
    """Fit y = x ** gamma by Gauss-Newton from the logarithmic fit."""
    log_x = np.log(x)
    gamma = (weight * log_x * np.log(y)).sum(axis=1) / (weight * log_x**2).sum(axis=1)
    for _ in range(6):
        gamma = np.clip(gamma, 0.05, 20)
        curve = x ** gamma[:, None]
        slope = curve * log_x
        change = (weight * slope * (y - curve)).sum(axis=1)
        gamma = gamma + change / np.maximum((weight * slope**2).sum(axis=1), 1e-9)
    bounded: Double = np.clip(gamma, 0.05, 20)
    return bounded
