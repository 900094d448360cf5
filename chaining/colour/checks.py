"""What frames and shares must be before any colour is touched; each check raises one sentence."""

# f frames  r rows  w columns  c channels
from typing import Any

import numpy as np
import numpy.typing as npt

from vidgen.errors import BadRequest


def check_frames(name: str, frames_frwc: npt.NDArray[np.float32]) -> None:
    """Raise BadRequest unless frames_frwc is a non-empty float32 array of RGB frames."""
    if frames_frwc.ndim != 4 or frames_frwc.shape[-1] != 3 or frames_frwc.size == 0:
        raise BadRequest(
            f"{name} have the shape {frames_frwc.shape};"
            " give at least one frame as (frames, rows, columns, 3)."
        )
    if frames_frwc.dtype != np.float32:
        raise BadRequest(
            f"{name} are {frames_frwc.dtype}, not float32; divide 8-bit values by 255."
        )


def check_finite(name: str, values: npt.NDArray[Any]) -> None:
    """Raise BadRequest if any value is NaN or infinite."""
    bad = values.size - int(np.count_nonzero(np.isfinite(values)))
    if bad:
        raise BadRequest(
            f"{name} hold {bad} values that are NaN or infinite;"
            " no colour can be read from them, so make the clip again."
        )


def check_share(name: str, value: float) -> None:
    """Raise BadRequest unless value lies in 0..1."""
    if not 0 <= value <= 1:
        raise BadRequest(f"{name}={value} must lie between 0 and 1.")
