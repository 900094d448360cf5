"""What the drift meter keeps of one clip: small arrays for each frame, saved without pickle."""

# f frames  r rows  w columns  c L, a, b  n bins
import json
import lzma
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from chaining.drift.arrays import Array, Double, Float
from chaining.drift.colour import HUES
from chaining.drift.detail import SPECTRUM
from chaining.drift.tone import BINS
from vidgen.errors import BadMedia, BadRequest, NotFound

Label = str | int | float | bool | None
SCHEMA: Final = 1
KINDS: Final = ("continue", "cut", "anchor")
SCALARS: Final = (
    "luma", "ev", "black", "white", "clipped", "ok_l", "ok_a", "ok_b", "chroma", "sharpness",
    "high_share", "noise", "blocks", "change", "flow", "flow_x", "flow_y", "thumb_change",
)  # fmt: skip
_OF_PAIRS = ("change", "flow", "flow_x", "flow_y", "thumb_change")  # nan where no frame is before
# What reading an archive of unsound bytes raises.
_DAMAGE: Final = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
    MemoryError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
    BadRequest,
)  # fmt: skip
_ARRAYS = ("luma_fn", "hue_fn", "spectrum_fn", "thumbs_frwc", "last_luma_rw")


@dataclass(frozen=True, slots=True, eq=False)
class ClipFeatures:
    """All that the analysis needs of one clip.

    kind           how it follows the clip before it: continue, cut (new scene) or anchor (the same
                   scene, taken up again from a clean picture); the last two start a new segment
    scalars        the per-frame signals named in SCALARS, each (f,); nan where no frame is before
    luma_fn        luma histograms; hue_fn hue histograms; spectrum_fn radial power
    thumbs_frwc    Oklab thumbnails, float16
    last_luma_rw   luma of the last frame at the analysis size, for the seam that follows
    labels         what the caller knows of the clip (seed, strategy, ..), kept for the report
    """

    fps: float
    kind: str
    source_width: int
    source_height: int
    labels: dict[str, Label]
    scalars: dict[str, Double]
    luma_fn: Array
    hue_fn: Float
    spectrum_fn: Float
    thumbs_frwc: Array
    last_luma_rw: Float

    def __post_init__(self) -> None:
        """Check the kind, so that a misspelt one does not join two scenes."""
        if self.kind not in KINDS:
            raise BadRequest(f"kind={self.kind!r} is unknown; use one of {', '.join(KINDS)}.")
        if not 0 < self.fps < math.inf:
            raise BadRequest(f"fps={self.fps} is not a frame rate; use a number above 0.")

    @property
    def num_frames(self) -> int:
        """The number of frames of the clip."""
        return len(self.luma_fn)

    @property
    def width(self) -> int:
        """The analysis width in pixels."""
        return int(self.last_luma_rw.shape[1])

    @property
    def height(self) -> int:
        """The analysis height in pixels."""
        return int(self.last_luma_rw.shape[0])

    def save(self, path: str | Path) -> None:
        """Write the features as an npz archive without pickle."""
        head = {
            "schema": SCHEMA,
            "fps": self.fps,
            "kind": self.kind,
            "source": [self.source_width, self.source_height],
            "labels": self.labels,
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays["scalars"] = np.stack([self.scalars[name] for name in SCALARS])
        with Path(path).open("wb") as file:
            np.savez_compressed(file, head=np.array(json.dumps(head)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "ClipFeatures":
        """Read what `save` wrote.

        Raises  NotFound, BadMedia (damaged, cut off, of another kind or version): one sentence
        """
        file = Path(path)
        if not file.is_file():
            raise NotFound(f"{file.name} is not there; measure the clip anew.")
        try:
            with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
                head = json.loads(str(archive["head"][()]))
                arrays = {name: archive[name] for name in (*_ARRAYS, "scalars")}
            if head["schema"] != SCHEMA:
                raise BadMedia(
                    f"{file.name} has version {head['schema']} of the drift features, this is "
                    f"version {SCHEMA}; measure the clip anew."
                )
            _check(arrays)
            columns, rows = head["source"]
            return cls(
                fps=float(head["fps"]),
                kind=head["kind"],
                source_width=int(columns),
                source_height=int(rows),
                labels=dict(head["labels"]),
                scalars=dict(zip(SCALARS, arrays.pop("scalars"), strict=True)),
                **arrays,
            )
        except BadMedia:
            raise
        except _DAMAGE as error:
            raise BadMedia(
                f"{file.name} is damaged or holds no drift features; measure the clip anew."
            ) from error


def _check(arrays: dict[str, Array]) -> None:
    """Raise ValueError unless the arrays fit each other."""
    count = len(arrays["luma_fn"])
    shapes = {
        "scalars": (len(SCALARS), count),
        "luma_fn": (count, BINS),
        "hue_fn": (count, HUES),
        "spectrum_fn": (count, SPECTRUM),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")
    thumbs = arrays["thumbs_frwc"]
    if count < 1 or thumbs.ndim != 4 or len(thumbs) != count or arrays["last_luma_rw"].ndim != 2:
        raise ValueError("pictures do not fit")
    if thumbs.shape[3] != 3:
        raise ValueError("pictures have no three channels")
    signals = dict(zip(SCALARS, arrays["scalars"], strict=True))
    whole = {**arrays, **{name: signals[name] for name in SCALARS if name not in _OF_PAIRS}}
    del whole["scalars"]
    for name, values in whole.items():
        if values.dtype.kind not in "fu" or not np.isfinite(values).all():
            raise ValueError(f"{name} holds what is no number")
