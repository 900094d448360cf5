"""Training curves: sessions found, replaced rows dropped, a picture with something on it."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from benchmarks.train.curves import draw_curves, read_log, smoothed

HEAD = "step,clips,cpu_seconds,loss,loss_free,rate\n"


def row(step: int, loss: float, rate: float = 1.0) -> str:
    return f"{step},{step * 8},{step * 0.5},{loss},{loss},{rate}\n"


def test_a_resumed_session_replaces_what_the_killed_one_wrote_after_its_checkpoint(
    tmp_path: Path,
) -> None:
    log = tmp_path / "dit.csv"
    killed = row(1, 9) + row(2, 8) + row(3, 7) + row(4, 6)
    log.write_text(HEAD + killed + row(3, 70, 0.2) + row(4, 60, 0.5) + "5,40,2.")
    read = read_log(log)
    assert read.columns["loss"].tolist() == [9, 8, 70, 60]
    assert read.starts == (0, 2)


def test_a_session_begins_where_the_rate_rises_again(tmp_path: Path) -> None:
    log = tmp_path / "dit.csv"
    rates = (0.5, 1.0, 1.0, 0.4, 0.1, 0.6, 1.0, 1.0)
    log.write_text(HEAD + "".join(row(i + 1, 1, rate) for i, rate in enumerate(rates)))
    assert read_log(log).starts == (0, 5)


def test_smoothing_keeps_a_level_and_ignores_gaps() -> None:
    values = np.full(100, 3.0)
    values[40] = np.nan
    assert np.allclose(smoothed(values), 3.0)


def test_the_picture_shows_the_curves(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="train first"):
        draw_curves(tmp_path, tmp_path / "curves.png")
    (tmp_path / "dit.csv").write_text(HEAD + "".join(row(i, 5 / i) for i in range(1, 60)))
    draw_curves(tmp_path, tmp_path / "out" / "curves.png")
    picture = cv2.imread(str(tmp_path / "out" / "curves.png"))
    assert picture.shape[1] > 1000
    assert np.ptp(picture.astype(int), axis=2).max() > 60  # coloured lines
