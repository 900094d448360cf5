"""fit_pair: the colour map that takes a clip's re-rendering of given frames back to those frames.

Different content is never compared: the frames exist twice. A fit that cannot be trusted becomes
the identity, and the result says so in words.
"""

# n cells  c channels L, a, b  k tiles, one of them left out
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from chaining.colour.maps import IDENTITY, MAX_GAIN, MIN_GAIN, ColourMap
from chaining.colour.twins import TILES, Twins, compare

Float = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

ROUNDS = 3
MAX_OFFSET = 0.05
MIN_R2 = 0.9
MAX_MOTION = 0.01  # of the width; one moving twin alone cannot tell contrast from displacement
MIN_SHARE = 0.05  # of the cells, neither black nor blown out
MIN_TILES = 4  # of 16 with such a cell; fewer say nothing about how far the fit scatters
MIN_AGREEING = 0.5  # mean weight of the cells in use
FLAT = 0.004  # standard deviation below which a channel says nothing about its gain (1/255)
TUKEY = 4.685  # bisquare constant: 95 % efficient under normal noise
MIN_CHANGE = 0.0003  # dE; the meter's tightest limit is three times that
MIN_SIGMAS = 3.0


@dataclass(frozen=True, slots=True)
class Fit:
    """What became of a pair of twins.

    map     takes the colours of the re-rendering to those of the given frames
    r2      share of the twins' variance that an affine map explains, at most 1
    motion  displacement between the twins, as a share of the width
    used    affine: all three channels; gain: a gain of L alone; identity: no correction
    reason  one sentence for the report
    """

    map: ColourMap
    r2: float
    motion: float
    used: Literal["affine", "gain", "identity"]
    reason: str

    def apply(self, frames_frwc: Float) -> Float:
        """Return the frames with their colours mapped; see ColourMap.apply."""
        return self.map.apply(frames_frwc)


@dataclass(frozen=True, slots=True)
class _Affine:
    """One candidate: rendered -> given, with the weights that it ended with."""

    scale_c: Values
    offset_c: Values
    weight_nc: Values

    def errors(self, twins: Twins) -> Values:
        return twins.rendered_nc * self.scale_c + self.offset_c - twins.given_nc


def fit_pair(twins_given_frwc: Float, twins_rerendered_frwc: Float) -> Fit:
    """Fit a per-channel affine in Oklab on frames that exist twice.

    twins_given_frwc       frames handed to the clip, float32 sRGB 0..1
    twins_rerendered_frwc  the same frames as the clip rendered them, of the same shape
    Per channel the weighted means and spreads of the twins are made equal (reduced major axis): a
    least-squares slope would sink wherever the twins are a pixel apart. Tukey weights, 3 rounds.
    Gain stays in 0.85..1.18, offset in -0.05..0.05. The map's standard error is that of a cell it
    predicts: its own scatter and what it leaves over on the twins, such as a curve or a held gain.
    The map leads to the colours of the given frames. Compose it with the map of the clip before
    only if those frames were handed over uncorrected.
    Raises BadRequest for unlike shapes, another dtype, NaN or infinite values
    """
    twins = compare(twins_given_frwc, twins_rerendered_frwc)
    if twins.share < MIN_SHARE or len(np.unique(twins.tile_n)) < MIN_TILES:
        return Fit(IDENTITY, 0.0, twins.motion, "identity", _too_clipped(twins))
    affine = _fit(twins, gain_only=False)
    r2 = _r2(twins, affine)
    agreeing = float(affine.weight_nc.mean(axis=0).min())
    if r2 < MIN_R2 or agreeing < MIN_AGREEING:
        reason = (
            f"Not corrected: the twins differ by more than colour (R2 {r2:.2f}, needed {MIN_R2};"
            f" {agreeing:.0%} of the picture agrees, needed {MIN_AGREEING:.0%})."
        )
        return Fit(IDENTITY, r2, twins.motion, "identity", reason)
    if twins.num_frames < 2 and twins.motion > MAX_MOTION:
        gain = _fit(twins, gain_only=True)
        return _checked(twins, gain, r2, "gain")
    return _checked(twins, affine, r2, "affine")


