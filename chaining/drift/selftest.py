"""The meter tested on itself: every injection, on footage whose content is known."""

from collections.abc import Callable, Sequence

import numpy as np

from chaining.drift.analysis import analyse
from chaining.drift.arrays import Float
from chaining.drift.bases import Synthetic
from chaining.drift.cases import CASES, CLIP_FRAMES, CLIPS, Case, Check, Truth, pixel_means
from chaining.drift.features import ClipFeatures
from chaining.drift.inject import Injector
from chaining.drift.signals import QUICK_WIDTH, read_clip

Footage = Callable[[int], Float]  # clip index -> its undrifted frames
_FPS = 16


def synthetic_footage(seed: int = 0, *, width: int = QUICK_WIDTH, height: int = 108) -> Footage:
    """Return footage in which every clip shows the same drawn scene with fresh sensor noise."""
    base = Synthetic(seed, width, height, period=CLIP_FRAMES)
    return lambda k: base.frames(k * CLIP_FRAMES, CLIP_FRAMES)


def run_case(case: Case, footage: Footage, *, width: int = QUICK_WIDTH) -> list[Check]:
    """Inject a case's drift into eight clips, as 8-bit codes, and check the readings."""
    injector = Injector.parse(case.spec)
    clips: list[ClipFeatures] = []
    means: list[tuple[float, float]] = []
    for k in range(CLIPS):
        codes = np.rint(injector.apply(footage(k), k) * 255)
        frames = (codes / np.float32(255)).astype(np.float32)
        before = clips[-1] if clips else None
        clips.append(read_clip(frames, fps=_FPS, width=width, before=before))
        means.append(pixel_means(frames))
    chroma, lightness = zip(*means, strict=True)
    return case.check(analyse(clips), Truth(chroma, lightness))


def selftest(
    *,
    on: Callable[[int, int, str], None] | None = None,
    footage: Footage | None = None,
    cases: Sequence[Case] = CASES,
) -> list[Check]:
    """Run the cases and return their checks, each under its injection's name.

    on       called with (cases done, cases in all, the next one's name)
    footage  other footage than the synthetic scene, in clips of 40 frames
    """
    shown = footage or synthetic_footage()
    found: list[Check] = []
    for done, case in enumerate(cases):
        if on is not None:
            on(done, len(cases), case.spec)
        for check in run_case(case, shown):
            name = f"{case.spec}: {check.name}"
            found.append(Check(name, check.reading, check.expected, check.tolerance))
    return found
