"""Colour maps: their algebra, their clipping, and what they become in JSON."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaining.colour.maps import IDENTITY, ColourMap
from tests.chaining import colour_pictures as pictures
from vidgen.errors import BadRequest


def triples(low: float, high: float) -> st.SearchStrategy[tuple[float, float, float]]:
    return st.tuples(*[st.floats(low, high)] * 3)


maps = st.builds(
    ColourMap,
    scale=triples(0.85, 1.18),
    offset=triples(-0.05, 0.05),
    standard_error=st.floats(0, 0.01),
)
# Any two of them in turn stay within the bounds of the ones above.
gentle = st.builds(ColourMap, scale=triples(0.93, 1.08), offset=triples(-0.023, 0.023))
# Far enough from black and white that no map above is clipped.
MIDDLE = (0.35 + 0.3 * np.random.default_rng(2).random((2, 12, 16, 1))).repeat(3, -1)
MIDDLE = (MIDDLE + np.array([0.02, 0.0, -0.02])).astype(np.float32)


def test_composition_by_hand():
    outer = ColourMap((2.0, 1.0, 0.5), (0.1, 0.0, -0.2), 0.003)
    first = ColourMap((3.0, 2.0, 4.0), (0.5, -0.1, 0.2), 0.004)
    both = outer.compose(first)
    assert both.scale == (6.0, 2.0, 2.0)
    assert both.offset == pytest.approx((1.1, -0.1, -0.1), abs=1e-15)
    assert both.standard_error == pytest.approx(0.005, abs=1e-15)


@given(maps, maps, maps)
def test_composing_is_associative_and_has_a_unit(a, b, c):
    left, right = a.compose(b).compose(c), a.compose(b.compose(c))
    assert left.scale == pytest.approx(right.scale, rel=1e-12)
    assert left.offset == pytest.approx(right.offset, abs=1e-12)
    assert left.standard_error == pytest.approx(right.standard_error, abs=1e-12)
    assert a.compose(IDENTITY) == a == IDENTITY.compose(a)


@given(gentle, gentle)
def test_a_composed_map_does_what_its_parts_do_in_turn(a, b):
    assert a.compose(b).apply(MIDDLE) == pytest.approx(a.apply(b.apply(MIDDLE)), abs=1e-5)


def test_frames_agree_with_the_reference_and_are_clipped():
    frames = np.random.default_rng(3).random((2, 9, 11, 3))
    colour_map = ColourMap((1.1, 1.15, 0.9), (0.03, 0.01, -0.02))
    lab = pictures.oklab(frames) * np.array(colour_map.scale) + np.array(colour_map.offset)
    found = colour_map.apply(frames.astype(np.float32))
    assert found == pytest.approx(pictures.srgb(lab), abs=5e-5)
    assert (found.min(), found.max()) == (0.0, 1.0)


def test_the_identity_touches_nothing():
    assert IDENTITY.apply(MIDDLE) is MIDDLE
    assert ColourMap(standard_error=0.01).is_identity
    assert not ColourMap(offset=(0, 1e-9, 0)).is_identity


@given(maps)
def test_json_brings_back_every_bit(colour_map):
    assert ColourMap.from_dict(json.loads(json.dumps(colour_map.as_dict()))) == colour_map


def test_part_of_the_way():
    half = ColourMap((1.1, 0.9, 1.0), (0.04, 0.0, -0.02), 0.01).at_strength(0.5)
    assert half.scale == pytest.approx((1.05, 0.95, 1.0))
    assert half.offset == pytest.approx((0.02, 0.0, -0.01))
    assert half.standard_error == pytest.approx(0.005)
    with pytest.raises(BadRequest, match=r"strength=1\.5 .*between 0 and 1"):
        half.at_strength(1.5)


def test_a_chain_asks_for_an_anchor_once_its_errors_add_up():
    step = ColourMap(standard_error=0.009)
    total = IDENTITY
    needs = []
    for _ in range(5):
        total = total.compose(step)
        needs.append(total.needs_anchor)
    # 0.009 * sqrt(n) passes 0.02 between n = 4 (0.018) and n = 5 (0.0201)
    assert needs == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"scale": [1, 1, 1]}, "has the keys"),
        ({"scale": [1, 1], "offset": [0, 0, 0], "standard_error": 0}, "cannot be read"),
        ({"scale": [1, 1, "x"], "offset": [0, 0, 0], "standard_error": 0}, "cannot be read"),
        ({"scale": [1, 1, 0], "offset": [0, 0, 0], "standard_error": 0}, "above 0"),
        ({"scale": [1, 1, 1], "offset": [0, 0, float("nan")], "standard_error": 0}, "finite"),
        ({"scale": [1, 1, 1], "offset": [0, 0, 0], "standard_error": -1}, "0 or more"),
    ],
)
def test_broken_data_is_refused_in_words(data, message):
    with pytest.raises(BadRequest, match=message):
        ColourMap.from_dict(data)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((4, 4, 3), np.float32), r"shape \(4, 4, 3\)"),
        (np.zeros((0, 4, 4, 3), np.float32), "at least one frame"),
        (np.zeros((1, 4, 4, 3), np.float64), "float64, not float32"),
        (np.zeros((1, 4, 4, 3), np.uint8), "divide 8-bit values"),
    ],
)
def test_wrong_frames_are_refused_even_by_the_identity(frames, message):
    with pytest.raises(BadRequest, match=message):
        IDENTITY.apply(frames)