def _checked(twins: Twins, found: _Affine, r2: float, used: Literal["affine", "gain"]) -> Fit:
    """Clamp the candidate, and keep it only if it is significant and helps the twins."""
    clamped = _clamp(twins, found)
    standard_error = _standard_error(twins, found, gain_only=used == "gain")
    before = _mean_distance(twins.rendered_nc - twins.given_nc)
    after = _mean_distance(clamped.errors(twins))
    reason = _objection(twins, clamped, standard_error, before, after)
    if reason:
        return Fit(IDENTITY, r2, twins.motion, "identity", reason)
    return Fit(
        map=ColourMap(
            scale=_floats(clamped.scale_c),
            offset=_floats(clamped.offset_c),
            standard_error=math.hypot(standard_error, _left_over(twins, clamped)),
        ),
        r2=r2,
        motion=twins.motion,
        used=used,
        reason=_explain(twins, found, clamped, used, before, after),
    )


def _objection(
    twins: Twins, candidate: _Affine, standard_error: float, before: float, after: float
) -> str:
    """Say why the candidate must not be used, or return an empty string."""
    change = _rms_distance(twins, candidate.scale_c - 1, candidate.offset_c)
    if change < MIN_CHANGE:
        return f"Not corrected: the twins are alike (dE {change:.5f}, below {MIN_CHANGE})."
    if change < MIN_SIGMAS * standard_error:
        return (
            f"Not corrected: a change of dE {change:.4f} is not told apart from the fit's own"
            f" standard error, {standard_error:.4f}."
        )
    if after >= before:
        return (
            "Not corrected: the fit would not bring the twins nearer"
            f" (dE {before:.4f} before, {after:.4f} after)."
        )
    return ""


def _fit(twins: Twins, *, gain_only: bool) -> _Affine:
    """Solve 3 times, each time with weights from the errors before.

    The first weights are those of a plain shift by the median: drift is small, so whatever lies far
    from it has moved, and would bend a fit that began with equal weights.
    """
    shift_nc = twins.rendered_nc - twins.given_nc
    weight_nc = _tukey(shift_nc - np.median(shift_nc, axis=0))
    for _ in range(ROUNDS):
        scale_c, offset_c = _solve(_sums(twins, weight_nc), gain_only)
        affine = _Affine(scale_c, offset_c, weight_nc)
        weight_nc = _tukey(affine.errors(twins))
    return affine


def _sums(twins: Twins, weight_nc: Values) -> Values:
    """Return the sums of w, wx, wy, wxx, wyy and wxy in each channel, as (6, c)."""
    x_nc, y_nc = twins.rendered_nc, twins.given_nc
    terms = (np.ones_like(x_nc), x_nc, y_nc, x_nc * x_nc, y_nc * y_nc, x_nc * y_nc)
    return np.stack([(weight_nc * term_nc).sum(axis=0) for term_nc in terms])


def _solve(sums: Values, gain_only: bool) -> tuple[Values, Values]:
    """Return scale and offset per channel from the six sums.

    A channel that is flat, or whose twins do not agree on what varies, gets an offset only.
    """
    weight_c, x_c, y_c, xx_c, yy_c, xy_c = sums
    x_c, y_c = x_c / weight_c, y_c / weight_c
    if gain_only:
        return np.array([y_c[0] / x_c[0], 1.0, 1.0]), np.zeros(3)
    x_variance_c = np.maximum(xx_c / weight_c - x_c**2, 0)
    y_variance_c = np.maximum(yy_c / weight_c - y_c**2, 0)
    covariance_c = xy_c / weight_c - x_c * y_c
    varies_c = np.minimum(x_variance_c, y_variance_c) > FLAT**2
    agrees_c = covariance_c > np.sqrt(MIN_R2 * x_variance_c * y_variance_c)
    ratio_c = np.sqrt(y_variance_c / np.maximum(x_variance_c, FLAT**2))
    scale_c = np.where(varies_c & agrees_c, ratio_c, 1.0)
    return scale_c, y_c - scale_c * x_c


def _tukey(error_nc: Values) -> Values:
    """Return bisquare weights of each channel, scaled by its median absolute error."""
    sigma_c = np.maximum(1.4826 * np.median(np.abs(error_nc), axis=0), 1e-6)
    return np.clip(1 - (error_nc / (TUKEY * sigma_c)) ** 2, 0, None) ** 2


