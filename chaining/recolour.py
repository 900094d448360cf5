"""Recolour: what is done to the colours of one take, as data that a file can hold."""

# f frames  r rows  w columns  c channels
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chaining.colour.maps import IDENTITY, ColourMap
from chaining.colour.matchers import match

Float = npt.NDArray[np.float32]


class Recolour(Protocol):
    """A change of colours."""

    def apply(self, frames_frwc: Float) -> Float:
        """Return float32 sRGB frames in 0..1 of the same shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Each frame matched to one reference frame by a matcher of that name."""

    name: str
    reference_rwc: Float

    def apply(self, frames_frwc: Float) -> Float:
        """Return the frames, matched."""
        return match(self.name, self.reference_rwc[None], frames_frwc).apply(frames_frwc)


@dataclass(frozen=True, slots=True)
class Correction:
    """What is done to a take's colours where it is shown and where it is handed over, and why.

    whole   the correction; shown and handed are it or the identity
    r2      share of the twins' variance that the map explains; None where nothing was compared
    reason  one sentence
    """

    control: str
    whole: Recolour
    shown: Recolour
    handed: Recolour
    reason: str
    used: str = "identity"
    r2: float | None = None

    @property
    def map(self) -> ColourMap:
        """The map, where the correction is one."""
        return self.whole if isinstance(self.whole, ColourMap) else IDENTITY

    @property
    def needs_anchor(self) -> bool:
        """The map has become too uncertain to be trusted further."""
        return self.map.needs_anchor

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data; a reference frame is kept elsewhere, see `reference`."""
        how: dict[str, Any] = (
            {"matcher": self.whole.name}
            if isinstance(self.whole, Matching)
            else {"map": self.map.as_dict()}
        )
        return {
            "control": self.control,
            **how,
            "shown": self.shown is self.whole,
            "handed": self.handed is self.whole,
            "used": self.used,
            "r2": self.r2,
            "reason": self.reason,
        }

    @property
    def reference(self) -> Float | None:
        """The frame that a matcher compares with."""
        return self.whole.reference_rwc if isinstance(self.whole, Matching) else None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], reference_rwc: Float | None) -> "Correction":
        """Read what as_dict gave."""
        whole: Recolour
        if reference_rwc is not None:
            whole = Matching(data["matcher"], reference_rwc)
        else:
            whole = ColourMap.from_dict(data["map"])
        return cls(
            control=data["control"],
            whole=whole,
            shown=whole if data["shown"] else IDENTITY,
            handed=whole if data["handed"] else IDENTITY,
            reason=data["reason"],
            used=data["used"],
            r2=data["r2"],
        )
