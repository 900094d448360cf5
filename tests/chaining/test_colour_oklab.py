"""Oklab against the values its author published, and against a float64 reference of our own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaining.colour.oklab import (
    BLOCK_PIXELS,
    affine_in_oklab,
    linear_to_oklab,
    linear_to_srgb,
    oklab_to_srgb,
    srgb_to_linear,
    srgb_to_oklab,
)
from tests.chaining import colour_pictures as pictures
from vidgen.errors import BadRequest

PRIMARIES = [
    ((1, 0, 0), (0.6280, 0.2249, 0.1258)),
    ((0, 1, 0), (0.8664, -0.2339, 0.1795)),
    ((0, 0, 1), (0.4520, -0.0325, -0.3115)),
    ((0, 1, 1), (0.9054, -0.1494, -0.0394)),
    ((1, 0, 1), (0.7017, 0.2746, -0.1692)),
    ((1, 1, 0), (0.9680, -0.0714, 0.1986)),
    ((1, 1, 1), (1.0, 0.0, 0.0)),
    ((0, 0, 0), (0.0, 0.0, 0.0)),
]
COLOURS = np.random.default_rng(1).random((2, 61, 87, 3))


@pytest.mark.parametrize(("rgb", "lab"), PRIMARIES)
def test_primaries_have_their_published_values(rgb, lab):
    found = srgb_to_oklab(np.array([rgb], np.float64))[0]
    assert found == pytest.approx(lab, abs=6e-5)
    assert srgb_to_oklab(np.array([rgb], np.float32))[0] == pytest.approx(found, abs=1e-6)


def test_the_curve_has_the_values_of_the_standard():
    codes = np.array([[0.0, 0.04045, 0.5], [1.0, 0.2, 0.02]])
    linear = [[0.0, 0.0031308, 0.21404114], [1.0, 0.03310477, 0.00154799]]
    assert srgb_to_linear(codes) == pytest.approx(np.array(linear), abs=5e-8)
    assert linear_to_srgb(np.array(linear)) == pytest.approx(codes, abs=5e-7)


def test_frames_agree_with_the_reference_across_block_borders():
    assert COLOURS.size // 3 > BLOCK_PIXELS
    assert srgb_to_oklab(COLOURS) == pytest.approx(pictures.oklab(COLOURS), abs=1e-12)
    lab = srgb_to_oklab(COLOURS.astype(np.float32))
    assert lab.dtype == np.float32
    assert lab == pytest.approx(pictures.oklab(COLOURS), abs=1e-6)
    assert oklab_to_srgb(pictures.oklab(COLOURS)) == pytest.approx(COLOURS, abs=1e-12)


def test_the_trip_is_exact_in_float64_and_lost_in_rounding_in_float32():
    assert oklab_to_srgb(srgb_to_oklab(COLOURS)) == pytest.approx(COLOURS, abs=1e-12)
    assert linear_to_srgb(srgb_to_linear(COLOURS)) == pytest.approx(COLOURS, abs=1e-12)
    single = COLOURS.astype(np.float32)
    error = np.abs(oklab_to_srgb(srgb_to_oklab(single)) - single)
    # A float32 Oklab value cannot say more: near 0 the sRGB curve magnifies its last bit 13 times.
    assert np.median(error) < 2e-7
    assert error.max() < 5e-5
    assert linear_to_srgb(srgb_to_linear(single)) == pytest.approx(single, abs=3e-7)


@given(st.lists(st.floats(-0.5, 1.5), min_size=3, max_size=3))
def test_colours_out_of_range_survive_the_trip(rgb):
    colour = np.array([rgb])
    assert oklab_to_srgb(srgb_to_oklab(colour)) == pytest.approx(colour, abs=1e-6)
    assert srgb_to_linear(-colour) == pytest.approx(-srgb_to_linear(colour), abs=0)


def test_the_merged_affine_equals_the_long_way():
    scale, offset = np.array([0.95, 1.1, 0.9]), np.array([0.01, -0.02, 0.015])
    expected = pictures.srgb(pictures.oklab(COLOURS) * scale + offset)
    found = affine_in_oklab(COLOURS, scale, offset)
    assert found == pytest.approx(expected, abs=2e-6)  # the printed inverses hold 10 digits
    single = affine_in_oklab(COLOURS.astype(np.float32), scale, offset)
    assert single == pytest.approx(found, abs=5e-5)
    assert single.min() >= 0
    assert single.max() <= 1


def test_a_view_with_strides_is_read_as_what_it_shows():
    turned = COLOURS.transpose(0, 2, 1, 3)[:, ::-1]
    assert srgb_to_oklab(turned) == pytest.approx(pictures.oklab(turned), abs=1e-12)


def test_eight_bit_and_other_shapes_are_refused():
    with pytest.raises(BadRequest, match=r"uint8.*divide"):
        srgb_to_oklab(np.zeros((2, 2, 3), np.uint8))
    with pytest.raises(BadRequest, match=r"\(2, 4\)"):
        oklab_to_srgb(np.zeros((2, 4), np.float32))


def test_linear_light_leads_to_the_same_place() -> None:
    colours = np.random.default_rng(1).random((50, 3))
    straight = srgb_to_oklab(colours)
    np.testing.assert_allclose(linear_to_oklab(srgb_to_linear(colours)), straight, atol=1e-12)
