"""Metering: the drift meter of a chain, fed with clips in the order of the video.

Clips are measured from their lossless files, so that a chain that is taken up again reads the same.
"""

import os

from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures
from chaining.drift.meter import DriftMeter, DriftState
from chaining.drift.signals import WIDTH
from chaining.schedule import Schedule
from chaining.takes import FEATURES, Take
from vidgen.errors import BadMedia, NotFound


class Metering:
    """Measures each clip once all clips shown before it are there."""

    def __init__(self, schedule: Schedule) -> None:
        self._fps = float(schedule.fps)
        self._order = [clip.index for clip in schedule.shown]
        self.take_up({})

    def take_up(self, takes: dict[int, Take]) -> None:
        """Read what was measured of clips that were finished earlier; the rest is measured anew."""
        known = []
        for index in self._order:
            found = self._known(takes.get(index))
            if found is None:
                break
            known.append(found)
        self._meter = DriftMeter(
            self._fps, requested_clips=len(self._order), features=known, source="png"
        )
        self._done = len(known)

    def advance(self, takes: dict[int, Take]) -> DriftState | None:
        """Measure every clip whose turn has come; return the newest state, None if there was none.

        takes  finished ones by clip
        """
        newest = None
        while self._done < len(self._order) and self._order[self._done] in takes:
            newest = self._measure(takes[self._order[self._done]])
            self._done += 1
        return newest

    def report(self) -> Drift | None:
        """Return all readings so far, None before the first clip."""
        return self._meter.report() if self._done else None

    def _known(self, take: Take | None) -> ClipFeatures | None:
        """Return the features of a finished take; None where they are to be measured anew."""
        if take is None:
            return None
        try:
            found = ClipFeatures.load(take.folder / FEATURES)
        except (NotFound, BadMedia):
            return None
        is_its_own = (
            found.fps == self._fps
            and found.kind == take.plan.follows
            and found.num_frames == take.ends - take.plan.overlap
            and found.width == min(WIDTH, found.source_width)
            and found.labels.get("seed") == str(take.seed)
        )
        return found if is_its_own else None

    def _measure(self, take: Take) -> DriftState:
        plan = take.plan
        state = self._meter.push(
            take.shown(plan.overlap),
            kind=plan.follows,
            clip=plan.index,
            strategy=plan.strategy,
            seed=str(take.seed),
            colour=take.correction.used,
        )
        part = take.folder / f"{FEATURES}.part"
        try:
            self._meter.features[-1].save(part)
            os.replace(part, take.folder / FEATURES)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return state
