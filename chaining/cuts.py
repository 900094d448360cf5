"""Hard cuts of a video: a simple detector for footage of which nothing is known.

It compares neighbouring frames at 64 pixels' width: a cut changes both the picture and its
histogram, far more than the frames around do, and for good. Dissolves and fades are not found.
"""

# f frames  r rows  w columns  c channels  n bins
from collections.abc import Iterable
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double, Float

_WIDTH: Final = 64
_BINS: Final = 16
_AROUND: Final = 8  # frames before and after that say what change is usual
_PICTURE: Final = 0.06  # least mean change of code values, 0..1
_HISTOGRAM: Final = 0.30  # least share of pixels that change their bin
_TIMES: Final = 4.0  # times the usual change
SHORTEST: Final = 8  # frames of a scene; what comes back sooner is a flash


def find_cuts(chunks: Iterable[Float]) -> list[int]:
    """Return the first frame of every scene after the first.

    chunks  float32 sRGB 0..1, (f, r, w, 3), in order; histograms are kept, no frame
    """
    change_f, counts_fn = _read(chunks)
    cuts = [0]
    for frame in range(1, len(change_f) - SHORTEST + 1):
        usual = float(np.median(change_f[max(frame - _AROUND, 1) : frame + _AROUND + 1]))
        leaps = change_f[frame] >= max(_PICTURE, _TIMES * usual)
        if leaps and frame - cuts[-1] >= SHORTEST and _for_good(counts_fn, frame):
            cuts.append(frame)
    return cuts[1:]


def _for_good(counts_fn: Double, frame: int) -> bool:
    """Say whether no frame soon after looks like the last one before, nor the other way round."""
    before = counts_fn[max(frame - SHORTEST, 0) : frame]
    after = counts_fn[frame : frame + SHORTEST]
    pairs = (after - before[-1], before - after[0])
    return min(float(np.abs(pair).sum(axis=1).min()) / 2 for pair in pairs) >= _HISTOGRAM


def _read(chunks: Iterable[Float]) -> tuple[Double, Double]:
    """Return each frame's mean change from the one before, and its histogram (48 bins, sum 1)."""
    changes: list[float] = []
    histograms: list[Array] = []
    before: Array | None = None
    for chunk_frwc in chunks:
        for frame_rwc in chunk_frwc:
            small = _shrink(frame_rwc)
            bins = np.clip(small * _BINS, 0, _BINS - 1).astype(np.int64) + _BINS * np.arange(3)
            counts = np.bincount(bins.reshape(-1), minlength=3 * _BINS)
            histograms.append(counts / counts.sum())
            changes.append(0.0 if before is None else float(np.abs(small - before).mean()))
            before = small
    return np.array(changes), np.array(histograms)


def _shrink(frame_rwc: Float) -> Array:
    import cv2

    rows, columns = frame_rwc.shape[:2]
    size = (_WIDTH, max(1, round(rows * _WIDTH / columns)))
    small: Array = cv2.resize(frame_rwc, size, interpolation=cv2.INTER_AREA)
    return small
