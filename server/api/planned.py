"""Planned: what was decided about a job before it is queued, as plain data."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Planned:
    """One job, decided.

    kind          clip or chain
    payload       what the worker is given, with the seed fixed
    text          prompts, for the library's search
    tokens        of one forward
    cost_seconds  predicted, middle of the interval, corrected by what was measured
    device_bytes  least memory that is needed; disk_bytes: most
    decided       see `Video`: width, height, num_frames, fps, seed, adjustments, estimate, ..
    """

    kind: str
    payload: dict[str, Any]
    text: str
    model: str
    loras: tuple[str, ...]
    clips: int
    tokens: int
    cost_seconds: float
    device_bytes: int
    disk_bytes: int
    decided: dict[str, Any]


def without_texts(decided: dict[str, Any]) -> dict[str, Any]:
    """Return what was decided without any word of the request, for jobs that keep nothing."""
    kept = [
        item if item["field"] not in ("prompt", "negative_prompt") else {**item, "asked": None}
        for item in decided["adjustments"]
    ]
    return {**decided, "adjustments": kept}
