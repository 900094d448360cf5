"""Eight clips with a known drift: which way of correcting brings the truth back.

The drift of each clip is gain 0.97, chroma x1.03, b +0.002; five frames exist twice, with noise of
sigma 0.01. The ranking is tested, not the margin: twins of a real model are not aligned this well.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from chaining.colour.maps import IDENTITY
from chaining.colour.matchers import match
from chaining.colour.pair_affine import fit_pair
from tests.chaining import colour_pictures as pictures

CLIPS, FRAMES, TWINS = 8, 9, 5
WHOLE_FRAME = ["reinhard_lab", "reinhard_lab_previous", "mkl", "histogram", "lowfreq"]


@cache
def clips(shots: int):
    """(clean, drifted) clips; the scene changes `shots` times over the eight clips, inside them."""
    length = CLIPS * (FRAMES - TWINS) + TWINS
    bounds = np.linspace(0, length, shots + 2).astype(int)
    bounds[1:-1] += np.arange(shots) % 2
    story = np.concatenate(
        [
            pictures.scene(20 + i, end - start, 64, 96)
            for i, (start, end) in enumerate(pairwise(bounds))
        ]
    )
    starts = range(0, CLIPS * (FRAMES - TWINS), FRAMES - TWINS)
    clean = [story[start : start + FRAMES] for start in starts]
    return clean, [pictures.drift(clip, k).astype(np.float32) for k, clip in enumerate(clean)]


def error(corrected, clean):
    """Mean distance to the truth over clips 1 to 7."""
    pairs = zip(corrected[1:], clean[1:], strict=True)
    return float(np.mean([pictures.distance(one[::4], true[::4]) for one, true in pairs]))


def by_pairs(drifted):
    total, corrected = IDENTITY, [drifted[0]]
    for k in range(1, CLIPS):
        rendered = pictures.noisy(drifted[k][:TWINS].astype(np.float64), k)
        total = total.compose(fit_pair(drifted[k - 1][-TWINS:], rendered).map)
        corrected.append(total.apply(drifted[k]))
    return corrected, total


def by_matcher(name, drifted):
    corrected = [drifted[0]]
    for clip in drifted[1:]:
        reference = corrected[-1] if name.endswith("previous") else drifted[0]
        corrected.append(match(name, reference, clip).apply(clip))
    return corrected


@pytest.mark.parametrize("shots", [0, 5])
def test_pairs_bring_the_drift_down_to_a_fifth(shots):
    clean, drifted = clips(shots)
    corrected, total = by_pairs(drifted)
    assert error(drifted, clean) > 0.03
    assert error(corrected, clean) < 0.2 * error(drifted, clean)
    assert error(corrected, clean) < 0.008
    assert pictures.distance(corrected[-1], clean[-1]) < 2 * total.standard_error
    assert not total.needs_anchor


@pytest.mark.parametrize("name", WHOLE_FRAME)
def test_matching_whole_frames_is_worse_than_nothing_once_scenes_change(name):
    clean, drifted = clips(5)
    pairs, _ = by_pairs(drifted)
    matched = error(by_matcher(name, drifted), clean)
    assert matched > error(drifted, clean)
    assert matched > 5 * error(pairs, clean)


def test_a_whole_clip_is_matched_to_its_anchor_only_where_content_is_alike():
    clean, drifted = clips(5)
    assert error(by_matcher("anchor_clip", drifted), clean) < 1.1 * error(drifted, clean)
    assert match("anchor_clip", drifted[0], drifted[-1]).map == IDENTITY
    clean, drifted = clips(0)
    assert error(by_matcher("anchor_clip", drifted), clean) < error(drifted, clean)


@pytest.mark.parametrize("shots", [0, 5])
def test_undrifted_clips_come_through_untouched(shots):
    clean = [clip.astype(np.float32) for clip in clips(shots)[0]]
    corrected, total = by_pairs(clean)
    assert total == IDENTITY
    assert all(one is true for one, true in zip(corrected, clean, strict=True))


def test_twins_handed_over_corrected_need_no_composing():
    """In the loop the condition already has clip 0's colours, so each fit leads there alone."""
    fits = []

    def made(clean):
        for fit in fits:
            clean = fit.apply(pictures.drift(clean, 1).astype(np.float32)).astype(np.float64)
        return clean

    for k in range(4):
        tail = made(pictures.scene(30 + k, TWINS, 64, 96))
        rendered = pictures.noisy(pictures.drift(tail, 1), k)
        fits.append(fit_pair(tail.astype(np.float32), rendered))
    clean = pictures.scene(40, 2)
    assert pictures.distance(pictures.drift(clean, 4), clean) > 0.03
    assert pictures.distance(made(clean), clean) < 0.006
