"""The matchers kept for comparison: each gives the statistics that it promises."""

import numpy as np
import pytest

from chaining.colour.anchor_clip import fit_anchor_clip
from chaining.colour.cielab import lab_to_srgb, srgb_to_lab
from chaining.colour.maps import IDENTITY
from chaining.colour.matchers import MATCHERS, match
from tests.chaining import colour_pictures as pictures
from vidgen.errors import BadRequest

REFERENCE = (0.15 + 0.7 * pictures.scene(1, 2, 40, 56)).astype(np.float32)
FRAMES = (0.15 + 0.7 * pictures.scene(2, 3, 40, 56)).astype(np.float32)


@pytest.mark.parametrize(
    ("rgb", "lab"),
    [
        # CIELAB under D65, as printed by the usual calculators
        ((1, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 1, 0), (87.73, -86.18, 83.18)),
        ((0, 0, 1), (32.30, 79.19, -107.86)),
        ((1, 1, 1), (100, 0, 0)),
        ((0.5, 0.5, 0.5), (53.39, 0, 0)),
    ],
)
def test_cielab_has_its_published_values(rgb, lab):
    assert srgb_to_lab(np.array([rgb], np.float32))[0] == pytest.approx(lab, abs=0.02)


def test_the_trip_through_cielab_comes_back():
    assert lab_to_srgb(srgb_to_lab(FRAMES)) == pytest.approx(FRAMES, abs=2e-6)


@pytest.mark.parametrize("name", MATCHERS)
def test_every_matcher_keeps_shape_and_range_and_leaves_its_own_reference(name):
    matched = match(name, REFERENCE, FRAMES).apply(FRAMES)
    assert (matched.shape, matched.dtype) == (FRAMES.shape, np.float32)
    assert 0 <= matched.min() <= matched.max() <= 1
    same = np.concatenate([REFERENCE[:1], REFERENCE[:1]])
    assert match(name, same, same).apply(same) == pytest.approx(same, abs=2e-3)


def test_an_unknown_matcher_is_refused_with_the_list():
    with pytest.raises(BadRequest, match=r"'hist' is unknown; use one of anchor_clip, .*lowfreq"):
        match("hist", REFERENCE, FRAMES)


def test_reinhard_gives_mean_and_deviation_of_the_first_or_last_frame():
    for name, index in (("reinhard_lab", 0), ("reinhard_lab_previous", -1)):
        wanted = srgb_to_lab(REFERENCE[index])
        for frame in match(name, REFERENCE, FRAMES).apply(FRAMES):
            lab = srgb_to_lab(frame)
            assert lab.mean((0, 1)) == pytest.approx(wanted.mean((0, 1)), abs=0.3)
            assert lab.std((0, 1)) == pytest.approx(wanted.std((0, 1)), abs=0.3)


def test_mkl_gives_mean_and_covariance():
    frame = match("mkl", REFERENCE, FRAMES).apply(FRAMES)[2].reshape(-1, 3)
    wanted = REFERENCE[0].reshape(-1, 3)
    assert frame.mean(0) == pytest.approx(wanted.mean(0), abs=0.003)
    assert np.cov(frame.T) == pytest.approx(np.cov(wanted.T), abs=5e-4)


def test_histogram_gives_the_quantiles():
    frame = match("histogram", REFERENCE, FRAMES).apply(FRAMES)[1]
    for share in (5, 25, 50, 75, 95):
        wanted = np.percentile(REFERENCE[0], share, axis=(0, 1))
        assert np.percentile(frame, share, axis=(0, 1)) == pytest.approx(wanted, abs=0.004)


def test_lowfreq_takes_the_base_and_keeps_the_detail():
    detail = 0.1 * (np.indices((40, 56)).sum(0) % 2 * 2 - 1.0)[None, ..., None]
    frames = np.broadcast_to(0.4 + detail, (1, 40, 56, 3)).astype(np.float32)
    reference = np.full((1, 40, 56, 3), 0.6, np.float32)
    matched = match("lowfreq", reference, frames).apply(frames)
    # The border repeats its pixels, so a trace of detail passes there.
    inner = (slice(None), slice(8, -8), slice(8, -8))
    assert matched[inner] == pytest.approx((frames + 0.2)[inner], abs=0.01)
    with pytest.raises(BadRequest, match=r"56x40 to one of 28x40; use mkl"):
        match("lowfreq", reference[:, :, ::2], frames).apply(frames)


def test_a_whole_clip_moves_half_way_to_its_anchor():
    clean = pictures.scene(3, 4)
    drifted = (clean * 0.95).astype(np.float32)
    fit = fit_anchor_clip(clean.astype(np.float32), drifted)
    assert fit.likeness > 0.8
    mean = [pictures.oklab(frames)[..., 0].mean() for frames in (clean, drifted)]
    found = pictures.oklab(fit.apply(drifted))[..., 0].mean()
    assert found == pytest.approx(np.mean(mean), abs=2e-4)
    assert "strength 0.5" in fit.reason
    shift = fit_anchor_clip(clean.astype(np.float32), drifted, spread=False, strength=1.0)
    assert shift.map.scale == (1, 1, 1)
    assert shift.map.offset[0] == pytest.approx(mean[0] - mean[1], abs=2e-4)


def test_other_content_is_not_matched_and_the_reason_is_told():
    red, blue = (
        np.full((2, 20, 30, 3), rgb, np.float32) for rgb in ([0.8, 0.2, 0.2], [0.2, 0.2, 0.8])
    )
    fit = fit_anchor_clip(red, blue)
    assert fit.map == IDENTITY
    assert fit.likeness == pytest.approx(0, abs=1e-9)
    assert "chroma likeness 0.00" in fit.reason
    assert "Matched" in fit_anchor_clip(FRAMES, FRAMES).reason


def test_a_small_tint_does_not_make_content_unlike():
    grey = np.full((1, 20, 30, 3), 0.5)
    tinted = pictures.srgb(pictures.oklab(grey) + np.array([0, 0.002, 0.002]))
    assert fit_anchor_clip(grey.astype(np.float32), tinted.astype(np.float32)).likeness > 0.8


@pytest.mark.parametrize("name", MATCHERS)
def test_frames_that_cannot_be_read_are_refused(name):
    broken = FRAMES.copy()
    broken[0, 0, 0, 0] = np.inf
    with pytest.raises(BadRequest, match="NaN or infinite"):
        match(name, broken, FRAMES)
    with pytest.raises(BadRequest, match="NaN or infinite"):
        match(name, REFERENCE, broken).apply(broken)
    with pytest.raises(BadRequest, match="float64, not float32"):
        match(name, REFERENCE, FRAMES.astype(np.float64))
