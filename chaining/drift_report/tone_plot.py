"""The tone curves: where each brightness of the first clip has gone in later ones."""

# q quantiles  n histogram bins
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.features import ClipFeatures
from chaining.drift.resample import settled
from chaining.drift.tone import pooled_quantiles
from chaining.drift_report import style
from chaining.drift_report.measured import Measured

_MOST_CURVES: Final = 6


def draw_tone(axes: Any, runs: Sequence[Measured]) -> None:
    """Draw the measured curves of the longest scene, later clips stronger, against "no change"."""
    axes.plot([0, 1], [0, 1], color=style.FAINT, linewidth=1, linestyle="--")
    for number, measured in enumerate(runs):
        segment = measured.drift.main
        before = _quantiles(measured.features[segment.first])
        later = np.arange(segment.first + 1, segment.last + 1)
        count = min(len(later), _MOST_CURVES if len(runs) == 1 else 2)
        picks = later[np.linspace(len(later) / count - 1, len(later) - 1, count).round().astype(int)
                      ] if count else later  # fmt: skip
        for place, clip in enumerate(picks):
            strength = (place + 1) / count
            axes.plot(before, _quantiles(measured.features[clip]), linewidth=1 + strength,
                      color=(style.ONE, style.TWO)[number], alpha=0.25 + 0.75 * strength,
                      label=f"clip {clip}" if len(runs) == 1 else "_")  # fmt: skip
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="luma in the first clip",
             ylabel="luma in a later clip")  # fmt: skip
    told = f" (best fit: {runs[0].drift.main.tone})" if len(runs) == 1 else ""
    axes.set_title(f"Tone curves{told}")
    axes.grid()
    if len(runs) == 1 and runs[0].drift.main.num_clips > 1:
        axes.legend(loc="upper left", handlelength=1.4, labelspacing=0.2)


def _quantiles(clip: ClipFeatures) -> Double:
    counts_fn = clip.luma_fn[settled(clip.num_frames) :].astype(np.float64)
    return np.asarray(pooled_quantiles(counts_fn.sum(axis=0, keepdims=True))[0])
