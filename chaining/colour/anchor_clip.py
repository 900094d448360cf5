"""anchor_clip: one map for a whole clip, from its Oklab statistics to those of clip 0.

It compares different content, so it first asks whether the content is alike.
"""

# f frames  r rows  w columns  c channels  n sampled pixels  g cells of the chroma histogram
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaining.colour.checks import check_finite, check_frames, check_share
from chaining.colour.maps import IDENTITY, MAX_GAIN, MIN_GAIN, ColourMap
from chaining.colour.oklab import srgb_to_oklab

Float = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

MIN_LIKENESS = 0.8
STRENGTH = 0.5
FLAT = 0.004  # standard deviation below which a channel is only shifted
SAMPLES = 200_000  # pixels read from a clip, spread evenly over it
BIN = 0.025  # width of a chroma cell, in Oklab units
BINS = 32  # cells along a and along b: -0.4 to 0.4


@dataclass(frozen=True, slots=True)
class AnchorFit:
    """One map for a clip, and why.

    map       takes the clip part of the way to the anchor
    likeness  intersection of the two chroma histograms, 0..1
    reason    one sentence for the report
    """

    map: ColourMap
    likeness: float
    reason: str

    def apply(self, frames_frwc: Float) -> Float:
        """Return the frames with their colours mapped; see ColourMap.apply."""
        return self.map.apply(frames_frwc)


def fit_anchor_clip(
    reference_frwc: Float,
    frames_frwc: Float,
    *,
    spread: bool = True,
    strength: float = STRENGTH,
) -> AnchorFit:
    """Match the mean, and with spread the deviation, of each Oklab channel to the reference clip.

    reference_frwc, frames_frwc  float32 sRGB 0..1; sizes and lengths may differ
    strength  how far to go, 0..1
    Clips with a chroma likeness of 0.8 or less are left alone.
    Raises BadRequest for another shape or dtype, NaN or infinite values, strength outside 0..1
    """
    check_share("strength", strength)
    reference_nc, own_nc = _sample(reference_frwc), _sample(frames_frwc)
    likeness = float(np.minimum(_histogram(reference_nc), _histogram(own_nc)).sum())
    if likeness <= MIN_LIKENESS:
        reason = (
            f"Not corrected: the content differs (chroma likeness {likeness:.2f},"
            f" needed more than {MIN_LIKENESS})."
        )
        return AnchorFit(IDENTITY, likeness, reason)
    own_c = own_nc.std(axis=0)
    ratio_c = reference_nc.std(axis=0) / np.maximum(own_c, FLAT)
    scale_c = np.where(spread & (own_c > FLAT), np.clip(ratio_c, MIN_GAIN, MAX_GAIN), 1.0)
    offset_c = reference_nc.mean(axis=0) - scale_c * own_nc.mean(axis=0)
    whole = ColourMap(
        scale=(float(scale_c[0]), float(scale_c[1]), float(scale_c[2])),
        offset=(float(offset_c[0]), float(offset_c[1]), float(offset_c[2])),
    )
    reason = f"Matched to the anchor at strength {strength} (chroma likeness {likeness:.2f})."
    return AnchorFit(whole.at_strength(strength), likeness, reason)


def _sample(frames_frwc: Float) -> Values:
    check_frames("Frames", frames_frwc)
    check_finite("Frames", frames_frwc)
    pixels_nc = frames_frwc.reshape(-1, 3)
    step = max(1, len(pixels_nc) // SAMPLES) | 1  # odd, or an even width would lose columns
    return srgb_to_oklab(pixels_nc[::step].astype(np.float64))


def _histogram(lab_nc: Values) -> Values:
    """Return the chroma histogram, summing to 1; each pixel is shared by its four nearest cells.

    Without that sharing a tint of 0.002 moves all pixels that sit at a cell's border.
    """
    place_nc = np.clip(lab_nc[:, 1:] / BIN + BINS / 2, 0, BINS - 1.001)
    low_nc = np.floor(place_nc).astype(np.int64)
    part_nc = place_nc - low_nc
    counts_g = np.zeros(BINS * BINS)
    for up in (0, 1):
        for right in (0, 1):
            weight_n = np.abs(1 - up - part_nc[:, 0]) * np.abs(1 - right - part_nc[:, 1])
            cell_n = (low_nc[:, 0] + up) * BINS + low_nc[:, 1] + right
            counts_g += np.bincount(cell_n, weight_n, minlength=BINS * BINS)
    shares_g: Values = counts_g / len(lab_nc)
    return shares_g
