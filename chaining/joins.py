"""How two runs of frames that overlap in time become one, and which last frame is sharpest.

Pixels in the overlap are mixed in linear light, as two exposures would be.
"""

# f frames  r rows  w columns  c channels
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from chaining.colour.checks import check_frames
from chaining.colour.oklab import LUMA_C, linear_to_srgb, srgb_to_linear
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]

# How far the new run has come in at t, where the overlap runs from 0 to 1.
JOINS: dict[str, Callable[[Float], Float]] = {
    "cut": lambda t_f: (t_f > 0.5).astype(np.float32),
    "linear": lambda t_f: t_f,
    "ease": lambda t_f: t_f**2 * (3 - 2 * t_f),
}


def join(before_frwc: Float, after_frwc: Float, overlap: int, how: str = "linear") -> Float:
    """Return one run of len(before) + len(after) - overlap frames.

    before_frwc, after_frwc  float32 sRGB 0..1, frames of one size
    overlap  the last frames of before that show what the first frames of after show; 0 appends
    how      cut at the middle (the older run keeps the middle frame), linear or ease (3t^2 - 2t^3);
             frame i of the overlap lies at t = (i + 1) / (overlap + 1)
    Frames outside the overlap, and all frames of a cut, come through bit for bit.
    Raises BadRequest for an unknown way, unlike sizes, or an overlap beyond either run
    """
    check_frames("Frames before the join", before_frwc)
    check_frames("Frames after the join", after_frwc)
    if how not in JOINS:
        raise BadRequest(f"join={how!r} is unknown; use one of {', '.join(JOINS)}.")
    if before_frwc.shape[1:] != after_frwc.shape[1:]:
        raise BadRequest(
            f"Frames of {_size(before_frwc)} cannot be joined to frames of {_size(after_frwc)};"
            " make both at one size."
        )
    shorter = min(len(before_frwc), len(after_frwc))
    if not 0 <= overlap <= shorter:
        raise BadRequest(
            f"overlap={overlap} must lie between 0 and {shorter}, the frames of the shorter run."
        )
    kept = len(before_frwc) - overlap
    t_f = np.linspace(0, 1, overlap + 2, dtype=np.float32)[1:-1]
    share_f = JOINS[how](t_f)
    joined_frwc = np.concatenate([before_frwc, after_frwc[overlap:]])
    for i, share in enumerate(share_f):
        joined_frwc[kept + i] = _mixed(before_frwc[kept + i], after_frwc[i], float(share))
    return joined_frwc


def sharpest(frames_frwc: Float, last: int = 8) -> int:
    """Return the index of the sharpest of the last frames, the later one of equals.

    Sharpness is the variance of the four-neighbour Laplacian of luma.
    last  how many frames from the end are looked at; all, if there are fewer
    Raises BadRequest if last is below 1 or a frame is smaller than 3x3
    """
    check_frames("Frames", frames_frwc)
    if last < 1:
        raise BadRequest(f"last={last} must be 1 or more frames.")
    if min(frames_frwc.shape[1:3]) < 3:
        raise BadRequest(f"Frames of {_size(frames_frwc)} are too small to judge; 3x3 is least.")
    start = max(0, len(frames_frwc) - last)
    scores = [_laplacian_variance(frame_rwc) for frame_rwc in frames_frwc[start:]]
    return start + max(range(len(scores)), key=lambda i: (scores[i], i))


def _mixed(before_rwc: Float, after_rwc: Float, share: float) -> Float:
    if share in (0.0, 1.0):
        return after_rwc if share else before_rwc
    light_rwc = srgb_to_linear(before_rwc) * (1 - share) + srgb_to_linear(after_rwc) * share
    return linear_to_srgb(light_rwc)


def _laplacian_variance(frame_rwc: Float) -> float:
    luma_rw = frame_rwc @ LUMA_C
    around_rw = luma_rw[:-2, 1:-1] + luma_rw[2:, 1:-1] + luma_rw[1:-1, :-2] + luma_rw[1:-1, 2:]
    return float((around_rw - 4 * luma_rw[1:-1, 1:-1]).var(dtype=np.float64))


def _size(frames_frwc: Float) -> str:
    return f"{frames_frwc.shape[2]}x{frames_frwc.shape[1]}"
