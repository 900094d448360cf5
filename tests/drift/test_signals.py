"""Signals of single frames against values worked out by hand, and how frames may come in."""

import numpy as np
import pytest

from chaining.drift.detail import FREQUENCIES, equivalent_blur, radial_spectrum
from chaining.drift.signals import read_clip
from chaining.drift.tone import fit_tone, luma_histogram, pooled_quantiles
from tests.drift.footage import drawn
from vidgen.errors import BadRequest


def test_a_plain_frame_reads_what_it_is() -> None:
    frame = np.full((4, 54, 96, 3), (0.5, 0.25, 0.75), np.float32)
    clip = read_clip(frame, fps=16, width=96)
    assert clip.scalars["luma"][0] == pytest.approx(0.2126 * 0.5 + 0.7152 * 0.25 + 0.0722 * 0.75)
    assert clip.scalars["change"][1] == 0
    assert clip.scalars["black"][0] == 0
    assert np.isnan(clip.scalars["change"][0])


def test_shares_at_the_ends_are_counted() -> None:
    frames = np.full((1, 64, 96, 3), 0.5, np.float32)
    frames[:, :16] = 0.0
    frames[:, 16:24] = 1.0
    clip = read_clip(frames, fps=16, width=96)
    assert clip.scalars["black"][0] == pytest.approx(0.25)
    assert clip.scalars["white"][0] == pytest.approx(0.125)
    assert clip.scalars["clipped"][0] == pytest.approx(0.125)


def test_noise_is_read_as_its_variance() -> None:
    rng = np.random.default_rng(3)
    frames = 0.5 + rng.standard_normal((2, 108, 192, 1), np.float32) * np.float32(4 / 255)
    clip = read_clip(np.repeat(frames, 3, axis=3), fps=16, width=192)
    assert clip.scalars["noise"].mean() == pytest.approx(16, rel=0.08)


def test_tone_curves_are_found_exactly() -> None:
    before = np.linspace(0.1, 0.8, 49)[None]
    assert fit_tone(before, 0.97 * before)["gain"][0] == pytest.approx(np.log(0.97), abs=1e-9)
    assert fit_tone(before, before**1.1)["gamma"][0] == pytest.approx(np.log(1.1), abs=1e-6)
    assert fit_tone(before, before - 0.02)["offset"][0] == pytest.approx(-0.02, abs=1e-9)
    affine = fit_tone(before, 1.1 * before - 0.05)
    assert affine["contrast"][0] == pytest.approx(np.log(1.1), abs=1e-6)
    assert affine["lift"][0] == pytest.approx(-0.05, abs=1e-6)


def test_quantiles_are_those_of_the_pixels() -> None:
    luma = np.random.default_rng(4).beta(2, 3, (200, 300)).astype(np.float32)
    found = pooled_quantiles(luma_histogram(luma)[None].astype(np.float64))[0]
    assert np.allclose(found, np.quantile(luma, np.linspace(0.02, 0.98, 49)), atol=5e-4)


def test_blur_is_the_variance_of_a_gaussian() -> None:
    before = np.ones((1, 40))
    after = np.exp(-4 * np.pi**2 * FREQUENCIES**2 * 0.3)[None]
    assert equivalent_blur(before, after)[0] == pytest.approx(0.3)


def test_a_wave_lies_in_its_ring() -> None:
    columns = np.arange(192, dtype=np.float32)
    wave = np.repeat(0.5 + 0.2 * np.sin(2 * np.pi * 0.2 * columns)[None], 108, axis=0)
    assert abs(FREQUENCIES[radial_spectrum(wave.astype(np.float32)).argmax()] - 0.2) < 0.0126


def test_chunks_read_like_the_whole() -> None:
    frames = drawn(0)
    whole = read_clip(frames, fps=16, width=96)
    pieces = read_clip(iter([frames[:5], frames[5:6], frames[6:]]), fps=16, width=96)
    for name, values in whole.scalars.items():
        assert np.array_equal(values, pieces.scalars[name], equal_nan=True)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (np.zeros((0, 54, 96, 3), np.float32), "no frames"),
        (np.zeros((2, 54, 96, 3), np.uint8), "float32"),
        (np.zeros((54, 96, 3), np.float32), "float32"),
        (np.full((2, 54, 96, 3), np.nan, np.float32), "nan or inf"),
    ],
)
def test_unusable_frames_are_refused(frames: np.ndarray, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        read_clip(frames, fps=16, width=96)


def test_frames_of_two_sizes_are_refused() -> None:
    chunks = [np.zeros((1, 54, 96, 3), np.float32), np.zeros((1, 60, 96, 3), np.float32)]
    with pytest.raises(BadRequest, match="one size"):
        read_clip(chunks, fps=16, width=96)
