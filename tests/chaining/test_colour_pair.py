"""Pairs of twins: known maps are found again; what cannot be trusted is left alone, in words."""

import numpy as np
import pytest

from chaining.colour.maps import IDENTITY
from chaining.colour.pair_affine import fit_pair
from tests.chaining import colour_pictures as pictures
from vidgen.errors import BadRequest


def recoloured(frames, scale, offset):
    """Frames whose Oklab values were drawn through a known affine; unclipped in these scenes."""
    return pictures.srgb(pictures.oklab(frames) * np.array(scale) + np.array(offset))


def single(frames):
    return np.asarray(frames, np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_a_known_map_is_recovered_under_noise(seed):
    clean = pictures.scene(seed, 5)
    scale, offset = (0.97, 1.03, 0.96), (-0.008, 0.003, 0.002)
    fit = fit_pair(single(clean), pictures.noisy(recoloured(clean, scale, offset), seed))
    assert fit.used == "affine"
    assert fit.r2 > 0.99
    undone = fit.map.compose(type(fit.map)(scale, offset))
    assert undone.scale == pytest.approx((1, 1, 1), abs=0.02)
    assert undone.offset == pytest.approx((0, 0, 0), abs=0.004)
    # Cells average code values, in which the map is not quite affine.
    assert undone.scale[0] == pytest.approx(1, abs=0.006)
    drifted = single(recoloured(clean, scale, offset))
    assert pictures.distance(drifted, clean) > 0.015
    assert pictures.distance(fit.apply(drifted), clean) < 0.001


def test_without_noise_the_map_is_exact():
    clean = pictures.scene(5, 2)
    scale, offset = (1.05, 0.9, 1.1), (0.01, -0.01, 0.0)
    fit = fit_pair(single(recoloured(clean, scale, offset)), single(clean))
    assert fit.map.scale == pytest.approx(scale, abs=0.006)
    assert fit.map.offset == pytest.approx(offset, abs=0.003)
    assert fit.map.standard_error < 0.001


def test_a_moved_object_and_blown_out_lamps_do_not_bend_the_fit():
    clean = pictures.scene(6, 4)
    rendered = pictures.drift(clean, 1)
    clean[:, 5:20, 10:30], rendered[:, 5:20, 40:60] = 0.9, 0.9  # 16 % of the picture differs
    clean[:, 30:40, :20], rendered[:, 30:40, :20] = 1.0, 1.0
    fit = fit_pair(single(clean), pictures.noisy(rendered, 6))
    plain = pictures.scene(6, 4)
    assert fit.used == "affine", fit.reason
    assert pictures.distance(fit.apply(single(pictures.drift(plain, 1))), plain) < 0.002


def test_a_large_moved_object_is_set_aside_at_once():
    clean = pictures.scene(6, 4)
    rendered = pictures.drift(clean, 1)
    clean[:, 5:25, 4:28], rendered[:, 5:25, 50:74] = 0.95, 0.95  # 25 % of the picture differs
    fit = fit_pair(single(clean), single(rendered))
    plain = pictures.scene(6, 4)
    assert fit.used == "affine", fit.reason
    assert pictures.distance(fit.apply(single(pictures.drift(plain, 1))), plain) < 0.003


def test_clipped_pixels_are_left_out():
    clean = pictures.scene(7, 3)
    bright = np.clip(clean * 1.15 + 0.12, 0, 1)
    assert (bright == 1).any(axis=-1).mean() > 0.02
    fit = fit_pair(single(bright), single(pictures.drift(bright, 1)))
    middle = pictures.scene(8, 2)
    assert pictures.distance(fit.apply(single(pictures.drift(middle, 1))), middle) < 0.003


def test_what_the_clip_blew_out_is_left_out():
    clean = pictures.scene(7, 3)
    clean *= 0.96 / clean.max((0, 1, 2))
    rendered = np.clip(pictures.srgb(pictures.oklab(clean) * 1.12), 0, 1)
    assert (rendered >= 0.999).any(axis=-1).mean() > 0.2
    fit = fit_pair(single(clean), single(rendered))
    assert fit.map.scale[0] == pytest.approx(1 / 1.12, abs=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_undrifted_twins_are_left_alone(seed):
    clean = pictures.scene(seed, 5)
    fit = fit_pair(single(clean), pictures.noisy(clean, seed))
    assert (fit.used, fit.map) == ("identity", IDENTITY)
    assert "the twins are alike" in fit.reason


def test_what_may_be_chance_is_left_alone():
    reasons = []
    for seed in range(4):
        clean = pictures.scene(seed, 5)
        fit = fit_pair(single(clean), pictures.noisy(clean, seed, 0.06))
        assert (fit.used, fit.map) == ("identity", IDENTITY)
        reasons.append(fit.reason)
    assert any("not told apart" in reason for reason in reasons)


def test_other_content_is_left_alone():
    fit = fit_pair(single(pictures.scene(1, 5)), single(pictures.scene(2, 5)))
    assert (fit.used, fit.map) == ("identity", IDENTITY)
    assert fit.r2 < 0.9
    assert "differ by more than colour" in fit.reason


def test_a_flat_picture_gets_an_offset_only():
    grey = np.full((3, 40, 64, 3), 0.5)
    fit = fit_pair(single(grey), pictures.noisy(grey + 0.03, 1, 0.004))
    lift = pictures.oklab(grey[0, 0, 0] + 0.03)[0] - pictures.oklab(grey[0, 0, 0])[0]
    assert fit.used == "affine"
    assert fit.map.scale == (1, 1, 1)
    assert fit.map.offset == pytest.approx((-lift, 0, 0), abs=0.0005)


def test_a_grey_scene_keeps_its_chroma_gain():
    clean = pictures.scene(3, 3)[..., :1].repeat(3, -1)
    fit = fit_pair(single(clean), pictures.noisy(clean * 0.95, 3))
    assert fit.map.scale[0] > 1.02
    assert fit.map.scale[1:] == (1, 1)


@pytest.mark.parametrize("num_frames", [1, 2])
def test_one_moved_twin_gives_a_gain_of_lightness_only(num_frames):
    wide = pictures.noisy(pictures.scene(4, num_frames, 60, 136), 4, 0.05)
    given, moved = wide[:, :56, :128], wide[:, 3:59, 4:132] * np.float32(0.96)
    fit = fit_pair(given, moved)
    assert fit.motion == pytest.approx(5 / 128)  # 3 up and 4 to the left
    if num_frames == 1:
        # Lightness of a grey falls by 0.96^(2.2/3) to 0.96^(2.4/3): the gain undoes that.
        assert fit.used == "gain"
        assert 1.028 < fit.map.scale[0] < 1.034
        assert fit.map.scale[1:] == (1, 1)
        assert fit.map.offset == (0, 0, 0)
        assert "3.9% of the width" in fit.reason
    else:
        assert fit.used == "affine"
        assert min(fit.map.scale) > 1.02


def test_a_still_twin_is_enough_for_all_channels():
    clean = pictures.scene(4, 1)
    fit = fit_pair(single(clean), single(pictures.drift(clean, 1)))
    assert (fit.used, fit.motion) == ("affine", 0.0)


def test_gain_and_offset_are_held_in_bounds_and_the_report_says_so():
    clean = pictures.scene(9, 3)
    dark = fit_pair(single(clean), single(recoloured(clean, (0.75, 1, 1), (0, 0, 0))))
    assert dark.map.scale[0] == 1.18
    assert "gain of L was held at 1.18; 1.3" in dark.reason  # 1 / 0.75
    vivid = recoloured(clean, (1.0, 1.3, 1), (0, 0, 0))
    strong = fit_pair(single(clean), single(vivid))
    assert strong.map.scale[1] == 0.85
    # The offset makes up for the gain held back: the means of a agree once mapped.
    given, rendered = (pictures.oklab(frames)[..., 1].mean() for frames in (clean, vivid))
    assert strong.map.offset[1] == pytest.approx(given - 0.85 * rendered, abs=0.002)
    assert abs(strong.map.offset[1]) > 0.004
    lifted = fit_pair(single(clean), single(recoloured(clean, (1, 1, 1), (-0.08, 0, 0))))
    assert lifted.map.offset[0] == pytest.approx(0.05)
    assert "offset of L was held at +0.05" in lifted.reason


def test_one_lit_corner_does_not_speak_for_the_picture():
    corner = np.zeros((2, 48, 80, 3))
    corner[:, :12, :20] = pictures.scene(3, 2)[:, :12, :20]
    fit = fit_pair(single(corner), single(corner * 0.97))
    assert (fit.used, fit.map) == ("identity", IDENTITY)
    assert "in 1 of 16 tiles" in fit.reason


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 5)])
def test_tiny_pictures_do_not_break_the_fit(size):
    clean = pictures.scene(3, 2, *size)
    assert fit_pair(single(clean), single(clean * 0.97)).reason


