"""Clips that are no pictures are told from those that are."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from server.worker.collapse import Judge, Verdict

Frames = npt.NDArray[np.float32]
FPS = Fraction(8)


def scene(count: int = 24, speed: int = 1) -> Frames:
    """Return frames in which a square moves over a slope."""
    rows, columns = np.mgrid[0:40, 0:40] / 40
    still_rwc = np.stack([rows, columns, 0.5 * np.ones_like(rows)], -1) * 0.7
    frames = np.repeat(still_rwc[None].astype(np.float32), count, 0)
    for k in range(count):
        at = (k * speed) % 30
        frames[k, 10:20, at : at + 10] = (0.9, 0.1, 0.1)
    return frames


def judged(frames: Frames, *, moving: bool = False) -> Verdict:
    judge = Judge(FPS, moving=moving)
    for start in range(0, len(frames), 7):
        judge.add(frames[start : start + 7])
    return judge.verdict()


def grain(shape: tuple[int, ...], level: float) -> Frames:
    """Return noise of some 8-bit levels."""
    return np.random.default_rng(1).normal(0, level / 255, shape).astype(np.float32)


def test_a_scene_is_usable_and_its_motion_measured() -> None:
    verdict = judged(scene())
    assert verdict.reason is None
    assert verdict.moved
    frames = scene()
    by_hand = 255 * np.abs(np.diff(frames, axis=0)).mean()
    assert verdict.figures["motion"] == pytest.approx(by_hand, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "frames"),
    [
        ("black", scene() * 0.01),
        ("black", np.concatenate([scene(12), scene(12) * 0.01])),
        ("white", 1 - scene() * 0.01),
        ("noise", np.random.default_rng(0).random((24, 40, 40, 3), np.float32)),
        ("frozen", np.repeat(scene(1), 24, 0)),
        ("frozen", np.repeat(scene(1), 5, 0)),
        ("flicker", scene() * np.where(np.arange(24) % 2, 0.6, 1.0)[:, None, None, None]),
    ],
)
def test_no_picture_is_unusable(name: str, frames: Frames) -> None:
    assert judged(frames.astype(np.float32)).reason == name


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_enough(value: float) -> None:
    frames = scene()
    frames[20, 3, 3, 1] = value
    assert judged(frames).reason == "nonfinite"


def test_a_dark_start_and_a_true_still_are_usable() -> None:
    assert judged(np.concatenate([scene(11) * 0.01, scene(13)])).reason is None
    still = np.repeat(scene(1), 24, 0)
    assert judged(still + grain(still.shape, 0.1)).reason is None  # no two frames are equal


def test_a_clip_that_stops_where_earlier_ones_moved_is_frozen() -> None:
    still = np.repeat(scene(1), 24, 0)
    stopped = still + grain(still.shape, 0.05)
    assert judged(stopped, moving=False).reason is None
    assert judged(stopped, moving=True).reason == "frozen"


def test_a_pause_in_a_moving_clip_is_no_fault() -> None:
    moves = scene(24)
    pause = np.repeat(moves[-1:], 10, 0)  # longer than a second, less than half
    assert judged(np.concatenate([moves, pause]), moving=True).reason is None
    long = np.repeat(moves[-1:], 40, 0)
    assert judged(np.concatenate([moves, long]), moving=True).reason == "frozen"


def test_grain_and_fades_are_no_noise_and_no_flicker() -> None:
    frames = scene()
    assert judged(np.clip(frames + grain(frames.shape, 12), 0, 1)).reason is None
    fade = np.linspace(1.0, 0.2, 24, dtype=np.float32)[:, None, None, None]
    assert judged(frames * fade).reason is None
    plain = np.full((24, 40, 40, 3), 0.5, np.float32) + grain((24, 1, 1, 3), 4)
    assert judged(plain).reason is None


def test_few_equal_frames_say_nothing() -> None:
    assert judged(np.repeat(scene(1), 4, 0)).reason is None
    assert judged(np.repeat(scene(1), 1, 0)).reason is None
