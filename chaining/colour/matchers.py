"""MATCHERS: ways to match colours that other tools use, under one protocol, for comparison.

All but anchor_clip compare each frame with one reference frame, whatever it shows; that is why
none of them is a default. pair_affine.py is not one of them: it needs twins.
"""

# f frames  r rows  w columns  c channels  n pixels  k levels of a histogram
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from chaining.colour.anchor_clip import fit_anchor_clip
from chaining.colour.checks import check_finite, check_frames
from chaining.colour.cielab import lab_to_srgb, srgb_to_lab
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

LEVELS = 1024  # of a histogram
SCALES = 5  # doublings of the low-pass kernel, 3 to 63 pixels across in all
TINY = 1e-6


class Matched(Protocol):
    """What a matcher found; apply it to the frames it was fitted on, or to more of that clip."""

    def apply(self, frames_frwc: Float) -> Float:
        """Return float32 sRGB frames, 0..1, of the same shape."""
        ...


Matcher = Callable[[Float, Float], Matched]


@dataclass(frozen=True, slots=True)
class PerFrame:
    """A recolouring that looks at each frame on its own beside one reference frame."""

    reference_rwc: Float
    recolour: Callable[[Float, Float], Float]

    def apply(self, frames_frwc: Float) -> Float:
        """Return the frames, each matched to the reference frame and clipped to 0..1.

        Raises BadRequest for another shape or dtype, NaN or infinite values
        """
        check_frames("Frames", frames_frwc)
        check_finite("Frames", frames_frwc)
        return np.stack(
            [
                np.clip(self.recolour(self.reference_rwc, frame_rwc), 0, 1).astype(np.float32)
                for frame_rwc in frames_frwc
            ]
        )


def match(name: str, reference_frwc: Float, frames_frwc: Float) -> Matched:
    """Fit the matcher of that name.

    reference_frwc  float32 sRGB 0..1: clip 0, or the corrected clip before for *_previous
    frames_frwc     the clip to be matched
    Raises BadRequest for an unknown name and for frames that cannot be read
    """
    if name not in MATCHERS:
        raise BadRequest(f"Colour matcher {name!r} is unknown; use one of {', '.join(MATCHERS)}.")
    return MATCHERS[name](reference_frwc, frames_frwc)


def reinhard_lab(reference_rwc: Float, frame_rwc: Float) -> Float:
    """Give the frame the mean and deviation of the reference in each CIELAB channel.

    Source  Reinhard et al. 2001, in CIELAB instead of their l-alpha-beta
    """
    reference_nc = srgb_to_lab(reference_rwc).reshape(-1, 3).astype(np.float64)
    lab_rwc = srgb_to_lab(frame_rwc)
    own_nc = lab_rwc.reshape(-1, 3).astype(np.float64)
    ratio_c = reference_nc.std(axis=0) / np.maximum(own_nc.std(axis=0), TINY)
    matched_rwc = (lab_rwc - own_nc.mean(axis=0)) * ratio_c + reference_nc.mean(axis=0)
    return lab_to_srgb(matched_rwc)


def mkl(reference_rwc: Float, frame_rwc: Float) -> Float:
    """Give the frame the mean and covariance of the reference in RGB by the least displacement.

    Source  linear Monge-Kantorovitch map, Pitie and Kokaram 2007
    """
    reference_nc = reference_rwc.reshape(-1, 3).astype(np.float64)
    own_nc = frame_rwc.reshape(-1, 3).astype(np.float64)
    own_covariance = np.cov(own_nc, rowvar=False) + TINY**2 * np.eye(3)
    root = _root(own_covariance)
    back = np.linalg.inv(root)
    transport = back @ _root(root @ np.cov(reference_nc, rowvar=False) @ root) @ back
    matched_nc = (own_nc - own_nc.mean(axis=0)) @ transport + reference_nc.mean(axis=0)
    matched_rwc: Float = matched_nc.reshape(frame_rwc.shape).astype(np.float32)
    return matched_rwc


def histogram(reference_rwc: Float, frame_rwc: Float) -> Float:
    """Give each RGB channel of the frame the distribution of the reference's."""
    matched = np.empty_like(frame_rwc)
    middles_k = (np.arange(LEVELS) + 0.5) / LEVELS
    for channel in range(3):
        own_k, reference_k = (
            np.histogram(rwc[..., channel], bins=LEVELS, range=(0, 1))[0] / rwc[..., channel].size
            for rwc in (frame_rwc, reference_rwc)
        )
        # Half of a level's own share: the middle of a step, so that alike pictures stay alike.
        rank_k = np.cumsum(own_k) - own_k / 2
        reference_rank_k = np.cumsum(reference_k) - reference_k / 2
        seen_k = reference_k > 0
        target_k = np.interp(rank_k, reference_rank_k[seen_k], middles_k[seen_k])
        matched[..., channel] = np.interp(frame_rwc[..., channel], middles_k, target_k)
    return matched


def lowfreq(reference_rwc: Float, frame_rwc: Float) -> Float:
    """Replace the frame's low frequencies by the reference's; both must be of one size.

    Source  the colour fix by a trous wavelets of StableSR, five levels
    Raises BadRequest for unlike sizes
    """
    if reference_rwc.shape != frame_rwc.shape:
        raise BadRequest(
            f"lowfreq cannot match a frame of {frame_rwc.shape[1]}x{frame_rwc.shape[0]} to one of"
            f" {reference_rwc.shape[1]}x{reference_rwc.shape[0]}; use mkl or reinhard_lab."
        )
    return frame_rwc + _low(reference_rwc - frame_rwc)


def _to_frame(index: int, recolour: Callable[[Float, Float], Float]) -> Matcher:
    """Make a matcher that takes the reference run's frame of that index as its reference."""

    def fit(reference_frwc: Float, frames_frwc: Float) -> Matched:
        check_frames("Reference frames", reference_frwc)
        check_finite("Reference frames", reference_frwc)
        check_frames("Frames", frames_frwc)
        return PerFrame(reference_frwc[index], recolour)

    return fit


MATCHERS: dict[str, Matcher] = {
    "anchor_clip": fit_anchor_clip,
    "reinhard_lab": _to_frame(0, reinhard_lab),
    "reinhard_lab_previous": _to_frame(-1, reinhard_lab),
    "mkl": _to_frame(0, mkl),
    "histogram": _to_frame(0, histogram),
    "lowfreq": _to_frame(0, lowfreq),
}


def _root(symmetric: Values) -> Values:
    values, vectors = np.linalg.eigh(symmetric)
    root: Values = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root


def _low(rwc: Float) -> Float:
    """Smooth with the kernel 1 2 1 five times, its taps 1, 2, 4, 8 and 16 pixels apart."""
    for axis in (0, 1):
        length = rwc.shape[axis]
        for level in range(SCALES):
            index = np.arange(length)
            before = np.maximum(index - 2**level, 0)
            after = np.minimum(index + 2**level, length - 1)
            rwc = (rwc.take(before, axis) + 2 * rwc + rwc.take(after, axis)) / 4
    return rwc
