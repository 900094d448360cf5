"""Detail: spectra and noise of frames, and the blur that leads from one clip's to another's."""

# r rows  w columns  n frequency bins  b draws
from functools import lru_cache
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double, Float

SPECTRUM: Final = 40
FREQUENCIES: Final = (np.arange(SPECTRUM) + 0.5) * 0.5 / SPECTRUM  # cycles per pixel
_BLUR = (FREQUENCIES > 0.04) & (FREQUENCIES < 0.30)
_HIGH, _ALL = FREQUENCIES > 0.2, FREQUENCIES > 0.02


def radial_spectrum(luma_rw: Float) -> Float:
    """Return the mean power of a frame at 40 spatial frequencies, 0..0.5 cycles per pixel."""
    window, place, counts, weight = _rings(luma_rw.shape[0], luma_rw.shape[1])
    waves = np.fft.rfft2((luma_rw - luma_rw.mean()) * window)
    power = waves.real**2 + waves.imag**2
    sums = np.bincount(place, (power * weight).reshape(-1), SPECTRUM + 1)[:SPECTRUM]
    return (sums / counts / luma_rw.size).astype(np.float32)


@lru_cache(maxsize=4)
def _rings(rows: int, columns: int) -> tuple[Float, Array, Array, Float]:
    """Return window, ring of each coefficient, size of each ring, weight of each coefficient."""
    window = np.outer(np.hanning(rows), np.hanning(columns))
    window /= np.sqrt((window**2).mean())
    radius = np.hypot(np.fft.fftfreq(rows)[:, None], np.fft.rfftfreq(columns)[None])
    place = np.minimum((radius * 2 * SPECTRUM).astype(np.int64), SPECTRUM)
    weight = np.full(radius.shape, 2.0)
    weight[:, 0] = 1
    if columns % 2 == 0:
        weight[:, -1] = 1
    counts = np.bincount(place.reshape(-1), weight.reshape(-1), SPECTRUM + 1)[:SPECTRUM]
    return (
        window.astype(np.float32),
        place.reshape(-1),
        np.maximum(counts, 1),
        weight.astype(np.float32),
    )


def detail_signals(luma_rw: Float, spectrum_n: Float) -> dict[str, float]:
    """Return sharpness (log Laplacian variance over variance), share of high frequencies, noise.

    noise  variance in (1/255)^2 of the finest diagonal detail in the flattest fifth of the frame
    """
    import cv2

    laplacian = float(cv2.Laplacian(luma_rw, cv2.CV_32F).var())
    rings = spectrum_n * FREQUENCIES
    return {
        "sharpness": float(np.log((laplacian + 1e-9) / (float(luma_rw.var()) + 1e-9))),
        "high_share": float(rings[_HIGH].sum() / max(rings[_ALL].sum(), 1e-12)),
        "noise": _noise(luma_rw),
    }


def _noise(luma_rw: Float) -> float:
    rows, columns = luma_rw.shape[0] // 8 * 8, luma_rw.shape[1] // 8 * 8
    whole = luma_rw[:rows, :columns]
    upper, lower = whole[0::2], whole[1::2]
    top = upper[:, 0::2] + upper[:, 1::2]
    bottom = lower[:, 0::2] + lower[:, 1::2]
    diagonal = (upper[:, 0::2] - upper[:, 1::2] - lower[:, 0::2] + lower[:, 1::2]) / 2
    low = (top + bottom) / 4
    means = _block_mean(low)
    unevenness = _block_mean(low * low) - means**2
    power = _block_mean(diagonal * diagonal)
    inside = (means > 6 / 255) & (means < 249 / 255)  # cut-off values carry no noise
    if np.count_nonzero(inside) >= 5:
        unevenness, power = unevenness[inside], power[inside]
    flat = np.argsort(unevenness, axis=None)[: max(1, unevenness.size // 5)]
    return float(power.reshape(-1)[flat].mean()) * 255**2


def grid_strength(luma_rw: Float) -> float:
    """Return how much stronger edges are on some grid of 8 pixels than off it, as a logarithm.

    luma_rw  unscaled pixels; the grid may lie anywhere
    Third differences answer to edges and hardly to smooth detail.
    """
    return (_grid_of_columns(luma_rw) + _grid_of_columns(luma_rw.T)) / 2


def _grid_of_columns(luma_rw: Float) -> float:
    steps = np.diff(luma_rw, n=3, axis=1)
    profile = np.abs(steps).mean(axis=0)
    count = len(profile) // 8 * 8
    phases = profile[:count].reshape(-1, 8).mean(axis=0) + 1e-5
    return float(np.log(phases.max() / np.median(phases)))


def _block_mean(cells_rw: Array) -> Array:
    rows, columns = cells_rw.shape
    means: Array = cells_rw.reshape(rows // 4, 4, columns // 4, 4).mean(axis=(1, 3))
    return means


def equivalent_blur(before_bn: Double, after_bn: Double) -> Double:
    """Return the Gaussian variance (px^2) that turns spectra (b, 40) into others; below 0: sharper.

    The slope of the logarithm of the powers' ratio over the squared frequency.
    """
    ratio = np.log((after_bn[:, _BLUR] + 1e-12) / (before_bn[:, _BLUR] + 1e-12))
    squared = FREQUENCIES[_BLUR] ** 2
    squared = squared - squared.mean()
    slope = (ratio * squared).sum(axis=1) / (squared**2).sum()
    blur: Double = -slope / (4 * np.pi**2)
    return blur
