"""Drift held down where it starts, in latents: statistics pulled to clip 0, noise on the history.

Nothing here decodes; the arrays are the final latents of a clip.
"""

# c channels  t latent frames  r rows  w columns
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from chaining.colour.checks import check_finite, check_share
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

THRESHOLD = 0.15
STRENGTH = 0.1
CONSTANT = 1e-6  # a deviation that rounding alone gives to a channel of one value


@dataclass(frozen=True, slots=True)
class LatentStatistics:
    """Mean and standard deviation of each channel over a clip, float64."""

    mean_c: Values
    deviation_c: Values

    @classmethod
    def of(cls, latents_ctrw: Float) -> "LatentStatistics":
        """Measure the latents of a clip.

        Raises BadRequest for another number of axes or dtype, no values, NaN or infinite values
        """
        if latents_ctrw.ndim != 4 or latents_ctrw.size == 0:
            raise BadRequest(
                f"Latents have the shape {latents_ctrw.shape};"
                " give (channels, frames, rows, columns), none of them 0."
            )
        if latents_ctrw.dtype != np.float32:
            raise BadRequest(f"Latents are {latents_ctrw.dtype}; convert them to float32.")
        check_finite("Latents", latents_ctrw)
        axes = (1, 2, 3)
        return cls(
            mean_c=latents_ctrw.mean(axis=axes, dtype=np.float64),
            deviation_c=latents_ctrw.std(axis=axes, dtype=np.float64),
        )


@dataclass(frozen=True, slots=True)
class LatentShift:
    """How far a clip's statistics are from clip 0's: root mean squares over the channels.

    mean      change of the mean, in standard deviations of clip 0
    variance  natural logarithm of the ratio of variances
    """

    mean: float
    variance: float


def pull_to(latents_ctrw: Float, anchor: LatentStatistics, factor: float) -> Float:
    """Return the latents with each channel's mean and deviation moved towards the anchor's.

    latents_ctrw  float32
    factor        0 returns the latents bit for bit; 1 gives them the anchor's mean and deviation
    A channel without variance is shifted only.
    Raises BadRequest for a factor outside 0..1, unlike channels, NaN or infinite values
    """
    check_share("factor", factor)
    own = _comparable(latents_ctrw, anchor)
    if factor == 0:
        return latents_ctrw
    varies_c = own.deviation_c > CONSTANT
    ratio_c = np.where(varies_c, anchor.deviation_c, 1) / np.where(varies_c, own.deviation_c, 1)
    scale_c = 1 + factor * (ratio_c - 1)
    # (1 - f) x + f (ratio (x - mean) + anchor mean), gathered into one scale and one shift
    shift_c = factor * (anchor.mean_c - ratio_c * own.mean_c)
    scale_ctrw, shift_ctrw = (v.reshape(-1, 1, 1, 1).astype(np.float32) for v in (scale_c, shift_c))
    return latents_ctrw * scale_ctrw + shift_ctrw


def shift_from(latents_ctrw: Float, anchor: LatentStatistics) -> LatentShift:
    """Measure how far the clip has moved from the anchor, which is clip 0 and never follows it.

    Raises BadRequest for unlike channels, a constant channel on either side, NaN or infinite values
    """
    own = _comparable(latents_ctrw, anchor)
    flat_c = np.minimum(own.deviation_c, anchor.deviation_c) <= CONSTANT
    if flat_c.any():
        raise BadRequest(
            f"Latent channel {int(flat_c.argmax())} is constant, so its drift has no scale;"
            " the clip or its anchor is empty."
        )
    z_c = (own.mean_c - anchor.mean_c) / anchor.deviation_c
    log_c = 2 * np.log(own.deviation_c / anchor.deviation_c)
    return LatentShift(mean=_rms(z_c), variance=_rms(log_c))


def history_noise(
    latents_ctrw: Float,
    anchor: LatentStatistics,
    *,
    threshold: float = THRESHOLD,
    strength: float = STRENGTH,
) -> float:
    """Return how much noise the next clip's history should get: strength once drift shows, else 0.

    threshold  either shift beyond it, of the mean or of the variance, is enough; above 0
    strength   share of noise, 0..1
    Raises BadRequest as shift_from does, and for values out of these bounds
    """
    check_share("strength", strength)
    if not threshold > 0:
        raise BadRequest(f"threshold={threshold} of the history noise must be above 0.")
    shift = shift_from(latents_ctrw, anchor)
    return strength if max(shift.mean, shift.variance) > threshold else 0.0


def _comparable(latents_ctrw: Float, anchor: LatentStatistics) -> LatentStatistics:
    own = LatentStatistics.of(latents_ctrw)
    if own.mean_c.shape != anchor.mean_c.shape:
        raise BadRequest(
            f"Latents have {own.mean_c.size} channels and their anchor {anchor.mean_c.size};"
            " both must come from one model."
        )
    return own


def _rms(values_c: Values) -> float:
    return float(np.sqrt((values_c**2).mean()))
