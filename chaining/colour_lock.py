"""The colour lock: which correction a new clip gets, and where it is applied."""

# f frames  r rows  w columns  c channels
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from chaining.colour.anchor_clip import fit_anchor_clip
from chaining.colour.maps import IDENTITY, ColourMap
from chaining.colour.pair_affine import fit_pair
from chaining.controls import Controls
from chaining.recolour import Correction, Matching, Recolour

Float = npt.NDArray[np.float32]


def correct(
    controls: Controls,
    frames_frwc: Float,
    twins_frwc: Float | None,
    before: Correction | None,
    *,
    corrected: bool,
    anchor: Callable[[], Float] | None,
    previous: Callable[[], Float],
) -> Correction:
    """Return the correction of a clip.

    frames     as the model made them
    twins      frames that its first ones render again, as they were handed over; None at a start
    before     correction of the clip that they come from
    corrected  they were handed over with their colours corrected
    anchor     reads the segment's first clip as shown, None for that clip; previous: the one before
    """
    lock = controls.colour_lock
    if lock == "off":
        return _identity(lock, "The colour lock is off.")
    if lock == "pair_affine":
        if twins_frwc is None:
            return _identity(lock, "No frame exists twice: the segment's colours start here.")
        found = _by_twins(frames_frwc, twins_frwc, before, corrected=corrected)
    elif anchor is None:
        return _identity(lock, "The segment's colours start here.")
    elif lock == "anchor_clip":
        fit = fit_anchor_clip(anchor(), frames_frwc)
        found = _everywhere(lock, fit.map, fit.reason)
    else:
        reference = previous()[-1] if lock.endswith("_previous") else anchor()[0]
        found = _everywhere(lock, Matching(lock, reference), "Each frame was matched to one frame.")
    return _where(found, controls)


def _by_twins(
    frames_frwc: Float, twins_frwc: Float, before: Correction | None, *, corrected: bool
) -> Correction:
    """Fit the twins; frames that were handed over uncorrected have the last correction to come."""
    fit = fit_pair(twins_frwc, frames_frwc[: len(twins_frwc)])
    last = IDENTITY if before is None else before.map
    if corrected:
        error = math.hypot(last.standard_error, fit.map.standard_error)
        whole = replace(fit.map, standard_error=error)
    else:
        whole = last.compose(fit.map)
    return replace(_everywhere("pair_affine", whole, fit.reason), used=fit.used, r2=fit.r2)


def _identity(lock: str, reason: str) -> Correction:
    return Correction(lock, IDENTITY, IDENTITY, IDENTITY, reason)


def _everywhere(lock: str, whole: Recolour, reason: str) -> Correction:
    used = "identity" if isinstance(whole, ColourMap) and whole.is_identity else lock
    return Correction(lock, whole, whole, whole, reason, used)


def _where(found: Correction, controls: Controls) -> Correction:
    """Leave the colours alone where the control does not apply."""
    if controls.colour_lock_at == "output":
        return replace(found, handed=IDENTITY)
    if controls.colour_lock_at == "handover":
        return replace(found, shown=IDENTITY)
    return found
