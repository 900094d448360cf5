"""ColourMap: what is done to a clip's colours so that they look like clip 0 again.

It does not find the map: pair_affine.py does.
"""

# f frames  r rows  w columns  c channels
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chaining.colour.checks import check_frames, check_share
from chaining.colour.oklab import affine_in_oklab
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]
Triple = tuple[float, float, float]

MIN_GAIN, MAX_GAIN = 0.85, 1.18  # of a map that is fitted to two clips
MAX_STANDARD_ERROR = 0.02  # Oklab distance; beyond it a chain's map is too uncertain to be used on


@dataclass(frozen=True, slots=True)
class ColourMap:
    """A per-channel affine in Oklab: each of L, a, b becomes scale * value + offset.

    scale           three factors, finite and above 0
    offset          three shifts, in Oklab units
    standard_error  uncertainty of a mapped colour as an Oklab distance, at least 0
    Raises BadRequest for values out of these bounds
    """

    scale: Triple = (1.0, 1.0, 1.0)
    offset: Triple = (0.0, 0.0, 0.0)
    standard_error: float = 0.0

    def __post_init__(self) -> None:
        for name, values in (("scale", self.scale), ("offset", self.offset)):
            if len(values) != 3 or not all(math.isfinite(value) for value in values):
                raise BadRequest(f"{name}={values} of a colour map must be 3 finite numbers.")
        if min(self.scale) <= 0:
            raise BadRequest(f"scale={self.scale} of a colour map must be above 0 in each channel.")
        if not (math.isfinite(self.standard_error) and self.standard_error >= 0):
            raise BadRequest(
                f"standard_error={self.standard_error} of a colour map must be 0 or more."
            )

    @property
    def is_identity(self) -> bool:
        """True if the map changes no colour, however uncertain that is."""
        return self.scale == (1.0, 1.0, 1.0) and self.offset == (0.0, 0.0, 0.0)

    @property
    def needs_anchor(self) -> bool:
        """True once the accumulated standard error passes 0.02: time for a fresh anchor frame."""
        return self.standard_error > MAX_STANDARD_ERROR

    def compose(self, first: "ColourMap") -> "ColourMap":
        """Return the map that does `first`, then this one: T_k = T_{k-1}.compose(P_k).

        Independent errors make a random walk, so their squares add up; scales are so near to 1
        that they are left out of that sum, which keeps composing associative.
        """
        return ColourMap(
            scale=_triple(s * t for s, t in zip(self.scale, first.scale, strict=True)),
            offset=_triple(
                s * p + o for s, p, o in zip(self.scale, first.offset, self.offset, strict=True)
            ),
            standard_error=math.hypot(self.standard_error, first.standard_error),
        )

    def at_strength(self, strength: float) -> "ColourMap":
        """Return the map that goes part of the way: 0 changes nothing, 1 is this map.

        Raises BadRequest outside 0..1
        """
        check_share("strength", strength)
        return ColourMap(
            scale=_triple(1 + strength * (s - 1) for s in self.scale),
            offset=_triple(strength * o for o in self.offset),
            standard_error=strength * self.standard_error,
        )

    def apply(self, frames_frwc: Float) -> Float:
        """Return the frames with their colours mapped and clipped to 0..1.

        frames_frwc  float32 sRGB, 0..1
        An identity returns the array it was given, untouched and not copied.
        Raises BadRequest for another shape or dtype
        """
        check_frames("frames", frames_frwc)
        if self.is_identity:
            return frames_frwc
        return affine_in_oklab(frames_frwc, np.array(self.scale), np.array(self.offset))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data that from_dict turns back into an equal map, to the last bit."""
        return {
            "scale": list(self.scale),
            "offset": list(self.offset),
            "standard_error": self.standard_error,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ColourMap":
        """Read what as_dict wrote.

        Raises BadRequest for missing or unknown keys, and for values that are not numbers in bounds
        """
        expected = {"scale", "offset", "standard_error"}
        if set(data) != expected:
            raise BadRequest(
                f"A colour map has the keys {sorted(expected)}, not {sorted(map(str, data))}."
            )
        try:
            return cls(
                scale=_triple(float(s) for s in data["scale"]),
                offset=_triple(float(o) for o in data["offset"]),
                standard_error=float(data["standard_error"]),
            )
        except (TypeError, ValueError) as error:
            raise BadRequest(f"A colour map cannot be read from {dict(data)}: {error}") from error


IDENTITY = ColourMap()


def _triple(values: Any) -> Triple:
    first, second, third = values
    return first, second, third
