"""Chains with known drift, measured with their small pictures."""

from collections.abc import Callable

import numpy as np
import pytest

from chaining.drift.analysis import analyse
from chaining.drift.bases import Synthetic
from chaining.drift.features import ClipFeatures
from chaining.drift.inject import Injector
from chaining.drift.signals import read_clip
from chaining.drift_report import Measured, StillTaker

Make = Callable[..., Measured]


def chain(spec: str, num_clips: int, length: int = 24, name: str = "clip.mkv") -> Measured:
    """Measure a small drawn chain; from clip 1 on the injection drifts."""
    base, injector, taker = Synthetic(0, 96, 54, length), Injector.parse(spec), StillTaker()
    features: list[ClipFeatures] = []
    for k in range(num_clips):
        frames = np.clip(injector.apply(base.frames(k * length, length), k), 0, 1)
        before = features[-1] if features else None
        features.append(read_clip(taker.watch([frames], length), fps=16, width=96, before=before))
    return Measured(name, analyse(features), tuple(features), taker.stills, ("A note.",))


@pytest.fixture(scope="session")
def drifting() -> Measured:
    """Return six clips that darken by 3 per cent each."""
    return chain("gain=0.97", 6, name="<b>dark & co.mkv")


@pytest.fixture(scope="session")
def steady() -> Measured:
    """Return six clips that stay as they are."""
    return chain("none", 6, name="steady.mkv")
