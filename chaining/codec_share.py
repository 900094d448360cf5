"""The codec's share: how much of a drift the encoding for delivery causes by itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from chaining.drift.compare import Comparison, compare
from chaining.drift.thresholds import SLOPES
from chaining.drift_report.measured import Measured
from chaining.footage import Footage, open_footage
from chaining.measure_file import measure_file
from vidgen.errors import BadRequest
from vidgen.media import VideoWriter

DELIVERY: Final = ("mp4", "webm")  # of an even size, of an odd one


@dataclass(frozen=True, slots=True)
class CodecShare:
    """What the codec alone does to each judged signal.

    of        what was compared: a codec's name, or the master's
    per_clip  signal -> (the reading, the codec's part of it), change per clip
    level     signal -> the same shift in every clip, which is no drift
    """

    of: str
    per_clip: dict[str, tuple[float, float]]
    level: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        names = ("reading", "codec")
        return {
            "of": self.of,
            "per_clip": {
                k: dict(zip(names, v, strict=True)) for k, v in self.per_clip.items()
            },
            "level": self.level,
        }  # fmt: skip


def encode_again(
    footage: Footage,
    measured: Measured,
    *,
    width: int,
    watch: Callable[[int], None] | None = None,
) -> CodecShare:
    """Write the frames once more as they would be delivered, and measure what that changes.

    watch   called with the frames done, of both passes together
    Raises  DoesNotFit (no room for the temporary file), BadMedia
    """
    info = footage.info
    profile = DELIVERY[0] if info.width % 2 == info.height % 2 == 0 else DELIVERY[1]
    with TemporaryDirectory(prefix="vidgen-drift-") as folder:
        file = Path(folder, f"again.{profile}")
        rate = Fraction(footage.fps).limit_denominator(1001)
        with VideoWriter(
            file, width=info.width, height=info.height, fps=rate, profile=profile
        ) as writer:
            for chunks in footage.pieces(watch):
                for chunk in chunks:
                    writer.write(chunk)
        again = replace(open_footage(file, fps=footage.fps), clips=footage.clips)
        done = info.num_frames
        later = None if watch is None else lambda frames: watch(done + frames)
        encoded = measure_file(again, width=width, watch=later)
    return _share(profile, measured, compare(measured.features, encoded.features))


def against_master(
    master: Footage,
    measured: Measured,
    *,
    width: int,
    watch: Callable[[int], None] | None = None,
) -> CodecShare:
    """Compare a delivered video with the lossless master of the same frames.

    master  with the clips of the delivered one
    Raises  BadRequest (it is lossy itself, or of another size or length), BadMedia
    """
    if master.kind == "lossy":
        raise BadRequest(
            f"{master.path.name} is lossy itself ({master.info.codec}); name a lossless master."
        )
    frames = measured.drift.source.frames
    if master.info.num_frames != frames:
        raise BadRequest(
            f"{master.path.name} has {master.info.num_frames} frames, {measured.name} has "
            f"{frames}; the master must hold the same frames."
        )
    found = measure_file(master, width=width, watch=watch)
    return _share(master.path.name, measured, compare(found.features, measured.features))


def _share(of: str, measured: Measured, found: Comparison) -> CodecShare:
    slopes = measured.drift.slopes
    return CodecShare(
        of=of,
        per_clip={
            name: (slopes[name].value, found.slopes[name].value)
            for name in SLOPES
            if name in slopes and name in found.slopes
        },
        level={name: found.levels[name].value for name in SLOPES if name in found.levels},
    )
