"""ClipMaker: whatever makes one clip at a time for a chain, and what it is asked for.

A chain knows no model: the engine stands behind this protocol, and so does any test double.
"""

# f frames  r rows  w columns  c channels  t latent frames
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chaining.capabilities import Capability
from chaining.lengths import Lengths
from vidgen.events import Callback, CancelToken

Float = npt.NDArray[np.float32]
EditLatents = Callable[[Float], Float]

ENVIRONMENT = "environment"  # part of an identity that may differ, though bits may with it


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """One clip to be made; pictures are float32 sRGB in 0..1 at the size that is generated.

    image, last_image  it begins and ends with them
    prefix             frames that it begins with; prefix_latents: what they were decoded from
    context            latents before those, decoded with the clip and left out
    renoise            what it begins with is noised anew at each step instead of pinned
    history_noise      noise on what it begins with, 0..0.5
    edit_latents       called with the final latents (c, t, r, w) before they are decoded
    keep               folder where a maker may put what it has done of this clip, to go on from if
                       it is asked the same again; it is emptied once the clip is a take
    """

    prompt: str
    seed: int
    num_frames: int
    image_rwc: Float | None = None
    last_image_rwc: Float | None = None
    prefix_frwc: Float | None = None
    prefix_latents_ctrw: Float | None = None
    context_ctrw: Float | None = None
    renoise: bool = False
    history_noise: float = 0.0
    edit_latents: EditLatents | None = None
    keep: Path | None = None

    @property
    def digest(self) -> str:
        """Hash of all that is asked but what edit_latents does."""
        found = hashlib.sha256()
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("edit_latents", "keep"):
                continue
            found.update(f"{item.name} ".encode())
            if isinstance(value, np.ndarray):
                found.update(f"{value.shape}".encode() + value.tobytes())
            else:
                found.update(repr(value).encode())
        return found.hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """One clip.

    frames   float32 sRGB in 0..1, at the size that was generated
    latents  final ones, where the maker has any
    recipe   everything that made it, JSON-ready
    seconds  wall time
    """

    frames_frwc: Float
    latents_ctrw: Float | None = None
    recipe: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


class ClipMaker(Protocol):
    """Makes clips of one model at one size and rate.

    size      (width, height) of the frames that it makes; export_size: of the file, their centre
    identity  what must be the same when a chain is taken up again, JSON-ready; under ENVIRONMENT,
              if there, what had better be
    """

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What its clips can be conditioned on."""

    @property
    def lengths(self) -> Lengths:
        """Legal clip lengths."""

    @property
    def fps(self) -> Fraction:
        """Frames per second."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a frame."""

    @property
    def export_size(self) -> tuple[int, int]:
        """Width and height of the file."""

    @property
    def identity(self) -> dict[str, Any]:
        """Model, weights and request."""

    def picture(self, path: str) -> Float:
        """Read a picture and bring it to the size of a frame.

        Raises  NotFound, BadMedia
        """

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        """Make one clip; the same ask gives the same bits.

        Raises  Cancelled and whatever the model raises
        """
