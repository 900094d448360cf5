"""Joins: lengths, weights by hand, light instead of code values; and the sharpest frame."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaining.joins import JOINS, join, sharpest
from vidgen.errors import BadRequest


def run(length, level=None, seed=0):
    if level is not None:
        return np.full((length, 4, 5, 3), level, np.float32)
    return np.random.default_rng(seed).random((length, 4, 5, 3), dtype=np.float32)


def linear(code):
    return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)


@given(st.integers(1, 9), st.integers(1, 9), st.data(), st.sampled_from(sorted(JOINS)))
def test_lengths_are_exact_and_frames_outside_are_untouched(before, after, data, how):
    overlap = data.draw(st.integers(0, min(before, after)))
    first, second = run(before), run(after, seed=1)
    joined = join(first, second, overlap, how)
    assert joined.shape == (before + after - overlap, 4, 5, 3)
    assert joined.dtype == np.float32
    assert np.array_equal(joined[: before - overlap], first[: before - overlap])
    assert np.array_equal(joined[before:], second[overlap:])
    assert 0 <= joined.min() <= joined.max() <= 1


@pytest.mark.parametrize(
    ("how", "overlap", "shares"),
    [
        ("linear", 1, [0.5]),
        ("linear", 3, [0.25, 0.5, 0.75]),
        ("ease", 1, [0.5]),
        ("ease", 3, [0.15625, 0.5, 0.84375]),  # 3/16 - 2/64, 1/2, 27/16 - 54/64
        ("cut", 1, [0]),
        ("cut", 2, [0, 1]),
        ("cut", 3, [0, 0, 1]),
        ("cut", 4, [0, 0, 1, 1]),
    ],
)
def test_shares_by_hand_in_linear_light(how, overlap, shares):
    joined = join(run(5, 0.2), run(5, 0.9), overlap, how)
    found = (linear(joined[5 - overlap : 5, 0, 0, 0]) - linear(0.2)) / (linear(0.9) - linear(0.2))
    assert found == pytest.approx(shares, abs=1e-6)


def test_half_black_half_white_is_the_grey_of_half_the_light():
    joined = join(run(1, 0.0), run(1, 1.0), 1)
    assert joined == pytest.approx(np.full((1, 4, 5, 3), 0.735357), abs=1e-5)


def test_no_overlap_appends_and_a_cut_copies():
    first, second = run(3), run(2, seed=1)
    assert np.array_equal(join(first, second, 0), np.concatenate([first, second]))
    assert np.array_equal(join(first, second, 2, "cut")[1:3], np.stack([first[1], second[1]]))


def test_alike_overlaps_stay_what_they_are():
    both = run(4)
    assert join(both, both, 4, "ease") == pytest.approx(both, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((run(3), run(2), 3), r"overlap=3 must lie between 0 and 2"),
        ((run(3), run(2), -1), r"overlap=-1"),
        ((run(3), run(2), 1, "filmic"), r"'filmic' is unknown; use one of cut, linear, ease"),
        ((run(3), run(2)[:, :3], 1), r"Frames of 5x4 cannot be joined to frames of 5x3"),
        ((run(3)[0], run(2), 0), r"before the join have the shape"),
        ((run(3), run(2).astype(np.float64), 0), r"after the join are float64"),
    ],
)
def test_joins_that_cannot_be_made_are_refused(arguments, message):
    with pytest.raises(BadRequest, match=message):
        join(*arguments)


def checks(contrasts):
    """One chequered frame for each contrast: the Laplacian of +-c is 8 c, its variance 64 c^2."""
    board = np.indices((12, 14)).sum(0) % 2 * 2 - 1.0
    return np.stack([0.5 + c * board[..., None].repeat(3, -1) for c in contrasts]).astype(
        np.float32
    )


def test_the_sharpest_of_the_last_frames_is_found():
    contrasts = [0.4, 0.1, 0.2, 0.3, 0.2, 0.1]
    assert sharpest(checks(contrasts)) == 0
    assert sharpest(checks(contrasts), last=5) == 3
    assert sharpest(checks(contrasts), last=2) == 4
    assert sharpest(checks(contrasts), last=1) == 5
    assert sharpest(checks([0.2] * 12)) == 11
    assert sharpest(checks([0.3] + [0.2] * 8)) == 8


def test_a_bright_soft_frame_does_not_pass_for_a_sharp_one():
    ramp = np.linspace(0, 1, 14)[None, None, :, None].repeat(12, 1).repeat(3, -1)
    frames = np.concatenate([checks([0.05]), ramp.astype(np.float32)])
    assert sharpest(frames) == 0


def test_frames_too_small_or_none_are_refused():
    with pytest.raises(BadRequest, match="last=0 must be 1 or more"):
        sharpest(run(3), last=0)
    with pytest.raises(BadRequest, match="5x2 are too small"):
        sharpest(run(3)[:, :2])
