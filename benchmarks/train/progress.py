"""Progress of an evaluation: how much is done, and how long the rest will take at this pace."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

EVERY_SECONDS = 10.0


@dataclass(slots=True)
class Progress:
    """Counts work done in units of one base clip.

    total       units of the whole evaluation
    """

    total: float
    done: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _told: float = 0.0

    def advance(self, part: str, count: int, of: int, units: float) -> None:
        """Note that a part has made `count` of its clips, the last of them worth `units`."""
        self.done += units
        now = time.monotonic()
        if count < of and now - self._told < EVERY_SECONDS:
            return
        self._told = now
        spent = now - self._began
        left = spent / self.done * max(0.0, self.total - self.done) if self.done > 0 else 0.0
        print(
            f"{part}: {count} of {of}; {spent:.0f} s so far, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )
