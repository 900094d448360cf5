"""Measuring a video file: its clips stream through the drift meter, which keeps no frame."""

import hashlib
from collections.abc import Callable

from chaining.drift.analysis import analyse
from chaining.drift.features import ClipFeatures
from chaining.drift.signals import WIDTH, read_clip
from chaining.drift_report.measured import Measured
from chaining.drift_report.stills import StillTaker
from chaining.footage import Footage


def measure_file(
    footage: Footage,
    *,
    width: int = WIDTH,
    stills: bool = False,
    watch: Callable[[int], None] | None = None,
) -> Measured:
    """Measure a video.

    width   analysis width in pixels
    stills  keep small pictures for a report
    watch   called with the number of frames read so far; what it raises ends the work
    Raises  BadMedia (damage inside the file), BadRequest (see `read_clip`)
    """
    taker = StillTaker() if stills else None
    features: list[ClipFeatures] = []
    kinds, lengths = footage.clips.kinds, footage.clips.lengths
    for index, pieces in enumerate(footage.pieces(watch)):
        chunks = pieces if taker is None else taker.watch(pieces, lengths[index])
        before = features[-1] if features else None
        features.append(
            read_clip(chunks, fps=footage.fps, width=width, kind=kinds[index], before=before)
        )
    with footage.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    drift = analyse(features, kind=footage.kind, path=str(footage.path), sha256=digest)
    return Measured(
        name=footage.path.name,
        drift=drift,
        features=tuple(features),
        stills=taker.stills if taker is not None else (),
        notes=(*footage.clips.notes, *_source_notes(footage)),
    )


def _source_notes(footage: Footage) -> tuple[str, ...]:
    assumed = tuple(str(item) for item in footage.info.assumptions if item.field == "num_frames")
    if footage.kind != "lossy":
        return assumed
    codec = footage.info.codec
    return (
        *assumed,
        f"The file is lossy ({codec}, {footage.info.pixel_format}): part of what is read is the "
        "codec's own, above all in detail and noise; a lossless master reads truer.",
    )
