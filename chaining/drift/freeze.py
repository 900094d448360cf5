"""Freezes: runs of frames that repeat the one before them."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from chaining.drift.motion import DUPLICATE
from chaining.drift.timeline import Timeline

LONG: Final = 5  # repeats that count as a freeze


@dataclass(frozen=True, slots=True)
class Freeze:
    """Frames first..last all repeat the frame before `first`; `length` is their number."""

    first: int
    last: int
    length: int


def find_freezes(timeline: Timeline) -> list[Freeze]:
    """Find runs of at least five repeats."""
    still = np.nan_to_num(timeline.scalars["change"], nan=1.0) < DUPLICATE
    edges = np.diff(np.concatenate([[0], still.astype(np.int8), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [
        Freeze(int(start), int(end) - 1, int(end - start))
        for start, end in zip(starts, ends, strict=True)
        if end - start >= LONG
    ]
