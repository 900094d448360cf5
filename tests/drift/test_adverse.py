"""The drift meter on what is no sound video, and on reports and features that were damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.drift.arrays import Float
from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures
from chaining.drift.meter import DriftMeter, measure
from chaining.drift.signals import SMALLEST, read_clip
from vidgen.errors import BadMedia, BadRequest

SIDE = 48


def flat(value: float, num_frames: int = 9, rows: int = SIDE, columns: int = SIDE) -> Float:
    return np.full((num_frames, rows, columns, 3), value, np.float32)


def noisy(num_frames: int = 9, rows: int = SIDE, columns: int = SIDE) -> Float:
    rng = np.random.default_rng(num_frames + rows)
    return rng.random((num_frames, rows, columns, 3)).astype(np.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "frames",
    [
        flat(0), flat(1), flat(0.5), noisy(), noisy(9, SMALLEST, SMALLEST),
        noisy(9, SMALLEST, 333), noisy(9, 333, SMALLEST), noisy(9, 17, 31), noisy(9, 56, 320),
        np.repeat(noisy()[..., :1], 3, axis=-1),
    ],
    ids=[
        "black", "white", "grey", "noise", "least", "wide", "tall", "odd", "panorama", "grey noise",
    ],
)  # fmt: skip
def test_odd_pictures_are_read_into_numbers(frames: Float) -> None:
    """No warning, no nan: the report survives strict JSON."""
    drift = measure(frames, [3, 5, 1], fps=16)
    text = json.dumps(drift.as_dict(), allow_nan=False)
    assert Drift.from_dict(json.loads(text)).as_dict() == drift.as_dict()


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 64), (64, 1), (1, 1), (8, 8), (9, 640), (15, 16)]
)
def test_frames_too_small_for_any_reading_are_refused(rows: int, columns: int) -> None:
    with pytest.raises(BadRequest, match=rf"{columns}x{rows} are too small .* 16x16 is least"):
        measure(noisy(9, rows, columns), [3] * 3, fps=16)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frames: frames * 255, r"luma from .* to .*; give sRGB in 0\.\.1"),
        (lambda frames: frames * 2 - 1, "luma from -"),
        (lambda frames: frames * np.float32(3e38), r"Frame 0 of the clip"),
        (lambda frames: np.where(np.arange(9)[:, None, None, None] == 4, np.nan, frames), "nan"),
    ],
    ids=["0..255", "-1..1", "huge", "nan"],
)
def test_frames_of_another_range_are_refused(change: Callable[[Float], Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_clip(change(noisy()).astype(np.float32), fps=16)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf")])
def test_no_frame_rate_is_refused(fps: float) -> None:
    with pytest.raises(BadRequest, match="is not a frame rate"):
        measure(noisy(), [3] * 3, fps=fps)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return measure(noisy(), [3] * 3, fps=16).as_dict()


@pytest.mark.parametrize(
    "change",
    [
        lambda _: None, lambda _: [], lambda _: "x", lambda _: {}, lambda d: {**d, "schema": 2},
        lambda d: {**d, "schema": "1"}, lambda d: {**d, "clips": []},
        lambda d: {**d, "segments": []}, lambda d: {**d, "segments": [{}]},
        lambda d: {**d, "verdict": {**d["verdict"], "overall": "great"}},
    ],
)  # fmt: skip
def test_a_report_of_anything_is_refused(
    report: dict[str, Any], change: Callable[[dict[str, Any]], Any]
) -> None:
    with pytest.raises(BadMedia, match="drift report"):
        Drift.from_dict(change(report))


def test_features_of_damaged_bytes_are_refused_and_leave_no_file_open(tmp_path: Path) -> None:
    """Zeroed, cut, flipped: whatever zip, deflate and npy make of it, one sentence."""
    path = tmp_path / "f.npz"
    read_clip(noisy(), fps=16).save(path)
    sound, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for trial in range(150):
        data = bytearray(sound)
        at = int(rng.integers(len(data)))
        if trial % 3 == 0:
            data[at : at + 40] = bytes(40)
        elif trial % 3 == 1:
            del data[at:]
        else:
            data[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            ClipFeatures.load(path)
        except BadMedia:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {"scalars": np.full_like(a["scalars"], np.nan)},
        lambda a: {"scalars": a["scalars"].astype(str)},
        lambda a: {"thumbs_frwc": a["thumbs_frwc"][..., :1]},
        lambda a: {"spectrum_fn": a["spectrum_fn"] * np.nan},
        lambda a: {"spectrum_fn": a["spectrum_fn"] * 1j},
        lambda a: {"last_luma_rw": a["last_luma_rw"].astype(str)},
        lambda _: {"head": np.array("[]")},
        lambda a: {"head": np.array(str(a["head"]).replace('"fps": 16', '"fps": Infinity'))},
    ],
)
def test_features_that_hold_no_numbers_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    read_clip(noisy(), fps=16).save(tmp_path / "f.npz")
    arrays = dict(np.load(tmp_path / "f.npz"))
    np.savez_compressed(tmp_path / "g.npz", **{**arrays, **change(arrays)})
    with pytest.raises(BadMedia, match=r"g\.npz is damaged"):
        ClipFeatures.load(tmp_path / "g.npz")


def flickering(seed: int, num_frames: int) -> Float:
    """A still scene of few pixels with noise and a flicker of brightness, as bad video has it."""
    rng = np.random.default_rng(seed)
    scene = rng.random((21, 37, 3)) * 0.5 + 0.2
    noise = 0.03 * rng.standard_normal((num_frames, 21, 37, 3))
    flicker = 0.006 * rng.standard_normal((num_frames, 1, 1, 1))
    return np.clip(scene + noise + flicker, 0, 1).astype(np.float32)


def test_a_flicker_between_very_short_clips_is_no_certain_fault() -> None:
    """Twelve frames do not say what step of luma is usual, so that none of them is unusual."""
    for seed in range(12):
        found = measure(flickering(seed, 12), [3] * 4, fps=16).verdict
        assert found.by_group["seams"] != "fail", (seed, found.reasons)


def test_a_step_between_very_short_clips_is_told_without_certainty() -> None:
    """The picture's own change says fail or not; the step of luma alone has nothing to stand on."""
    frames = flickering(0, 12)
    frames[6:] = np.clip(frames[6:] + 0.08, 0, 1)
    drift = measure(frames, [3] * 4, fps=16)
    assert drift.seams[1].luma_step > 0.04
    assert drift.seams[1].luma_z == 0
    assert "warn: frame 6 (seam into clip 2): luma steps by" in " ".join(drift.verdict.reasons)


def test_features_with_pictures_of_another_size_are_not_mixed(tmp_path: Path) -> None:
    one = read_clip(noisy(), fps=16)
    one.save(tmp_path / "f.npz")
    arrays = dict(np.load(tmp_path / "f.npz"))
    arrays["thumbs_frwc"] = arrays["thumbs_frwc"][:, :5]
    np.savez_compressed(tmp_path / "g.npz", **arrays)
    with pytest.raises(BadRequest, match="measure all clips at one size"):
        DriftMeter(16, features=[one, ClipFeatures.load(tmp_path / "g.npz")]).report()
