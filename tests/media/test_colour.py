"""Colour: against the standards' own numbers, against ffmpeg, and over many generations."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.media.pictures import ffmpeg_frames, patch_middles, patches, scene
from vidgen.media import VideoWriter, probe_video, read_video
from vidgen.media.colour import MATRICES, Coding, planes_to_rgb, rgb_to_planes

# Narrow-range codes of the pure colours, as the recommendations and test-bar tables list them.
PURE = {
    "bt709": {(1, 0, 0): (63, 102, 240), (0, 1, 0): (173, 42, 26), (0, 0, 1): (32, 240, 118)},
    "bt601": {(1, 0, 0): (81, 90, 240), (0, 1, 0): (145, 54, 34), (0, 0, 1): (41, 240, 110)},
}


@pytest.mark.parametrize("matrix", PURE)
def test_pure_colours_have_the_codes_of_the_standard(matrix: str) -> None:
    for rgb, codes in PURE[matrix].items():
        picture = np.broadcast_to(np.array(rgb, np.float32), (4, 4, 3))
        planes = rgb_to_planes(picture, Coding(matrix))
        assert tuple(int(plane[1, 1]) for plane in planes) == codes


def test_ten_bits_and_full_range_use_their_whole_scale() -> None:
    white = np.ones((2, 2, 3), np.float32)
    assert rgb_to_planes(white, Coding("bt709", 10))[0].max() == 940
    assert rgb_to_planes(white, Coding("bt709", 8, True))[0].max() == 255
    assert rgb_to_planes(0 * white, Coding("bt709", 10))[0].max() == 64


@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(1, 21), width=st.integers(1, 21), matrix=st.sampled_from(list(MATRICES)),
    sampling=st.sampled_from([(True, True), (True, False), (False, False)]),
    bits=st.sampled_from([8, 10, 16]), full=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_a_second_trip_changes_only_rounding(
    height: int,
    width: int,
    matrix: str,
    sampling: tuple[bool, bool],
    bits: int,
    full: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    # Mild colours: beyond the corners of the RGB cube clipping would come in.
    picture = (0.4 + 0.2 * rng.random((height, width, 3))).astype(np.float32)
    coding = Coding(matrix, bits, full, *sampling)
    once = planes_to_rgb(rgb_to_planes(picture, coding), coding)
    twice = planes_to_rgb(rgb_to_planes(once, coding), coding)
    assert once.shape == picture.shape
    step = 2.5 / (219 * 2 ** (bits - 8))
    assert np.abs(twice - once).max() <= step
    if sampling == (False, False):
        assert np.abs(once - picture).max() <= step


@pytest.mark.parametrize(
    ("kind", "bound_mean", "bound_max"), [("patches", 0.1, 4.0), ("scene", 0.1, 4.0)]
)
def test_twelve_trips_through_mp4(
    tmp_path: Path, kind: str, bound_mean: float, bound_max: float
) -> None:
    source = patches() if kind == "patches" else scene()
    frames, path = source, tmp_path / "trip.mp4"
    for _ in range(12):
        with VideoWriter(
            path, width=source.shape[2], height=source.shape[1], fps=Fraction(16)
        ) as w:
            w.write(frames)
        frames = np.concatenate(list(read_video(path)))
    error = 255 * (frames - source)
    assert abs(error.mean()) <= bound_mean
    assert np.abs(error.mean((0, 1, 2))).max() <= 2 * bound_mean
    if kind == "patches":
        assert np.abs(patch_middles(error)).max() <= bound_max
    else:
        # Single pixels beside an edge lose colour to 4:2:0 itself, so areas of 16 x 16 are judged.
        f, h, w, _ = error.shape
        areas = error.reshape(f, h // 16, 16, w // 16, 16, 3).mean((2, 4))
        assert np.abs(areas).max() <= bound_max


def test_another_program_sees_the_same_colours(tmp_path: Path) -> None:
    source, path = patches(), tmp_path / "clip.mp4"
    with VideoWriter(path, width=128, height=128, fps=Fraction(16)) as writer:
        writer.write(source)
    seen = ffmpeg_frames(path, 128, 128).astype(np.float32)
    error = patch_middles(seen - 255 * source)
    assert abs(error.mean()) <= 0.1
    assert np.abs(error).max() <= 4


def test_file_is_tagged_bt709_narrow(tmp_path: Path) -> None:
    for name, profile in (
        ("a.mp4", "mp4"),
        ("b.mp4", "mp4-10"),
        ("c.mov", "prores"),
        ("d.webm", "webm"),
    ):
        with VideoWriter(
            tmp_path / name, width=64, height=64, fps=Fraction(16), profile=profile
        ) as w:
            w.write(patches(2, 64))
        with av.open(str(tmp_path / name)) as container:
            frame = next(container.decode(video=0))
            tags = (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range)
        assert tags == (1, 1, 1, 1), name
        info = probe_video(tmp_path / name)
        assert (info.matrix, info.primaries, info.transfer, info.range) == ("bt709",) * 3 + ("tv",)
        assert info.assumptions == ()


def test_master_returns_eight_bits_exactly_and_floats_at_sixteen(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bytes_ = rng.integers(0, 256, (3, 33, 47, 3), dtype=np.uint8)
    floats = rng.random((3, 33, 47, 3), dtype=np.float32)
    words = rng.integers(0, 65536, (3, 33, 47, 3), dtype=np.uint16)
    for name, frames, white in (("a", bytes_, 255), ("b", floats, 1), ("c", words, 65535)):
        path = tmp_path / f"{name}.mkv"
        with VideoWriter(path, width=47, height=33, fps=Fraction(16), profile="master") as writer:
            writer.write(frames)
        back = np.concatenate(list(read_video(path)))
        if white == 1:
            assert np.abs(back - frames).max() <= 0.51 / 65535
        else:
            assert np.array_equal(np.rint(back.astype(np.float64) * white), frames)
