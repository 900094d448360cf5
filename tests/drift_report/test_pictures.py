"""Stills, sheets, plots: the right frames at the right places, and lines that fit."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chaining.drift.analysis import analyse
from chaining.drift.features import ClipFeatures
from chaining.drift.signals import read_clip
from chaining.drift_report import Measured, StillTaker, write_pngs
from chaining.drift_report.fits import fits
from chaining.drift_report.panels import CHARTS
from chaining.drift_report.sheets import draw_seam_strips, draw_sheet


def _grey(frames: np.ndarray) -> int:
    return int(np.median(frames))


def _numbered(clips: int, length: int) -> Measured:
    """Return clips of flat frames whose grey is the frame's number."""
    taker, features = StillTaker(), list[ClipFeatures]()
    for k in range(clips):
        frames = np.ones((length, 54, 96, 3), np.float32)
        frames *= (np.arange(k * length, (k + 1) * length) / 255)[:, None, None, None]
        chunks = [frames[:3], frames[3:]]
        before = features[-1] if features else None
        features.append(read_clip(taker.watch(chunks, length), fps=16, width=96, before=before))
    return Measured("numbers", analyse(features), tuple(features), taker.stills)


def test_the_first_middle_and_last_frames_are_kept(tmp_path: Path) -> None:
    stills = _numbered(2, 20).stills
    assert [sorted(taken) for taken in stills] == [[0, 1, 2, 10, 17, 18, 19]] * 2
    with Image.open(io.BytesIO(stills[1][17])) as picture:
        assert picture.size == (240, 135)
        assert abs(_grey(np.asarray(picture)) - 37) <= 1


def test_sheet_and_strips_show_the_frames_in_order() -> None:
    measured = _numbered(2, 20)
    sheet = np.asarray(draw_sheet(measured))[..., 0].astype(int)
    # Two clips side by side, three pictures of 200 pixels each, 2 apart, 8 from the edge.
    left = [8 + 202 * place + 100 for place in range(3)]
    for clip, shift in ((0, 0), (1, 3 * 200 + 4 + 16)):
        found = [sheet[80, x + shift] for x in left]
        assert np.allclose(found, [20 * clip, 20 * clip + 10, 20 * clip + 19], atol=1)
    strip = draw_seam_strips(measured)
    assert strip is not None
    row = np.asarray(strip)[90, :, 0].astype(int)
    places = [8 + 222 * i + (10 if i > 2 else 0) + 110 for i in range(6)]
    assert np.allclose([row[x] for x in places], [17, 18, 19, 20, 21, 22], atol=1)


@pytest.mark.parametrize(("clips", "length"), [(1, 1), (2, 2), (1, 5)])
def test_tiny_chains_have_sheets_too(clips: int, length: int) -> None:
    measured = _numbered(clips, length)
    assert draw_sheet(measured).width > 600
    assert (draw_seam_strips(measured) is None) == (clips == 1)


def test_the_fitted_line_runs_through_the_clips(drifting: Measured) -> None:
    (fit,) = fits(drifting, CHARTS["luma"][0].lines[0])
    first = float(drifting.features[0].scalars["luma"][4:].mean())
    for clip in range(6):
        assert fit.centre[clip] == pytest.approx(first * 0.97**clip, abs=0.003)
        assert fit.low[clip] <= fit.centre[clip] <= fit.high[clip]
    assert fit.seconds[1] - fit.seconds[0] == pytest.approx(24 / 16)
    (ratio,) = fits(drifting, CHARTS["colour"][0].lines[0])
    slope = drifting.drift.slopes["chroma"].value
    assert ratio.centre[5] / ratio.centre[0] == pytest.approx(np.exp(5 * slope))


def test_all_plots_are_written(drifting: Measured, steady: Measured, tmp_path: Path) -> None:
    names = ["luma.png", "colour.png", "detail.png", "seams.png", "sheet.png"]
    assert [path.name for path in write_pngs(tmp_path, steady, drifting)] == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    with Image.open(tmp_path / "luma.png") as picture:
        assert picture.width > 1000
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3).tolist()
    assert pixels.count([0x1F, 0x5F, 0xAE]) > 100  # the first run's line
    assert pixels.count([0xC4, 0x56, 0x0F]) > 100  # the second's