def _clamp(twins: Twins, affine: _Affine) -> _Affine:
    """Bring gain and offset into bounds; a clamped gain gets the offset that suits it."""
    scale_c = np.clip(affine.scale_c, MIN_GAIN, MAX_GAIN)
    weight_c = affine.weight_nc.sum(axis=0)
    x_c = (affine.weight_nc * twins.rendered_nc).sum(axis=0) / weight_c
    offset_c = affine.offset_c + (affine.scale_c - scale_c) * x_c
    return _Affine(scale_c, np.clip(offset_c, -MAX_OFFSET, MAX_OFFSET), affine.weight_nc)


def _r2(twins: Twins, affine: _Affine) -> float:
    """Return the weighted share of variance explained over all channels.

    A flat channel counts with the variance of the flatness limit: a flat picture is explained if
    what is left is flat too.
    """
    weight_nc = affine.weight_nc / affine.weight_nc.sum(axis=0)
    mean_c = (weight_nc * twins.given_nc).sum(axis=0)
    total_c = (weight_nc * (twins.given_nc - mean_c) ** 2).sum(axis=0)
    return 1 - _left_over(twins, affine) ** 2 / float(np.maximum(total_c, FLAT**2).sum())


def _left_over(twins: Twins, affine: _Affine) -> float:
    """Return the weighted root-mean-square Oklab distance of the twins once mapped."""
    squares_nc = affine.weight_nc * affine.errors(twins) ** 2
    return float(np.sqrt((squares_nc.sum(axis=0) / affine.weight_nc.sum(axis=0)).sum()))


def _standard_error(twins: Twins, affine: _Affine, *, gain_only: bool) -> float:
    """Return the jackknife error of a mapped colour, leaving out one tile of the picture at a time.

    Cells of a tile share their content and their errors, so tiles, not cells, are the sample.
    """
    whole = _sums(twins, affine.weight_nc)
    left_out = []
    for tile in range(TILES**2):
        inside_n = twins.tile_n == tile
        weight_nc = affine.weight_nc * inside_n[:, None]
        rest = whole - _sums(twins, weight_nc)
        if inside_n.any() and rest[0].min() > 1e-9 * whole[0].min():
            left_out.append(_solve(rest, gain_only))
    scale_kc = np.array([scale_c for scale_c, _ in left_out])
    offset_kc = np.array([offset_c for _, offset_c in left_out])
    squares = [
        _rms_distance(twins, scale_c, offset_c) ** 2
        for scale_c, offset_c in zip(
            scale_kc - scale_kc.mean(axis=0), offset_kc - offset_kc.mean(axis=0), strict=True
        )
    ]
    return float(np.sqrt((len(squares) - 1) / len(squares) * sum(squares)))


def _rms_distance(twins: Twins, scale_c: Values, offset_c: Values) -> float:
    """Return the root-mean-square Oklab length of scale * x + offset over the rendered cells."""
    return float(np.sqrt(((twins.rendered_nc * scale_c + offset_c) ** 2).sum(axis=1).mean()))


def _mean_distance(difference_nc: Values) -> float:
    return float(np.sqrt((difference_nc**2).sum(axis=1)).mean())


def _floats(values_c: Values) -> tuple[float, float, float]:
    return float(values_c[0]), float(values_c[1]), float(values_c[2])


def _too_clipped(twins: Twins) -> str:
    num_tiles = len(np.unique(twins.tile_n))
    return (
        f"Not corrected: only {twins.share:.0%} of the picture, in {num_tiles} of {TILES**2} tiles,"
        f" is neither black nor blown out; needed {MIN_SHARE:.0%} in {MIN_TILES}."
    )


def _explain(
    twins: Twins, found: _Affine, clamped: _Affine, used: str, before: float, after: float
) -> str:
    what = (
        f"Corrected by a gain of L alone, as one twin moved by {twins.motion:.1%} of the width"
        if used == "gain"
        else "Corrected by an affine map of L, a and b"
    )
    text = f"{what}: dE of the twins {before:.4f} before, {after:.4f} after."
    limits = (
        ("gain", found.scale_c, clamped.scale_c),
        ("offset", found.offset_c, clamped.offset_c),
    )
    for name, found_c, clamped_c in limits:
        for channel, value, bound in zip("Lab", found_c, clamped_c, strict=True):
            if name == "gain" and value != bound:
                text += f" The {name} of {channel} was held at {bound:.2f}; {value:.2f} was found."
            if name == "offset" and abs(bound) == MAX_OFFSET:
                text += f" The {name} of {channel} was held at {bound:+.2f}."
    return text
