"""The outcome of the drift meter: everything it read, and its verdict."""

from dataclasses import dataclass
from typing import Any, Final

from chaining.drift.contrasts import Contrast, Vde
from chaining.drift.features import Label
from chaining.drift.flash import Flash, Settling
from chaining.drift.freeze import Freeze
from chaining.drift.recall import Recall
from chaining.drift.seams import Seam
from chaining.drift.segment import Segment
from chaining.drift.trend import Slope
from chaining.drift.verdict import OUTCOMES, Verdict
from vidgen.errors import BadMedia

SCHEMA: Final = 1
METER_VERSION: Final = "1.0"


@dataclass(frozen=True, slots=True)
class Source:
    """What was measured.

    kind  float (frames in memory), png (any lossless master) or lossy (a delivered video)
    """

    fps: float
    frames: int
    width: int
    height: int
    analysis_width: int
    analysis_height: int
    kind: str
    path: str | None
    sha256: str | None


@dataclass(frozen=True, slots=True)
class ClipRow:
    """One clip: frames start..end-1, its place, and its readings against its segment's first."""

    index: int
    start: int
    end: int
    kind: str
    segment: int
    labels: dict[str, Label]
    readings: dict[str, float]
    tone: str
    colour: str
    distance: float
    wasserstein: float
    similarity: float


@dataclass(frozen=True, slots=True)
class Drift:
    """All readings of a chain; `as_dict` is the content of drift.json."""

    source: Source
    clips: tuple[ClipRow, ...]
    segments: tuple[Segment, ...]
    seams: tuple[Seam, ...]
    contrasts: dict[str, Contrast]
    vde: dict[str, Vde]
    flashes: tuple[Flash, ...]
    settling: tuple[Settling, ...]
    freezes: tuple[Freeze, ...]
    recall: Recall
    verdict: Verdict
    schema: int = SCHEMA
    meter_version: str = METER_VERSION

    @property
    def main(self) -> Segment:
        """The longest segment; of equals, the last."""
        return max(reversed(self.segments), key=lambda segment: segment.num_clips)

    @property
    def slopes(self) -> dict[str, Slope]:
        """The slopes of the longest segment."""
        return self.main.slopes

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        from pydantic import TypeAdapter

        data: dict[str, Any] = TypeAdapter(Drift).dump_python(self, mode="json")
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Drift":
        """Read what `as_dict` gave.

        Raises  BadMedia (another version, or no drift report at all)
        """
        from pydantic import TypeAdapter, ValidationError

        if not isinstance(data, dict):
            raise BadMedia(f"A drift report is a JSON object, not a {type(data).__name__}.")
        if data.get("schema") != SCHEMA:
            raise BadMedia(
                f"The drift report has version {data.get('schema')!r}, this is {SCHEMA}; "
                "measure anew."
            )
        try:
            found: Drift = TypeAdapter(cls).validate_python(data)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadMedia(f"The drift report is damaged at {where}: {first['msg']}.") from error
        if not found.clips or not found.segments or found.verdict.overall not in OUTCOMES:
            raise BadMedia("The drift report is damaged: it has no clips or no verdict.")
        return found
