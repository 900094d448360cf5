"""The line plots: each signal over time, with clips, seams, the fitted line and its interval."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from chaining.drift.verdict import PASS, worst
from chaining.drift_report import style
from chaining.drift_report.fits import clip_levels, fits, middles
from chaining.drift_report.measured import Measured
from chaining.drift_report.panels import CHARTS, Line, Panel
from chaining.drift_report.rows import seam_outcomes
from chaining.drift_report.tone_plot import draw_tone

_WIDTH: Final = 11.0
_PANEL: Final = 2.0
_MOST_NUMBERS: Final = 20


def draw_chart(drawn: Any, name: str, runs: Sequence[Measured]) -> None:
    """Draw a chart of `CHARTS` into a figure; a second run is laid over the first."""
    panels = CHARTS[name]
    if name == "luma":
        grid = drawn.add_gridspec(len(panels), 2, width_ratios=(3.2, 1))
        draw_tone(drawn.add_subplot(grid[:, 1]), runs)
    else:
        grid = drawn.add_gridspec(len(panels), 1)
    first = None
    for place, panel in enumerate(panels):
        axes = drawn.add_subplot(grid[place, 0], sharex=first)
        first = first or axes
        _draw_panel(axes, panel, runs)
        _draw_clips(axes, runs[0], numbers=place == 0)
        axes.set_title(panel.title, pad=20 if place == 0 else 6)
        axes.tick_params(labelbottom=place == len(panels) - 1)
    axes.set_xlabel("seconds")
    if len(runs) > 1:
        names = [style_line(run) for run in range(len(runs))]
        drawn.legend(names, [run.name for run in runs], loc="outside lower right", ncols=2)


def size_of(name: str) -> tuple[float, float]:
    """Return a chart's width and height in inches."""
    return _WIDTH, _PANEL * len(CHARTS[name]) + 0.5


def style_line(run: int) -> Any:
    """Return a sample of a run's line, for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=(style.ONE, style.TWO)[run], linewidth=2)


def _draw_panel(axes: Any, panel: Panel, runs: Sequence[Measured]) -> None:
    for number, measured in enumerate(runs):
        for place, line in enumerate(panel.lines):
            if len(runs) > 1:
                colour, dash = (style.ONE, style.TWO)[number], ("-", "--")[place]
            else:
                colour, dash = (style.ONE, style.TWO)[place], "-"
            _draw_line(axes, line, measured, colour, dash)
    if any(line.label for line in panel.lines):
        from matplotlib.lines import Line2D

        samples = [
            Line2D([], [], linewidth=2, label=line.label,
                   color=style.FAINT if len(runs) > 1 else (style.ONE, style.TWO)[place],
                   linestyle=("-", "--")[place] if len(runs) > 1 else "-")
            for place, line in enumerate(panel.lines)
        ]  # fmt: skip
        axes.legend(handles=samples, loc="lower right", bbox_to_anchor=(1, 1.0), ncols=2,
                    borderaxespad=0.1)  # fmt: skip
    axes.grid(axis="y")
    _widen(axes, panel)


def _draw_line(axes: Any, line: Line, measured: Measured, colour: str, dash: str) -> None:
    fps = measured.drift.source.fps
    if line.frames is not None:
        values = np.concatenate([line.values(clip) for clip in measured.features])
        axes.plot(np.arange(len(values)) / fps, values, color=colour, linewidth=0.8, alpha=0.55,
                  linestyle=dash)  # fmt: skip
    levels = clip_levels(measured, line)
    mark = 4 if len(levels) <= _MOST_NUMBERS else 2.5
    axes.plot(middles(measured), levels, "o", color=colour, markersize=mark)
    for fit in fits(measured, line):
        axes.plot(fit.seconds, fit.centre, color=colour, linewidth=1.8, linestyle=dash)
        axes.fill_between(fit.seconds, fit.low, fit.high, color=colour, alpha=0.18, linewidth=0)


def _widen(axes: Any, panel: Panel) -> None:
    """Keep a signal that hardly moves from filling the panel with its noise."""
    low, high = axes.get_ylim()
    least = _LEAST.get(panel.lines[0].slope, 0.0)
    if panel.lines[0].slope == "":
        axes.set_ylim(min(low, 0.0), max(high, 5.0))
    elif high - low < least:
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)


_LEAST: Final = {"luma": 0.06, "chroma": 0.02, "hue": 4.0, "cast_a": 0.01, "blur": 0.3,
                 "noise": 1.0, "high_share": 0.5, "flow": 0.2}  # fmt: skip


def _draw_clips(axes: Any, measured: Measured, *, numbers: bool) -> None:
    """Draw the bands of the clips, their numbers, and the seams; those that show are marked."""
    drift = measured.drift
    fps = drift.source.fps
    every = -(-len(drift.clips) // _MOST_NUMBERS)
    for row in drift.clips:
        if row.index % 2 == 0:
            axes.axvspan(row.start / fps, row.end / fps, color=style.BAND, zorder=0, linewidth=0)
        if numbers and row.index % every == 0:
            middle = (row.start + row.end) / 2 / fps
            _name(axes, str(row.index), (middle, 1), ("data", "axes fraction"), "center")
    if numbers:
        _name(axes, "clip", (-0.008, 1), "axes fraction", "right")
    for seam in drift.seams:
        judged = worst(seam_outcomes(seam))
        if seam.kind != "continue":
            axes.axvline(seam.frame / fps, color=style.INK, linewidth=1, linestyle=":")
        elif judged != PASS:
            colour = style.OF_OUTCOME[judged]
            axes.axvline(seam.frame / fps, color=colour, linewidth=0.9, alpha=0.4, zorder=0.5)
            axes.plot(seam.frame / fps, 1, "v", color=colour, markersize=4, clip_on=False,
                      transform=axes.get_xaxis_transform())  # fmt: skip
        else:
            axes.axvline(seam.frame / fps, color=style.RULE, linewidth=0.7, zorder=0.5)
    axes.set_xlim(0, drift.source.frames / fps)


def _name(axes: Any, text: str, place: tuple[float, float], units: Any, align: str) -> None:
    """Write above the panel, clear of the marks on its upper edge."""
    axes.annotate(text, place, (0, 6), xycoords=units, textcoords="offset points", ha=align,
                  fontsize=8, color=style.FAINT)  # fmt: skip
