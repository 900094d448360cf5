"""What a report shows: a measured chain, its features, and small pictures of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures
from chaining.drift_report.stills import Stills


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One chain as the meter saw it.

    name      what to call it, e.g. the file's name
    features  of every clip, for the lines from frame to frame
    stills    small pictures of every clip; empty where none were taken
    notes     what a reader has to know about the measurement, one sentence each
    """

    name: str
    drift: Drift
    features: Sequence[ClipFeatures]
    stills: Sequence[Stills] = ()
    notes: tuple[str, ...] = ()
