"""Block bootstrap: how much a clip's readings depend on the frames it happened to have."""

# b draws  f frames
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double

DRAWS: Final = 500
SEED: Final = 20
_BLOCK = 12
_SETTLE = 4


def settled(num_frames: int) -> int:
    """Return how many frames at a clip's start belong to its seam, not to its statistics."""
    return _SETTLE if num_frames >= 4 * _SETTLE else num_frames // 4


def frame_weights(num_frames: int, draws: int = DRAWS) -> Double:
    """Return weights of a clip's frames, (1 + draws, f): row 0 counts each settled frame once.

    The other rows resample moving blocks of 12 frames. The same places are drawn in every clip, so
    that content which the clips share cancels when they are compared. A clip of fewer than three
    blocks repeats row 0: its interval has to come from the clips alone.
    """
    first = settled(num_frames)
    usable = num_frames - first
    weights = np.zeros((1 + draws, num_frames))
    weights[:, first:] = 1
    if usable < 3 * _BLOCK:
        return weights / usable
    needed = -(-usable // _BLOCK)
    places = np.random.default_rng(SEED).random((needed, draws)).T
    starts = first + np.floor(places * (usable - _BLOCK + 1)).astype(np.int64)
    picked = (starts[:, :, None] + np.arange(_BLOCK)).reshape(draws, -1)[:, :usable]
    weights[1:] = _count(picked, num_frames)
    return weights / usable


def _count(picked: Array, num_frames: int) -> Double:
    flat = picked + np.arange(len(picked))[:, None] * num_frames
    counts = np.bincount(flat.reshape(-1), minlength=len(picked) * num_frames)
    return counts.reshape(len(picked), num_frames).astype(np.float64)
