"""Slopes, steps and intervals against values from the textbook and from known noise."""

import numpy as np
import pytest

from chaining.drift.resample import frame_weights, settled
from chaining.drift.trend import fit_slope


def _slope(values: list[float] | np.ndarray, floor: float = 0.02):
    return fit_slope(np.repeat(np.asarray(values, float)[None], 101, axis=0), floor, "u")[0]


def test_a_line_has_its_slope() -> None:
    slope = _slope(0.3 * np.arange(8) + 1)
    assert slope.value == pytest.approx(0.3)
    assert slope.ols == pytest.approx(0.3)
    assert slope.ci95 == pytest.approx((0.3, 0.3))
    assert slope.steps == ()


def test_the_interval_without_frames_is_students() -> None:
    values = [0.0, 1.2, 1.9, 3.1]
    slope = _slope(values, floor=10)
    residuals = np.array([0, 1.2, 1.9, 3.1]) - (0.05 + 1.0 * np.arange(4))
    half = 4.303 * np.sqrt((residuals @ residuals) / 2 / 5)
    assert slope.method == "t"
    assert slope.ols == pytest.approx(1.0)
    assert (slope.ci95[1] - slope.ci95[0]) / 2 == pytest.approx(half)


def test_a_step_is_no_drift() -> None:
    slope = _slope([0, 0.001, 0, 0.001, 0.081, 0.08, 0.081, 0.08])
    assert [step.clip for step in slope.steps] == [4]
    assert slope.steps[0].size == pytest.approx(0.08, abs=0.002)
    assert abs(slope.value) < 5e-4


def test_a_step_on_a_line_leaves_the_line() -> None:
    values = 0.01 * np.arange(8)
    values[3:] += 0.2
    slope = _slope(values)
    assert [step.clip for step in slope.steps] == [3]
    assert slope.value == pytest.approx(0.01)


def test_one_odd_clip_does_not_turn_the_slope() -> None:
    values = 0.01 * np.arange(9)
    values[4] += 0.015
    assert _slope(values).value == pytest.approx(0.01, abs=1e-3)


def test_long_chains_read_like_short_ones() -> None:
    noise = np.random.default_rng(5).normal(0, 0.01, 120)
    assert _slope(0.02 * np.arange(120) + noise).value == pytest.approx(0.02, abs=2e-4)


def test_two_clips_have_no_slope() -> None:
    with pytest.raises(ValueError, match="3 are needed"):
        _slope([0, 1])


def test_frames_widen_the_interval() -> None:
    rng = np.random.default_rng(6)
    values = np.zeros((501, 8))
    values[1:] = rng.normal(0, 0.1, (500, 8))
    slope, draws = fit_slope(values, 1.0, "u")
    expected = 0.1 / np.sqrt(42)  # standard error of a slope over 0..7
    assert slope.method == "bootstrap"
    assert slope.ci95[1] - slope.ci95[0] == pytest.approx(2 * 1.96 * expected, rel=0.2)
    assert draws.std() == pytest.approx(expected, rel=0.2)


def test_frames_are_drawn_in_blocks() -> None:
    weights = frame_weights(40, draws=50)
    assert weights.shape == (51, 40)
    assert np.allclose(weights.sum(axis=1), 1)
    assert np.all(weights[:, :4] == 0)
    assert np.allclose(weights[0, 4:], 1 / 36)
    assert np.any(weights[1:] != weights[0])


def test_short_clips_are_not_resampled() -> None:
    weights = frame_weights(15, draws=5)
    assert np.all(weights == weights[0])
    assert settled(15) == 3
    assert settled(2) == 0
