"""Training curves: the logs of a work folder as one picture."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LOGS = ("dit", "vae")
# column of the log, what it means
SERIES = {
    "dit": (
        ("loss", "error of the velocity"),
        ("loss_free", "the same, no frame given"),
        ("cover", "probe: where the object is"),
        ("bound", "probe: what it is"),
    ),
    "vae": (("psnr", "squared error of the pixels"), ("latent", "error of the latents")),
}
SMOOTH_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Log:
    """A training's log in order of its steps.

    columns     values by name
    starts      indices of rows where a session begins
    """

    columns: dict[str, NDArray[np.float64]]
    starts: tuple[int, ...]


def read_log(path: Path) -> Log:
    """Read a log of any number of sessions.

    Rows that a killed session wrote after its last checkpoint are replaced by those of the session
    that resumed from it; a last line that was cut off is left out.
    """
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    names = lines[0]
    rows: list[list[float]] = []
    starts = [0]
    for line in lines[1:]:
        if len(line) != len(names):
            continue
        row = [float(cell) for cell in line]
        if rows and row[0] <= rows[-1][0]:
            while rows and rows[-1][0] >= row[0]:
                rows.pop()
            starts = [index for index in starts if index < len(rows)] + [len(rows)]
        rows.append(row)
    table = np.array(rows).reshape(-1, len(names))
    columns = {name: table[:, i] for i, name in enumerate(names)}
    rate = columns.get("rate", np.ones(len(rows)))
    # A session warms up: where the rate rises, one began at this row or the one before.
    rises = [i + 1 for i, (before, now) in enumerate(pairwise(rate)) if now > before]
    found = {
        *starts,
        *(i for i in rises if not {i - 1, i} & {*starts, *(j for j in rises if j < i)}),
    }
    return Log(columns, tuple(sorted(found)))


def smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A centred running mean over 3 % of the rows that ignores missing values."""
    half = max(1, int(SMOOTH_SHARE * len(values) / 2))
    padded = np.pad(values, half, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    known = ~np.isnan(windows)
    total = np.where(known, windows, 0).sum(axis=1)
    result: NDArray[np.float64] = total / np.maximum(1, known.sum(axis=1))
    return result


def draw_curves(work: Path, path: Path) -> None:
    """Write a picture of the transformer's and the VAE's logs over CPU seconds and over clips.

    Raises      FileNotFoundError if the work folder has no log
    """
    from matplotlib.figure import Figure

    logs = {name: work / f"{name}.csv" for name in LOGS if (work / f"{name}.csv").exists()}
    if not logs:
        raise FileNotFoundError(f"There is no dit.csv or vae.csv in {work}; train first.")
    figure = Figure(figsize=(12, 4.2 * len(logs)), layout="constrained")
    axes = figure.subplots(len(logs), 2, squeeze=False)
    titles = {"dit": "transformer and text encoder", "vae": "VAE"}
    counts = {"dit": "clips seen", "vae": "crops seen"}
    for line, (name, log_path) in zip(axes, logs.items(), strict=True):
        log = read_log(log_path)
        across = (("cpu_seconds", "CPU seconds"), ("clips", counts[name]))
        for axis, (column, label) in zip(line, across, strict=True):
            x = log.columns[column]
            for series, meaning in SERIES[name]:
                if series not in log.columns:
                    continue
                y = log.columns[series]
                if series == "psnr":  # the loss itself was not the same all along
                    y = 10 ** (-y / 10)
                (drawn,) = axis.plot(x, y, linewidth=0.6, alpha=0.3)
                axis.plot(x, smoothed(y), linewidth=1.6, color=drawn.get_color(), label=meaning)
            for number, start in enumerate(log.starts):
                axis.axvline(
                    x[start], color="0.5", linestyle=":", linewidth=1,
                    label="a session begins" if number == 0 else None,
                )  # fmt: skip
            decades = "log" if x[-1] > 20 * x[0] else "linear"
            axis.set(xlabel=label, ylabel="training error", yscale="log", xscale=decades)
            axis.set_title(f"{titles[name]}, over {label}", fontsize=10)
            axis.grid(which="both", alpha=0.2)
            axis.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
