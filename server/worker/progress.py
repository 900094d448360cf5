"""Progress: how far a job is, by the predicted seconds of its stages; it never goes back."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

STAGES = ("encode", "condition", "denoise", "decode")
WRITING = 0.02  # of all clips: the seconds that the files of the whole take
MOST = 99
_LEAST_WRITE = 60.0
_SURE = 0.03  # share that must be done here before its pace says how long the rest takes


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a job is.

    step, steps  of the phase
    percent      0..99
    left         seconds until it ends, as far as is known
    """

    phase: str
    step: int
    steps: int
    percent: int
    left: float


class Progress:
    """Counts the work of one job."""

    def __init__(
        self,
        costs: Sequence[Mapping[str, float]],
        done: Iterable[int],
        percent: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin.

        costs    predicted seconds of each clip by stage
        done     clips that are made
        percent  that was told already
        """
        self._costs = [_whole(cost) for cost in costs]
        self._clips = [sum(cost.values()) for cost in self._costs]
        self._writing = WRITING * sum(self._clips)
        self._total = sum(self._clips) + self._writing
        self._done = set(done)
        self._percent = percent
        self._clock = clock
        self._began = clock()
        self._before = self._made()

    @property
    def percent(self) -> int:
        """What was told last."""
        return self._percent

    def predicted(self, idx: int) -> Mapping[str, float]:
        """Return the predicted seconds of a clip by stage."""
        return self._costs[idx]

    def longest_write(self) -> float:
        """Return the seconds that writing one of the files of the whole can be expected to take."""
        return _LEAST_WRITE + sum(cost["decode"] for cost in self._costs)

    def at(self, idx: int, stage: str, step: int, steps: int) -> Reading:
        """Return how far it is when a step of a clip is done."""
        cost = self._costs[idx]
        order = STAGES.index(stage)
        inside = sum(cost[name] for name in STAGES[:order]) + cost[stage] * step / max(1, steps)
        return self._reading(stage, step, steps, self._made() + inside)

    def finished(self, idx: int) -> None:
        """Count a clip as made."""
        self._done.add(idx)

    def writing(self, step: int, steps: int) -> Reading:
        """Return how far it is when some of the files are written."""
        share = step / max(1, steps)
        return self._reading("write", step, steps, sum(self._clips) + self._writing * share)

    def _made(self) -> float:
        return sum(self._clips[idx] for idx in self._done)

    def _reading(self, phase: str, step: int, steps: int, work: float) -> Reading:
        share = work / self._total
        self._percent = max(self._percent, min(MOST, int(100 * share)))
        here = work - self._before
        spent = self._clock() - self._began
        pace = spent / here if here > _SURE * self._total else 1.0
        return Reading(phase, step, steps, self._percent, max(0.0, pace * (self._total - work)))


def _whole(cost: Mapping[str, float]) -> dict[str, float]:
    """Return a cost with every stage, and more than nothing in all."""
    found = {name: max(0.0, float(cost.get(name, 0.0))) for name in STAGES}
    return found if sum(found.values()) > 0 else {**found, "denoise": 1.0}
