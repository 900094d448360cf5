"""How much a new clip's beginning stands out from the end of the clip before; for choosing seeds.

It looks at two pairs of frames only; the drift meter judges the seams of the whole video.
"""

# f frames  r rows  w columns  c channels
import numpy as np
import numpy.typing as npt

from chaining.colour.oklab import srgb_to_oklab

Float = npt.NDArray[np.float32]

FLOOR = 0.003  # dE between frames of a still picture that nobody sees


def seam_score(before_frwc: Float, after_frwc: Float) -> float:
    """Return the change over the seam, in units of the usual change beside it; 1 is seamless.

    before, after  shown frames on both sides, one at least on each
    """
    usual = [
        _distance(frames_frwc[at], frames_frwc[at + 1])
        for frames_frwc, at in ((before_frwc, -2), (after_frwc, 0))
        if len(frames_frwc) > 1
    ]
    return _distance(before_frwc[-1], after_frwc[0]) / max(FLOOR, *usual, 0.0)


def _distance(one_rwc: Float, two_rwc: Float) -> float:
    difference_rwc = srgb_to_oklab(one_rwc) - srgb_to_oklab(two_rwc)
    return float(np.sqrt((difference_rwc.astype(np.float64) ** 2).sum(axis=-1).mean()))
