"""Contrasts, video drift error, forecasts and judgements against numbers worked out by hand."""

import math

import numpy as np
import pytest

from chaining.drift.analysis import analyse
from chaining.drift.bases import Synthetic
from chaining.drift.contrasts import contrast, vde
from chaining.drift.forecast import (
    BLACK,
    WHITE,
    ToneRates,
    blur_limit,
    forecast_line,
    forecast_luma,
)
from chaining.drift.thresholds import Limit
from chaining.drift.verdict import Finding, conclude, judge_interval
from tests.drift.footage import chain


def test_contrast_of_a_chain_that_darkens() -> None:
    """Eight clips of 40 frames, gain 0.97: the first 15 % are clip 0 and a fifth of clip 1."""
    luma = np.repeat(0.5 * 0.97 ** np.arange(8), 40)
    found = contrast(luma)
    start = (40 * 0.5 + 8 * 0.5 * 0.97) / 48
    end = (8 * 0.5 * 0.97**6 + 40 * 0.5 * 0.97**7) / 48
    assert found.start == pytest.approx(start)
    assert found.end == pytest.approx(end)
    assert found.signed == pytest.approx(end - start)
    assert found.absolute == pytest.approx(start - end)


def test_contrast_turns_with_the_order() -> None:
    values = np.random.default_rng(2).random(101)
    forth, back = contrast(values), contrast(values[::-1])
    assert back.absolute == pytest.approx(forth.absolute)
    assert back.signed == pytest.approx(-forth.signed)


@pytest.mark.parametrize(
    ("size", "rating"), [(0, 10), (0.01, 10), (0.011, 9), (0.02, 9), (0.09, 2), (0.091, 1), (1, 1)]
)
def test_ratings(size: float, rating: int) -> None:
    assert contrast(np.array([0.0] * 50 + [size] * 50)).rating == rating


def test_a_single_frame_has_no_contrast() -> None:
    assert contrast(np.array([0.4])).absolute == 0


def test_video_drift_error() -> None:
    found = vde(np.array([0.5, 0.45, 0.6, 0.5]))
    assert found.linear == pytest.approx(3 * 0.1 + 2 * 0.2)
    assert found.log == pytest.approx(math.log(3) * 0.1 + math.log(2) * 0.2)


@pytest.mark.parametrize(("gain", "clips"), [(0.97, 64.7), (0.90, 18.7), (0.80, 8.8)])
def test_clips_until_black(gain: float, clips: float) -> None:
    rates = np.full(11, math.log(gain))
    found = forecast_luma(0.45, BLACK, ToneRates("gain", rates, np.zeros(11), False))
    assert found.clips == pytest.approx(clips, abs=0.05)
    brighter = forecast_luma(0.45, WHITE, ToneRates("gain", rates, np.zeros(11), False))
    assert brighter.clips is None


@pytest.mark.parametrize(
    ("model", "rate", "lift", "step"),
    [
        ("gamma", math.log(1.05), 0.0, lambda y: y**1.05),
        ("offset", -0.01, 0.0, lambda y: y - 0.01),
        ("affine", math.log(1.05), -0.04, lambda y: 1.05 * y - 0.04),
        ("affine", math.log(0.95), 0.001, lambda y: 0.95 * y + 0.001),
    ],
)
def test_curves_are_followed(model: str, rate: float, lift: float, step) -> None:
    """The closed form lies between the last clip above black and the first below it."""
    rates = ToneRates(model, np.full(11, rate), np.full(11, lift), False)
    found = forecast_luma(0.45, BLACK, rates).clips
    luma, clips = 0.45, 0
    while luma > BLACK:
        luma, clips = step(luma), clips + 1
    assert found is not None
    assert clips - 1 < found <= clips


def test_a_curve_that_ends_elsewhere_never_gets_black() -> None:
    rates = ToneRates("affine", np.full(11, math.log(0.9)), np.full(11, 0.03), False)
    assert forecast_luma(0.45, BLACK, rates).clips is None


def test_no_drift_has_no_end() -> None:
    rates = ToneRates("gain", np.full(11, -0.01), np.zeros(11), True)
    assert forecast_luma(0.45, BLACK, rates).clips is None
    assert forecast_line(0.0, 1.0, np.full(11, 0.1), True).clips is None
    assert forecast_line(0.2, 1.0, np.full(11, 0.1), False).clips == pytest.approx(8)


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (-0.4, 0.9, "pass"),
        (2.1, 3, "fail"),
        (-3, -2.1, "fail"),
        (1.2, 3, "warn"),
        (-1.5, 0.5, "warn"),
        (-0.5, 2.5, "inconclusive"),
    ],
)
def test_intervals_are_judged_by_their_sizes(low: float, high: float, outcome: str) -> None:
    assert judge_interval(low, high, Limit("tone", 1, 2, "u", "w")) == outcome


def test_a_fall_of_what_may_only_rise_passes() -> None:
    assert judge_interval(-9, -8, Limit("detail", 1, 2, "u", "w", rises_only=True)) == "pass"


def test_the_worst_counts_and_is_told_first() -> None:
    verdict = conclude(
        [Finding("tone", "warn", "a"), Finding("seams", "fail", "b"), Finding("tone", "pass", "c")]
    )
    assert (verdict.overall, verdict.by_group["tone"], verdict.by_group["motion"]) == (
        "fail", "warn", "pass",
    )  # fmt: skip
    assert verdict.reasons == ("fail: b", "warn: a")


@pytest.mark.parametrize(
    ("rows", "source_rows", "limit"),
    [(480, 480, 4.0), (240, 480, 1.0), (108, 720, 4 * (108 / 480) ** 2), (96, 96, 1.0),
     (48, 96, 0.25), (240, 240, 1.0)],
)  # fmt: skip
def test_a_picture_is_too_blurred_at_a_share_of_it_and_never_below_one_of_its_pixels(
    rows: int, source_rows: int, limit: float
) -> None:
    assert blur_limit(rows, source_rows) == pytest.approx(limit)


def test_slow_blur_of_a_small_picture_is_not_its_end() -> None:
    """0.012 px^2 a clip pass as a rate; by the share alone, 96 rows would end in a dozen clips."""
    base = Synthetic(0, 128, 96, 24, noise=0.0)
    found = analyse(chain("blur=0.11", 8, lambda k: base.frames(24 * k, 24), width=128))
    rate, now = found.slopes["blur"].value, found.clips[-1].readings["blur"]
    assert 0.005 < rate < 0.02
    assert found.segments[0].forecast["blur"].clips == pytest.approx((1 - now) / rate, rel=0.02)
