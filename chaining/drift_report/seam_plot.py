"""The seam plot: how each clip joins the one before it, against what still passes."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from chaining.drift import thresholds
from chaining.drift.seams import Seam
from chaining.drift.thresholds import Limit
from chaining.drift.verdict import judge_value
from chaining.drift_report import style
from chaining.drift_report.measured import Measured
from chaining.drift_report.plots import style_line
from chaining.drift_report.rows import seam_outcomes

SIZE: Final = (11.0, 6.4)


def draw_seams(drawn: Any, runs: Sequence[Measured]) -> None:
    """Draw, for each clip after the first, its seam's jump and step and how it settles.

    Bars of one run are coloured by outcome; of two, by run.
    """
    rows = drawn.subplots(3, 1, sharex=True)
    titles = (
        "Change of the picture at the seam (times the usual change)",
        "Luma step at the seam (0 to 1)",
        "How a clip begins: luma off the line that follows (0 to 1)",
    )
    limits = (thresholds.SEAM_RATIO, thresholds.SEAM_LUMA, thresholds.FLASH)
    for axes, title in zip(rows, titles, strict=True):
        axes.set_title(title)
        axes.grid(axis="y")
    for number, measured in enumerate(runs):
        shift, width = (0.0, 0.7) if len(runs) == 1 else (0.38 * number - 0.19, 0.36)
        plain = None if len(runs) == 1 else (style.ONE, style.TWO)[number]
        seams = measured.drift.seams
        _bars(rows[0], seams, [s.ratio for s in seams], 0, shift, width, plain)
        _bars(rows[1], seams, [s.luma_step for s in seams], 1, shift, width, plain)
        starts = measured.drift.settling[1:]
        judged = [judge_value(start.size, thresholds.FLASH) for start in starts]
        colours = plain or [style.OF_OUTCOME[found] for found in judged]
        rows[2].bar([start.clip + shift for start in starts], [start.size for start in starts],
                    width, color=colours)  # fmt: skip
    for axes, limit in zip(rows, limits, strict=True):
        _draw_limit(axes, limit, both=limit is not thresholds.SEAM_RATIO)
    clips = max(len(run.drift.clips) for run in runs)
    rows[-1].set_xlabel("seam into clip")
    rows[-1].set_xlim(0.4, max(clips - 0.4, 1.4))
    rows[-1].set_xticks(np.arange(1, max(clips, 2), -(-clips // 20)))
    if len(runs) > 1:
        lines = [style_line(number) for number in range(len(runs))]
        drawn.legend(lines, [run.name for run in runs], loc="outside lower right", ncols=2)


def _bars(
    axes: Any,
    seams: Sequence[Seam],
    values: Sequence[float],
    which: int,
    shift: float,
    width: float,
    plain: str | None,
) -> None:
    colours = plain or [
        style.OF_OUTCOME[seam_outcomes(seam)[which]] if seam.kind == "continue" else style.RULE
        for seam in seams
    ]
    axes.bar([seam.clip + shift for seam in seams], values, width, color=colours)


def _draw_limit(axes: Any, limit: Limit, *, both: bool) -> None:
    """Draw up to where a value is good and from where on it is bad, and have both in view."""
    low, high = axes.get_ylim()
    top = 1.2 * limit.fails
    axes.set_ylim(min(low, -top) if both else 0, max(high, top))
    for end, colour, text in (
        (limit.passes, style.FAIR, f"good up to {limit.passes:g}"),
        (limit.fails, style.BAD, f"bad beyond {limit.fails:g}"),
    ):
        for side in (1, -1) if both else (1,):
            axes.axhline(side * end, color=colour, linewidth=0.9, linestyle="--")
        axes.annotate(text, (1, end), (4, 0), color=colour, fontsize=8, va="center",
                      xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
