"""Latent statistics, by hand: what is pulled, and when noise is asked for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaining.colour.latents import LatentStatistics, history_noise, pull_to, shift_from
from vidgen.errors import BadRequest

ANCHOR_CTRW = np.random.default_rng(0).normal(1.0, 2.0, (4, 3, 6, 8)).astype(np.float32)
ANCHOR = LatentStatistics.of(ANCHOR_CTRW)


def moved(mean=0.0, ratio=1.0, channels=4):
    """The anchor's latents with the first channels shifted by `mean` deviations and spread."""
    own = ANCHOR_CTRW.astype(np.float64)
    for c in range(channels):
        centre, deviation = own[c].mean(), own[c].std()
        own[c] = (own[c] - centre) * ratio + centre + mean * deviation
    return own.astype(np.float32)


def test_statistics_are_per_channel_over_frames_and_pixels():
    latents = np.zeros((2, 2, 1, 2), np.float32)
    latents[1] = [[[1, 3]], [[5, 7]]]
    found = LatentStatistics.of(latents)
    assert found.mean_c == pytest.approx([0, 4])
    assert found.deviation_c == pytest.approx([0, math.sqrt(5)])


@given(st.floats(0, 1))
def test_the_pull_goes_its_share_of_the_way(factor):
    latents = moved(mean=1.5, ratio=1.7)
    own, pulled = (
        LatentStatistics.of(latents),
        LatentStatistics.of(pull_to(latents, ANCHOR, factor)),
    )
    mix = own.mean_c + factor * (ANCHOR.mean_c - own.mean_c)
    assert pulled.mean_c == pytest.approx(mix, abs=1e-5)
    mix = own.deviation_c + factor * (ANCHOR.deviation_c - own.deviation_c)
    assert pulled.deviation_c == pytest.approx(mix, abs=1e-5)


def test_the_ends_of_the_pull():
    latents = moved(mean=1.5, ratio=0.6)
    assert pull_to(latents, ANCHOR, 0) is latents
    whole = pull_to(latents, ANCHOR, 1)
    assert whole.dtype == np.float32
    assert whole == pytest.approx(ANCHOR_CTRW, abs=1e-5)


def test_a_constant_channel_is_shifted_only():
    latents = ANCHOR_CTRW.copy()
    latents[2] = 0.3
    pulled = pull_to(latents, ANCHOR, 1)
    assert pulled[2] == pytest.approx(np.full(pulled[2].shape, ANCHOR.mean_c[2]), abs=1e-6)


def test_shifts_by_hand():
    assert shift_from(ANCHOR_CTRW, ANCHOR).mean == pytest.approx(0, abs=1e-9)
    one = shift_from(moved(mean=0.4, channels=1), ANCHOR)
    assert one.mean == pytest.approx(0.4 / math.sqrt(4), abs=1e-5)
    assert one.variance == pytest.approx(0, abs=1e-5)
    wide = shift_from(moved(ratio=1.2), ANCHOR)
    assert wide.variance == pytest.approx(2 * math.log(1.2), abs=1e-5)
    assert shift_from(moved(ratio=1 / 1.2), ANCHOR).variance == pytest.approx(
        wide.variance, abs=1e-5
    )


@pytest.mark.parametrize(
    ("mean", "ratio", "noise"),
    [
        (0.0, 1.0, 0.0),
        (0.14, 1.0, 0.0),
        (0.16, 1.0, 0.1),  # the mean alone
        (-0.16, 1.0, 0.1),
        (0.0, 1.07, 0.0),  # ln 1.07^2 = 0.135
        (0.0, 1.09, 0.1),  # the variance alone: ln 1.09^2 = 0.172
        (0.0, 0.92, 0.1),
        (0.14, 1.07, 0.0),
    ],
)
def test_either_shift_asks_for_noise(mean, ratio, noise):
    assert history_noise(moved(mean, ratio), ANCHOR) == noise


def test_slow_drift_is_seen_since_the_anchor_stays():
    """A moving average would follow 0.05 a clip for ever; clip 0 does not."""
    asked = [history_noise(moved(mean=0.04 * clip), ANCHOR, strength=0.2) for clip in range(6)]
    assert asked == [0, 0, 0, 0, 0.2, 0.2]  # 0.12, then 0.16
    assert history_noise(moved(mean=0.05), ANCHOR, threshold=0.04) == 0.1


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(BadRequest, match=r"factor=1\.2"):
        pull_to(ANCHOR_CTRW, ANCHOR, 1.2)
    with pytest.raises(BadRequest, match=r"3 channels and their anchor 4"):
        pull_to(ANCHOR_CTRW[:3], ANCHOR, 0.5)
    with pytest.raises(BadRequest, match=r"shape \(3, 6, 8\)"):
        LatentStatistics.of(ANCHOR_CTRW[0])
    with pytest.raises(BadRequest, match="float64; convert"):
        LatentStatistics.of(ANCHOR_CTRW.astype(np.float64))
    flat = ANCHOR_CTRW.copy()
    flat[1] = 0.1
    with pytest.raises(BadRequest, match="channel 1 is constant"):
        history_noise(flat, ANCHOR)
    with pytest.raises(BadRequest, match="threshold=0 "):
        history_noise(ANCHOR_CTRW, ANCHOR, threshold=0)
    with pytest.raises(BadRequest, match="strength=2 "):
        history_noise(ANCHOR_CTRW, ANCHOR, strength=2)
    broken = ANCHOR_CTRW.copy()
    broken[0, 0, 0, 0] = np.nan
    with pytest.raises(BadRequest, match="NaN or infinite"):
        pull_to(broken, ANCHOR, 0)
