"""Collapse: whether a clip is a picture at all; black, frozen, noise and the like are told apart.

The rules, each over at least half of a clip's frames unless it says otherwise. Levels are 8-bit.
- nonfinite  any value is not finite
- black      the mean is below 8; white: above 247
- noise      neighbouring pixels have little to do with each other (correlation below 0.35) though
             there is contrast (deviation above 12)
- flicker    brightness jumps to and fro by more than 16 from frame to frame
- frozen     a true still is no fault, so one of two things must hold. All frames of the clip, five
             or more, are equal to the last bit, which no decoder gives for a still scene. Or the
             clip is meant to move, since earlier clips of the job did, and it stands still (mean
             difference below 0.2) for a second or more and for half of its frames.
"""

# f frames  r rows  w columns  c channels
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[np.float32]

BLACK, WHITE = 8 / 255, 247 / 255
STILL = 0.2 / 255
JUMP = 16 / 255
CONTRAST = 12 / 255
RELATED = 0.35
SHARE = 0.5
FEWEST_FROZEN = 5
FEWEST_FLICKER = 6
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found.

    reason   why the clip is unusable, None if it is usable
    figures  JSON-ready; motion is the mean difference of neighbouring frames in 8-bit levels
    """

    reason: str | None
    figures: dict[str, Any]

    @property
    def moved(self) -> bool:
        """Whether the clip moved as a whole."""
        return float(self.figures["motion"]) > 2 * 255 * STILL

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict JSON-ready."""
        return {"usable": self.reason is None, "reason": self.reason, **self.figures}


class Judge:
    """Looks at the frames of one clip as they come; nothing is kept but a few numbers of each."""

    def __init__(self, fps: Fraction, *, moving: bool) -> None:
        """Begin.

        moving  earlier clips of the job moved, so that this one should
        """
        self._fps = float(fps)
        self._moving = moving
        self._finite = True
        self._means: list[float] = []
        self._deviations: list[float] = []
        self._related: list[float] = []
        self._differences: list[float] = []
        self._equal = True
        self._last: Frames | None = None

    def add(self, frames_frwc: Frames) -> None:
        """Look at the next frames, float 0..1."""
        for frame_rwc in frames_frwc:
            if not np.isfinite(frame_rwc).all():
                self._finite = False
                frame_rwc = np.nan_to_num(frame_rwc, posinf=1, neginf=0)
            luma_rw = frame_rwc @ _LUMA
            self._means.append(float(luma_rw.mean()))
            self._deviations.append(float(luma_rw.std()))
            self._related.append(_relation(luma_rw))
            if self._last is not None:
                self._differences.append(float(np.abs(frame_rwc - self._last).mean()))
                self._equal = self._equal and np.array_equal(frame_rwc, self._last)
            self._last = frame_rwc

    def verdict(self) -> Verdict:
        """Return what was found so far."""
        count = len(self._means)
        means = np.array(self._means)
        differences = np.array(self._differences)
        noisy = (np.array(self._related) < RELATED) & (np.array(self._deviations) > CONTRAST)
        jumps = np.abs(means[1:-1] - (means[:-2] + means[2:]) / 2) if count > 2 else np.zeros(0)
        still = _longest(differences < STILL)
        shares = {
            "black": _share(means < BLACK),
            "white": _share(means > WHITE),
            "noise": _share(noisy),
            "flicker": _share(jumps > JUMP) if count >= FEWEST_FLICKER else 0.0,
        }
        figures = {
            "num_frames": count,
            "mean": round(255 * float(means.mean()), 3) if count else 0.0,
            "deviation": round(255 * float(np.mean(self._deviations)), 3) if count else 0.0,
            "motion": round(255 * float(differences.mean()), 4) if len(differences) else 0.0,
            "still_seconds": round(still / self._fps, 3),
            "shares": {name: round(share, 4) for name, share in shares.items()},
        }
        return Verdict(self._reason(shares, still), figures)

    def _reason(self, shares: dict[str, float], still: int) -> str | None:
        if not self._finite:
            return "nonfinite"
        for name, share in shares.items():
            if share >= SHARE:
                return name
        count = len(self._means)
        dead = self._equal and count >= FEWEST_FROZEN
        stopped = self._moving and still >= self._fps and still >= SHARE * (count - 1)
        return "frozen" if dead or stopped else None


def _relation(luma_rw: Frames) -> float:
    """Return the correlation of neighbouring pixels, 1 for a plain surface."""
    centred = luma_rw - luma_rw.mean()
    variance = float((centred * centred).mean())
    if variance < 1e-8:
        return 1.0
    across = float((centred[:, 1:] * centred[:, :-1]).mean())
    down = float((centred[1:] * centred[:-1]).mean())
    return (across + down) / 2 / variance


def _share(found: npt.NDArray[np.bool_]) -> float:
    return float(found.mean()) if len(found) else 0.0


def _longest(found: npt.NDArray[np.bool_]) -> int:
    """Return the length of the longest run."""
    longest = run = 0
    for item in found:
        run = run + 1 if item else 0
        longest = max(longest, run)
    return longest
