"""What happens at single frames is found and named by its frame: flash, freeze, seam, snap-back."""

import numpy as np

from chaining.drift.analysis import analyse
from chaining.drift.drift import Drift
from chaining.drift.meter import measure
from tests.drift.footage import CLIP, chain, drawn


def _measure(frames: np.ndarray, num_clips: int = 3) -> Drift:
    return measure(frames, [CLIP] * num_clips, fps=16, width=96)


def _scene(num_clips: int = 3) -> np.ndarray:
    return np.concatenate([drawn(k, period=96) for k in range(num_clips)])


def test_plain_footage_has_no_events() -> None:
    drift = _measure(_scene())
    assert drift.flashes == ()
    assert drift.freezes == ()
    assert drift.recall.snap_backs == ()
    assert drift.verdict.by_group["events"] == "pass"
    assert drift.verdict.by_group["seams"] == "pass"


def test_a_bright_frame_is_named() -> None:
    frames = _scene()
    frames[37] += 0.1
    drift = _measure(frames)
    assert [(flash.first, flash.last) for flash in drift.flashes] == [(37, 37)]
    assert abs(drift.flashes[0].size - 0.1) < 0.01
    assert drift.verdict.by_group["events"] == "fail"
    assert any("frame 37 (clip 1): a flash" in reason for reason in drift.verdict.reasons)


def test_dark_frames_are_named() -> None:
    frames = _scene()
    frames[30:33] -= 0.06
    drift = _measure(frames)
    assert [(flash.first, flash.last) for flash in drift.flashes] == [(30, 32)]
    assert any("frames 30-32" in reason for reason in drift.verdict.reasons)


def test_a_flash_at_the_very_start_is_named() -> None:
    frames = _scene()
    frames[:3] += 0.08
    drift = _measure(frames)
    assert abs(drift.settling[0].size - 0.08) < 0.02
    assert drift.settling[0].frame < 3
    assert drift.settling[0].returns


def test_a_frozen_run_is_named() -> None:
    frames = _scene()
    frames[30:44] = frames[29]
    drift = _measure(frames)
    assert [(f.first, f.last, f.length) for f in drift.freezes] == [(30, 43, 14)]
    assert any("frames 30-43 (clip 1)" in reason for reason in drift.verdict.reasons)
    assert drift.verdict.by_group["events"] == "fail"


def test_four_repeats_are_no_freeze() -> None:
    frames = _scene()
    frames[30:34] = frames[29]
    assert _measure(frames).freezes == ()


def test_a_jump_at_a_seam_is_named() -> None:
    frames = _scene()
    frames[CLIP : 2 * CLIP] = frames[CLIP : 2 * CLIP, :, ::-1]
    drift = _measure(frames)
    assert drift.seams[0].frame == CLIP
    assert drift.verdict.by_group["seams"] != "pass"
    assert any(f"frame {CLIP} (seam into clip 1)" in reason for reason in drift.verdict.reasons)


def test_a_luma_step_at_a_seam_is_named() -> None:
    frames = _scene()
    frames[2 * CLIP :] += 0.05
    drift = _measure(frames)
    assert abs(drift.seams[1].luma_step - 0.05) < 0.005
    assert abs(drift.seams[0].luma_step) < 0.005
    reasons = [reason for reason in drift.verdict.reasons if "luma steps" in reason]
    assert len(reasons) == 1
    assert f"frame {2 * CLIP} (seam into clip 2)" in reasons[0]


def test_a_cut_is_no_bad_seam() -> None:
    frames = _scene()
    frames[CLIP:] = frames[CLIP:, :, ::-1] * 0.7
    kinds = ["continue", "cut", "continue"]
    drift = measure(frames, [CLIP] * 3, fps=16, width=96, kinds=kinds)
    assert drift.verdict.by_group["seams"] == "pass"
    assert drift.flashes == ()


def test_a_snap_back_is_named() -> None:
    """After two clips elsewhere the picture is again the first one."""
    frames = np.concatenate([drawn(0, period=400), drawn(3, period=96, seed=1)] * 2)[: 4 * CLIP]
    frames[CLIP : 2 * CLIP + CLIP // 2] = np.concatenate(
        [drawn(3, period=96, seed=1), drawn(4, period=96, seed=1)]
    )[: CLIP + CLIP // 2]
    place = 2 * CLIP + CLIP // 2
    frames[place:] = drawn(0, period=400)[:1]
    frames[place:] += np.linspace(0, 0.02, len(frames) - place, dtype=np.float32)[
        :, None, None, None
    ]
    drift = _measure(frames, 4)
    assert drift.recall.snap_backs == (place,)
    assert any(f"frame {place}: the picture jumps back" in r for r in drift.verdict.reasons)


def test_a_loop_is_measured() -> None:
    looped = analyse(chain("none", 4))
    panned = _measure(_scene(4), 4)
    assert looped.recall.loop_share > 0.9
    assert panned.recall.anchor_share < 0.5
