"""Colour: Oklab means and hue histograms of frames, and how a clip's differ from another's."""

# r rows  w columns  n histogram bins  s samples  b draws
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double, Float

HUES: Final = 72
_FINER = 16  # zero-padding of the circular correlation
_DIRECTIONS = 8
_TOO_SMALL = 0.0005  # Oklab; a nearer match than this explains nothing


def colour_signals(lab_rwc: Float) -> dict[str, float]:
    """Return the Oklab means and the mean chroma of one frame."""
    lightness, green_red, blue_yellow = lab_rwc.reshape(-1, 3).mean(axis=0, dtype=np.float64)
    chroma = np.hypot(lab_rwc[..., 1], lab_rwc[..., 2]).mean(dtype=np.float64)
    return {
        "ok_l": float(lightness),
        "ok_a": float(green_red),
        "ok_b": float(blue_yellow),
        "chroma": float(chroma),
    }


def hue_histogram(lab_rwc: Float) -> Float:
    """Return chroma summed over 72 bins of hue (5 degrees), shared between neighbouring bins."""
    import cv2

    flat = lab_rwc.reshape(-1, 3)
    chroma, degrees = cv2.cartToPolar(
        np.ascontiguousarray(flat[:, 1]), np.ascontiguousarray(flat[:, 2]), angleInDegrees=True
    )
    place, weight = degrees.reshape(-1) * (HUES / 360), chroma.reshape(-1)
    low = place.astype(np.int32)
    share = place - low
    first = np.bincount(low % HUES, weight * (1 - share), HUES)
    second = np.bincount((low + 1) % HUES, weight * share, HUES)
    shares: Float = ((first + second) / len(flat)).astype(np.float32)
    return shares


def hue_turn(before_bn: Double, after_bn: Double) -> Double:
    """Return by how many degrees hue histograms (b, 72) are turned, -180..180."""
    spectrum = np.fft.rfft(after_bn, axis=1) * np.conj(np.fft.rfft(before_bn, axis=1))
    spectrum[:, 0] = 0
    fine = HUES * _FINER
    match = np.fft.irfft(spectrum, n=fine, axis=1)
    peak = match.argmax(axis=1)
    row = np.arange(len(match))
    left, centre, right = (match[row, (peak + step) % fine] for step in (-1, 0, 1))
    curve = left - 2 * centre + right
    part = np.where(curve < 0, 0.5 * (left - right) / np.where(curve < 0, curve, 1), 0)
    degrees: Double = ((peak + part) * 360 / fine + 180) % 360 - 180
    return degrees


def colour_model(before_sc: Array, after_sc: Array, degrees: float) -> str:
    """Name the change that best explains two clips' a, b samples (s, 3): none, cast, hue, chroma.

    before_sc, after_sc  Oklab pixels of equal number
    degrees  the turn of hue between them, as `hue_turn` reads it
    """
    lightness = before_sc[:, 0].mean() / max(after_sc[:, 0].mean(), 1e-6)
    before, after = before_sc[:, 1:], after_sc[:, 1:] * lightness
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    scale = np.hypot(*after.T).mean() / max(np.hypot(*before.T).mean(), 1e-6)
    tried = {
        "none": before,
        "cast": before + (after.mean(axis=0) - before.mean(axis=0)),
        "hue": before @ turn.T,
        "chroma": before * scale,
    }
    errors = {name: sliced_distance(samples, after) for name, samples in tried.items()}
    best = min(errors, key=lambda name: errors[name])
    gained = errors["none"] - errors[best]
    return best if gained > max(0.1 * errors["none"], _TOO_SMALL) else "none"


def sliced_distance(before_sc: Array, after_sc: Array) -> float:
    """Return the sliced Wasserstein distance of two sets of equally many samples (s, dims)."""
    directions = _directions(before_sc.shape[1])
    before, after = (np.sort(samples @ directions, axis=0) for samples in (before_sc, after_sc))
    return float(np.abs(before - after).mean())


def _directions(dims: int) -> Double:
    if dims == 2:
        angles = np.arange(_DIRECTIONS) * np.pi / _DIRECTIONS
        return np.stack([np.cos(angles), np.sin(angles)])
    vectors = np.random.default_rng(0).normal(size=(dims, 4 * _DIRECTIONS))
    units: Double = vectors / np.linalg.norm(vectors, axis=0)
    return units
