"""Strategies and controls on a maker that drifts by known amounts: what compounds, what does not.

The maker's gain acts on Oklab as a whole, so the mean lightness of clip k is gain^k of clip 0's.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.chain import Chain, Result
from chaining.story import parse_story
from tests.chaining.drifty import DriftyMaker, IdentityMaker, Maker, lightness
from vidgen.media import read_video

RATE = float(np.log(0.97))
EXACT = 2e-4  # pixels clipped at 0 and 1, and the sum over a moving picture


def run(
    folder: Path, maker: Maker, seconds: float = 2.5, measure: bool = False, **fields: Any
) -> Result:
    shots = fields.pop("shots", [{"prompt": "a", "seconds": seconds}])
    request = {"format": "master"}
    story = parse_story({"shots": shots, "seed": 1, "request": request, **fields})
    return Chain(story, maker, folder / "chain", measure=measure).run(folder / "video.mkv")


def steps(result: Result) -> list[float]:
    """Change of ln lightness from clip to clip, as shown."""
    levels = [np.log(lightness(take.all_shown())) for take in result.takes]
    return [float(step) for step in np.diff(levels)]


def handed(maker: Maker) -> list[float]:
    """ln lightness of what each clip was given, relative to the first one given anything."""
    given = [
        ask.image_rwc[None] if ask.prefix_frwc is None else ask.prefix_frwc
        for ask in maker.asks
        if ask.image_rwc is not None or ask.prefix_frwc is not None
    ]
    levels = np.log([lightness(frames) for frames in given])
    return [float(level - levels[0]) for level in levels]


OFF = {"colour_lock": "off"}


@pytest.mark.parametrize(
    ("strategy", "handover"),
    [("last_frame", {}), ("overlap", {"overlap": 5}), ("overlap", {"overlap": 5, "mode": "blend"})],
)
def test_without_a_lock_the_injected_rate_compounds(
    tmp_path: Path, strategy: str, handover: dict[str, Any]
) -> None:
    result = run(
        tmp_path, DriftyMaker(gain=0.97), strategy=strategy, handover=handover, controls=OFF
    )
    assert len(result.takes) >= 5
    assert steps(result) == pytest.approx([RATE] * (len(result.takes) - 1), abs=EXACT)


@pytest.mark.parametrize("gain", [0.97, 1.03])
@pytest.mark.parametrize(
    ("strategy", "handover"),
    [("last_frame", {}), ("overlap", {"overlap": 5}), ("last_latent", {"latents": 2})],
)
def test_pair_affine_in_the_loop_holds_the_look(
    tmp_path: Path, gain: float, strategy: str, handover: dict[str, Any]
) -> None:
    maker = DriftyMaker(gain=gain, noise=0.004)
    result = run(tmp_path, maker, strategy=strategy, handover=handover)
    levels = np.cumsum(steps(result))
    assert max(abs(level) for level in levels) < 0.002
    if strategy != "last_latent":
        assert max(abs(level) for level in handed(maker)) < 0.002
    assert all(take.correction.used == "affine" for take in result.takes[1:])
    assert all(take.correction.r2 > 0.9 for take in result.takes[1:] if take.correction.r2)


def test_correcting_the_output_alone_leaves_the_model_drifting_frames(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.97)
    result = run(tmp_path, maker, controls={"colour_lock_at": "output"})
    assert max(abs(level) for level in np.cumsum(steps(result))) < 0.002
    given = handed(maker)
    assert given == pytest.approx([RATE * i for i in range(len(given))], abs=5 * EXACT)


def test_correcting_the_handover_alone_leaves_each_clip_one_step_off(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.97)
    result = run(tmp_path, maker, controls={"colour_lock_at": "handover"})
    assert steps(result)[0] == pytest.approx(RATE, abs=EXACT)
    assert steps(result)[1:] == pytest.approx([0.0] * (len(result.takes) - 2), abs=0.002)
    assert max(abs(level) for level in handed(maker)) < 0.002


def test_keyframes_do_not_compound_however_long(tmp_path: Path) -> None:
    result = run(tmp_path, DriftyMaker(gain=0.97), strategy="keyframes", controls=OFF, seconds=4)
    levels = np.cumsum(steps(result))
    # A keyframe is one clip away from the anchor, the clip from it two; the first clip is one.
    assert levels == pytest.approx([RATE] * len(levels), abs=EXACT)


def test_latents_spare_the_round_trip_but_not_the_model(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.97, vae=0.99)
    by_frame = run(tmp_path / "frame", maker, controls=OFF)
    by_latent = run(tmp_path / "latent", maker, strategy="last_latent", controls=OFF)
    both = RATE + float(np.log(0.99))
    assert steps(by_frame) == pytest.approx([both] * len(steps(by_frame)), abs=EXACT)
    assert steps(by_latent) == pytest.approx([RATE] * len(steps(by_latent)), abs=EXACT)


def test_a_pinned_prefix_hides_the_change_from_the_lock(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.97, pinned=True)
    result = run(tmp_path, maker, strategy="overlap", handover={"overlap": 5})
    assert all(take.correction.map.is_identity for take in result.takes)
    assert all("alike" in take.correction.reason for take in result.takes[1:])
    assert steps(result)[1:] == pytest.approx([RATE] * (len(result.takes) - 2), abs=5e-3)


def test_a_cut_starts_a_new_segment_in_its_own_colours(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.97)
    shots = [
        {"prompt": "a", "seconds": 1},
        {"prompt": "b", "seconds": 1, "transition": "cut", "image": "other.png"},
    ]
    result = run(tmp_path, maker, shots=shots)
    starts = [take for take in result.takes if take.plan.follows == "cut"]
    assert [take.plan.segment for take in starts] == [0, 1]
    assert all(take.correction.map.is_identity for take in starts)
    second = [take for take in result.takes if take.plan.segment == 1]
    levels = [np.log(lightness(take.all_shown())) for take in second]
    assert np.diff(levels) == pytest.approx([0.0] * (len(second) - 1), abs=0.002)


def test_matching_the_clip_before_does_not_bring_the_first_look_back(tmp_path: Path) -> None:
    """Each frame takes the mean of the reference, so a correct match must hold it exactly."""
    maker = DriftyMaker(gain=0.97)
    result = run(tmp_path, maker, seconds=1.5, controls={"colour_lock": "mkl"})
    assert max(abs(level) for level in np.cumsum(steps(result))) < 0.01
    reopened = [take.correction.as_dict()["matcher"] for take in result.takes[1:]]
    assert reopened == ["mkl"] * (len(result.takes) - 1)


def test_anchor_clip_goes_half_the_way(tmp_path: Path) -> None:
    result = run(tmp_path, DriftyMaker(gain=0.97), 1.0, controls={"colour_lock": "anchor_clip"})
    assert steps(result)[0] == pytest.approx(RATE / 2, rel=0.1)


def test_latent_adain_pulls_latents_to_the_first_clip(tmp_path: Path) -> None:
    result = run(tmp_path, DriftyMaker(gain=0.97), controls={**OFF, "latent_adain": 1.0})
    first, *others = [take.latents_ctrw for take in result.takes]
    assert first is not None
    for latents in others:
        assert latents is not None
        assert latents.mean((1, 2, 3)) == pytest.approx(first.mean((1, 2, 3)), abs=1e-6)


def test_history_noise_waits_for_drift_when_told_to(tmp_path: Path) -> None:
    maker = DriftyMaker(gain=0.9)
    run(tmp_path / "auto", maker, controls={**OFF, "history_noise": "auto"})
    noises = [ask.history_noise for ask in maker.asks]
    assert noises[:2] == [0.0, 0.0]
    assert noises[-1] == 0.1
    steady = DriftyMaker()
    run(tmp_path / "steady", steady, controls={**OFF, "history_noise": "auto"})
    assert {ask.history_noise for ask in steady.asks} == {0.0}
    fixed = DriftyMaker()
    run(tmp_path / "fixed", fixed, controls={**OFF, "history_noise": 0.05})
    assert [ask.history_noise for ask in fixed.asks] == [0.0, *[0.05] * (fixed.calls - 1)]


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["off", "pair_affine"])
def test_a_hundred_clips_without_drift_shift_nothing(tmp_path: Path, lock: str) -> None:
    maker = IdentityMaker(clip_frames=5)
    result = run(tmp_path, maker, seconds=401 / 16, controls={"colour_lock": lock})
    assert (len(result.takes), maker.calls, result.num_frames) == (100, 100, 401)
    chunks = list(read_video(tmp_path / "video.mkv"))
    first, last = chunks[0][0], chunks[-1][-1]
    assert abs(float((last - first).mean())) * 255 <= 0.05
    assert float(np.abs(last - first).max()) * 255 <= 0.05


def test_todays_practice_reads_an_8_bit_file_back(tmp_path: Path) -> None:
    """Float hand-over gives the very frame; through mp4 it has the codec's error, and compounds."""
    exact, lossy = DriftyMaker(noise=0.01), DriftyMaker(noise=0.01)
    run(tmp_path / "float", exact, 1.5, controls=OFF)
    handover = {"through": "mp4", "seeds": "same"}
    result = run(tmp_path / "mp4", lossy, 1.5, controls=OFF, handover=handover)
    assert len({ask.seed for ask in lossy.asks}) == 1
    shown = [take.all_shown()[-1] for take in result.takes]
    for frame, ask in zip(shown, lossy.asks[1:], strict=False):
        assert ask.image_rwc is not None
        error = np.abs(ask.image_rwc - frame)
        assert 1 / 255 / 20 < error.mean() < 0.05
    made = exact.draw(exact.asks[0])[0][-1]
    assert exact.asks[1].image_rwc is not None
    assert (exact.asks[1].image_rwc == made).all()


def test_the_best_of_three_seams_counts(tmp_path: Path) -> None:
    maker = DriftyMaker(noise=0.01)
    result = run(tmp_path, maker, 1.0, controls={**OFF, "best_of_seams": 3})
    assert maker.calls == 1 + 3 * (len(result.takes) - 1)
    for take in result.takes[1:]:
        folders = sorted(take.folder.parent.glob(f"{take.plan.index:03d}-*"))
        assert len(folders) == 3
    seeds = [ask.seed for ask in maker.asks]
    assert len(set(seeds)) == len(seeds)


def test_the_meter_says_stop_and_what_is_finished_is_kept(tmp_path: Path) -> None:
    maker = DriftyMaker(clip_frames=17, gain=0.8)
    result = run(
        tmp_path, maker, 6.0, measure=True, controls={"colour_lock": "off", "drift_stop": True}
    )
    assert result.state == "stopped"
    assert result.drift is not None
    assert result.drift.verdict.overall == "fail"
    assert len(result.takes) == maker.calls < 6
    assert result.num_frames == sum(len(take.all_shown()) for take in result.takes)
    assert any(advice.code in ("rebase", "stop", "retry_seam") for advice in result.advice)
