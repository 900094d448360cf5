"""Fidelity: how far a clip is from another one of the same length and size, frame by frame."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vidgen.errors import BadRequest, Cancelled
from vidgen.media.video_read import probe_video, read_video

if TYPE_CHECKING:
    from vidgen.media.ffmpeg_run import CancelToken

Frames = NDArray[np.float32]

BEST_PSNR = 100.0  # of frames that are equal, where the formula has no value
_WINDOW, _DEVIATION, _K1, _K2 = 11, 1.5, 0.01, 0.03


@dataclass(frozen=True, slots=True)
class Fidelity:
    """One clip against another.

    psnr            dB over all pixels and frames, at most 100
    ssim            mean over frames, -1..1
    frames          PSNR in dB of each frame
    ssim_of_frames  SSIM of each frame
    """

    psnr: float
    ssim: float
    frames: tuple[float, ...]
    ssim_of_frames: tuple[float, ...]

    @property
    def worst(self) -> int:
        """Index of the frame that differs most."""
        return min(range(len(self.frames)), key=lambda index: self.frames[index])

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "psnr": round(self.psnr, 3),
            "ssim": round(self.ssim, 5),
            "worst_frame": self.worst,
            "psnr_of_frames": [round(value, 2) for value in self.frames],
            "ssim_of_frames": [round(value, 5) for value in self.ssim_of_frames],
        }


def compare_videos(
    golden: str | Path,
    other: str | Path,
    *,
    on_difference: Callable[[Frames], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
    cancel: "CancelToken | None" = None,
) -> Fidelity:
    """Compare two files frame by frame.

    on_difference  gets |other - golden| (f, h, w, 3) in 0..1, a few frames at a time
    on_progress    called with 0..1
    cancel         looked at every few frames
    Raises         BadRequest when size or number of frames differ, Cancelled
    """
    total = _check_alike(Path(golden), Path(other))
    errors: list[float] = []
    similar: list[float] = []
    for wanted, found in zip(read_video(golden), read_video(other), strict=True):
        if cancel is not None and cancel.cancelled:
            raise Cancelled(f"Comparing stopped at frame {len(errors)} of {total}.")
        difference = np.abs(found - wanted)
        errors += np.square(difference).mean(axis=(1, 2, 3)).tolist()
        similar += [ssim_of(a, b) for a, b in zip(found, wanted, strict=True)]
        if on_difference is not None:
            on_difference(difference)
        if on_progress is not None:
            on_progress(len(errors) / total)
    mean = float(np.mean(errors))
    frames = tuple(psnr_of(error) for error in errors)
    return Fidelity(psnr_of(mean), float(np.mean(similar)), frames, tuple(similar))


def told_of_rates(golden: str | Path, other: str | Path) -> str:
    """Return a sentence where two clips play at different rates, "" where they do not.

    Frames are compared in their order, so a rate changes nothing that is measured.
    """
    one, two = probe_video(golden), probe_video(other)
    if one.fps == two.fps:
        return ""
    names = Path(golden).name, Path(other).name
    return (
        f"{names[0]} plays at {one.fps} fps and {names[1]} at {two.fps}; they are compared frame "
        "by frame, whatever their rates."
    )


def psnr_of(mean_square: float) -> float:
    """Return the PSNR in dB of values in 0..1 with that mean squared error."""
    return BEST_PSNR if mean_square <= 0 else min(BEST_PSNR, -10 * float(np.log10(mean_square)))


def _check_alike(golden: Path, other: Path) -> int:
    """Return the number of frames of both."""
    one, two = probe_video(golden), probe_video(other)
    for what, a, b in (
        ("size", f"{one.width}x{one.height}", f"{two.width}x{two.height}"),
        ("number of frames", one.num_frames, two.num_frames),
    ):
        if a != b:
            raise BadRequest(
                f"{golden.name} and {other.name} differ in {what} ({a} and {b}); clips are "
                "compared frame by frame, so make them alike first (vidgen finish)."
            )
    return one.num_frames


def ssim_of(found: Frames, wanted: Frames) -> float:
    """Return the SSIM of two frames (h, w, 3) in 0..1: mean over pixels and colours.

    Source  Wang et al. 2004: Gaussian window of 11 pixels and 1.5 deviation, K = 0.01 and 0.03;
            beyond the edge the picture is mirrored, as torchmetrics does it
    """
    import cv2

    def mean(values: Frames) -> Frames:
        return np.asarray(cv2.GaussianBlur(values, (_WINDOW, _WINDOW), _DEVIATION), np.float32)

    a, b = mean(found), mean(wanted)
    variance_a = np.maximum(mean(found * found) - a * a, 0)
    variance_b = np.maximum(mean(wanted * wanted) - b * b, 0)
    covariance = mean(found * wanted) - a * b
    likeness = (2 * a * b + _K1**2) * (2 * covariance + _K2**2)
    ssim = likeness / ((a * a + b * b + _K1**2) * (variance_a + variance_b + _K2**2))
    return float(ssim.mean(dtype=np.float64))
