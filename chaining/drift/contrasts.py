"""Start against end: FramePack's drift contrast, Helios's rating of it, and BlockVid's VDE."""

# f frames  k clips
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from chaining.drift.arrays import Double

SHARE: Final = 0.15
_BLOCK = 12


@dataclass(frozen=True, slots=True)
class Contrast:
    """Mean of the last 15 % of the frames against that of the first 15 %.

    signed, absolute  end - start, and its size (equation 7 of the FramePack paper)
    half              half width of the 95 % interval, from blocks of 12 frames
    rating            10 at 0.01 or less, one less for each further 0.01, at least 1
    """

    start: float
    end: float
    signed: float
    absolute: float
    half: float
    rating: int


@dataclass(frozen=True, slots=True)
class Vde:
    """Video drift error with linear and logarithmic weights; for comparison with others only."""

    linear: float
    log: float


def contrast(values_f: Double) -> Contrast:
    """Compare the start of a signal with its end.

    Frames without a value are left out (motion has none in the first); at least one must have one.
    """
    values_f = values_f[np.isfinite(values_f)]
    count = max(1, int(SHARE * len(values_f)))
    first, last = values_f[:count], values_f[-count:]
    start, end = float(first.mean()), float(last.mean())
    half = 1.96 * math.hypot(_standard_error(first), _standard_error(last))
    size = abs(end - start)
    rating = max(1, 10 - max(0, math.ceil(size / 0.01 - 1e-9) - 1))
    return Contrast(start, end, end - start, size, half, rating)


def _standard_error(values: Double) -> float:
    """Return the standard error of a mean over blocks; of frames where these are too few."""
    blocks, known = len(values) // _BLOCK, values
    if blocks >= 2:
        known = known[: blocks * _BLOCK].reshape(blocks, _BLOCK).mean(axis=1)
    return float(known.std(ddof=1) / math.sqrt(len(known))) if len(known) > 1 else 0.0


def vde(chunks_k: Double) -> Vde:
    """Sum the relative deviations of all chunks from the first, the later ones weighing less."""
    first = chunks_k[0]
    if len(chunks_k) < 2 or abs(first) < 1e-9:
        return Vde(0.0, 0.0)
    off = np.abs(chunks_k[1:] - first) / abs(first)
    weight = np.arange(len(chunks_k) - 1, 0, -1)
    return Vde(float((weight * off).sum()), float((np.log(weight) * off).sum()))
