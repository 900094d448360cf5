"""Two runs with the same content: what differs, and by how much more exactly it is known."""

import numpy as np
import pytest

from chaining.drift.analysis import analyse
from chaining.drift.compare import compare
from chaining.drift.inject import Injector
from chaining.drift.signals import read_clip
from tests.drift.footage import CLIP, chain, drawn
from vidgen.errors import BadRequest


def _moving(k: int) -> np.ndarray:
    return drawn(k, period=61, num_frames=44)


def test_equal_runs_do_not_differ() -> None:
    clips = chain("none", 4)
    found = compare(clips, clips)
    assert found.tone == "none"
    assert found.verdict.overall == "pass"
    assert all(abs(level.value) < 1e-12 for level in found.levels.values())


def test_pairs_know_the_rate_far_better() -> None:
    """The content of the clips differs, so one run alone cannot tell drift from content."""
    plain, darker = chain("none", 6, _moving), chain("gain=0.99", 6, _moving)
    alone = analyse(darker).slopes["gain"]
    paired = compare(plain, darker).slopes["gain"]
    assert np.exp(paired.value) == pytest.approx(0.99, abs=3e-4)
    assert alone.ci95[1] - alone.ci95[0] > 10 * (paired.ci95[1] - paired.ci95[0])


def test_a_range_mistake_is_a_level_and_no_drift() -> None:
    """Limited range read as full has 219/255 of the contrast; put right, 255/219 = 1.16 more."""
    right = chain("none", 4)
    wrong = [
        read_clip(drawn(k) * np.float32(219 / 255) + np.float32(16 / 255), fps=16, width=96)
        for k in range(4)
    ]
    found = compare(wrong, right)
    assert found.tone == "affine"
    assert np.exp(found.levels["contrast"].value) == pytest.approx(1.164, abs=0.003)
    assert np.exp(found.slopes["contrast"].value) == pytest.approx(1, abs=5e-4)
    assert found.verdict.overall == "pass"
    assert analyse(wrong).verdict.by_group["tone"] == "pass"


def test_runs_must_match() -> None:
    clips = chain("none", 2)
    with pytest.raises(BadRequest, match="2 and 1 clips"):
        compare(clips, clips[:1])
    short = read_clip(Injector.parse("none").apply(drawn(0)[: CLIP - 2], 0), fps=16, width=96)
    with pytest.raises(BadRequest, match=r"24 frames .* 22 at"):
        compare(clips[:1], [short])