def test_a_fit_that_its_bounds_spoil_is_thrown_away():
    """Contrast 0.7 about L 0.6 needs an offset of 0.18: held at 0.85 and 0.05, it would darken."""
    rendered = pictures.scene(10, 3)
    fit = fit_pair(single(recoloured(rendered, (0.7, 1, 1), (0.18, 0, 0))), single(rendered))
    assert (fit.used, fit.map) == ("identity", IDENTITY)
    assert "would not bring the twins nearer" in fit.reason


def test_a_black_picture_says_that_nothing_can_be_read():
    black = np.zeros((2, 20, 32, 3), np.float32)
    fit = fit_pair(black, black)
    assert (fit.used, fit.map) == ("identity", IDENTITY)
    assert "only 0% of the picture" in fit.reason


@pytest.mark.parametrize("seed", range(6))
def test_the_standard_error_covers_the_error(seed):
    clean = pictures.scene(seed, 3)
    drifted = pictures.drift(clean, 2)
    fit = fit_pair(single(clean), pictures.noisy(drifted, seed))
    actual = pictures.distance(fit.apply(single(drifted)), clean)
    assert actual < fit.map.standard_error < 0.005


def test_a_gain_held_back_is_uncertain():
    clean = pictures.scene(9, 3)
    fit = fit_pair(single(clean), single(recoloured(clean, (0.75, 1, 1), (0, 0, 0))))
    assert fit.map.needs_anchor


def test_nan_and_unlike_twins_are_refused():
    clean = single(pictures.scene(1, 2))
    broken = clean.copy()
    broken[1, 3, 4, 0] = np.nan
    with pytest.raises(BadRequest, match=r"Rendered twins hold 1 values that are NaN"):
        fit_pair(clean, broken)
    with pytest.raises(BadRequest, match=r"same frames at the same size"):
        fit_pair(clean, clean[:1])
    with pytest.raises(BadRequest, match=r"float64, not float32"):
        fit_pair(clean.astype(np.float64), clean)
