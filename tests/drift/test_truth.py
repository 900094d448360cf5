"""The ground truth: injected drift is read as what it is, on drawn and on real footage."""

import numpy as np
import pytest

from chaining.drift.analysis import analyse
from chaining.drift.cases import CASES
from chaining.drift.inject import Injector
from chaining.drift.meter import measure
from chaining.drift.selftest import run_case, selftest
from chaining.drift.signals import read_clip
from tests.drift.footage import CLIP, chain, drawn, looped, real_frames


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.spec)
def test_drawn_footage(case) -> None:
    for check in selftest(cases=[case]):
        assert check.ok, check


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["gain=0.97", "blur=0.4", "step=0.04"])
@pytest.mark.parametrize("name", ["bikes.mp4", "bigbuckbunny.mp4"])
def test_real_footage(name: str, spec: str) -> None:
    case = next(case for case in CASES if case.spec == spec)
    for check in run_case(case, looped(name, 40, 128), width=128):
        assert check.ok, check


@pytest.mark.slow
def test_a_real_single_shot_never_fails_undrifted_and_shows_its_gain() -> None:
    frames = real_frames("carphone_pristine.mp4", 120, 176)
    for spec, gain, tolerance in (("none", 1.0, 0.01), ("gain=0.97", 0.97, 0.005)):
        injector = Injector.parse(spec)
        clips = []
        for k in range(8):
            before = clips[-1] if clips else None
            shown = injector.apply(frames[15 * k : 15 * k + 15], k)
            clips.append(read_clip(shown, fps=30, width=176, before=before))
        drift = analyse(clips)
        assert np.exp(drift.slopes["gain"].value) == pytest.approx(gain, abs=tolerance)
        if spec == "none":
            assert drift.verdict.overall in ("pass", "inconclusive"), drift.verdict.reasons


def test_a_chain_played_backwards_has_the_opposite_drift() -> None:
    injector = Injector.parse("gain=0.97")
    frames = np.concatenate([injector.apply(drawn(k), k) for k in range(6)])
    forth = measure(frames, [CLIP] * 6, fps=16, width=96)
    back = measure(frames[::-1], [CLIP] * 6, fps=16, width=96)
    assert back.slopes["gain"].value == pytest.approx(-forth.slopes["gain"].value, abs=2e-4)
    one, two = forth.contrasts["luma"], back.contrasts["luma"]
    assert two.absolute == pytest.approx(one.absolute)
    assert two.signed == pytest.approx(-one.signed)


def test_the_analysis_width_does_not_matter() -> None:
    """Twice the pixels: the same gain, and four times the blur in square pixels."""
    from chaining.drift.bases import Synthetic

    base = Synthetic(0, 192, 108, 24, noise=0.0)
    large, small = (
        analyse(chain("gain=0.97,blur=0.8", 5, lambda k: base.frames(24 * k, 24), width=width))
        for width in (192, 96)
    )
    assert large.slopes["gain"].value == pytest.approx(small.slopes["gain"].value, abs=5e-4)
    ratio = large.slopes["blur"].value / small.slopes["blur"].value
    assert ratio == pytest.approx(4, rel=0.1)


def test_frame_rate_and_crop_do_not_matter() -> None:
    whole = analyse(chain("gain=0.97", 5))
    fewer = analyse(chain("gain=0.97", 5, lambda k: drawn(k)[::2]))
    cropped = analyse(chain("gain=0.97", 5, lambda k: drawn(k)[:, 5:-5, 10:-10]))
    for other in (fewer, cropped):
        assert other.slopes["gain"].value == pytest.approx(whole.slopes["gain"].value, abs=5e-4)


@pytest.mark.slow
def test_intervals_hold_the_truth() -> None:
    """Content moves on from clip to clip; of 10 random gains, 8 or more lie in their intervals."""
    rng = np.random.default_rng(8)
    held = 0
    for seed in range(10):
        gain = rng.uniform(0.94, 1.06)
        footage = lambda k, seed=seed: drawn(k, period=67, seed=seed)  # noqa: E731
        low, high = analyse(chain(f"gain={gain:.5f}", 6, footage)).slopes["gain"].ci95
        held += low <= np.log(float(f"{gain:.5f}")) <= high
    assert held >= 8
