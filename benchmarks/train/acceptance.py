"""Acceptance: what toyworld's weights must reach, and whether a measured result does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.train.pinned import KINDS


@dataclass(frozen=True, slots=True)
class Criterion:
    """One number of the result and its bounds.

    path        keys of the value in the result
    floor       what may be shipped
    target      what is aimed at; None where the floor is all that is asked
    unit        "%" for shares, which are kept as 0..1
    highest     the bounds are upper ones
    """

    name: str
    path: tuple[str, ...]
    floor: float
    target: float | None = None
    unit: str = "%"
    highest: bool = False

    def reached(self, value: float, bound: float) -> bool:
        """True if a value is on the right side of a bound."""
        return value <= bound if self.highest else value >= bound


def _share(part: str, name: str, floor: float, target: float | None = None) -> Criterion:
    label = {"t2v": "text to video", "i2v": "image to video"}.get(part, part)
    return Criterion(f"{label}: {name}", (part, name, "share"), floor, target)


CRITERIA: tuple[Criterion, ...] = (
    Criterion("VAE round trip, clip", ("vae", "clip_db"), 30, 33, "dB"),
    Criterion("VAE round trip, first frame", ("vae", "first_frame_db"), 31, 34, "dB"),
    Criterion("VAE loss at 33 frames", ("vae", "drop_33_frames_db"), 1.5, None, "dB", True),
    Criterion("VAE loss at 160x160", ("vae", "drop_160x160_db"), 1.5, None, "dB", True),
    Criterion("VAE latents off the analytic ones", ("vae", "latent_mse"), 0.02, 0.01, "", True),
    *(
        Criterion(f"detector on true clips: {name}", ("detector", "truth", name, "share"), floor)
        for name, floor in (("colour", 0.99), ("direction", 0.99), ("shape", 0.97), ("size", 0.97))
    ),
    Criterion(
        "detector: wrong captions believed", ("detector", "wrong captions", "missed"), 0, None, "",
        True,
    ),
    _share("t2v", "background", 0.98),
    _share("t2v", "colour", 0.90, 0.97),
    _share("t2v", "shape", 0.70, 0.90),
    _share("t2v", "direction", 0.70, 0.90),
    _share("t2v", "size", 0.75, 0.90),
    _share("t2v", "speed", 0.70, 0.85),
    Criterion(
        "text to video: spurious objects", ("t2v", "spurious per clip"), 0.1, 0.03, "", True
    ),
    Criterion("image to video: first frame", ("i2v", "first frame dB"), 30, 33, "dB"),
    _share("i2v", "colour", 0.98, 1.0),
    _share("i2v", "direction", 0.80, 0.92),
    *(
        Criterion(f"given frames ({kind}), loss beside the VAE's own", ("pinned", kind, "lost dB"),
                  1.0, None, "dB", True)
        for kind in KINDS
    ),
    Criterion("untrained weights: attributes above chance", ("control", "above chance"), 0, None,
              "", True),
    Criterion("one clip on one core", ("cpu_seconds_per_clip",), 4, 2, "s", True),
)  # fmt: skip


def accept(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Every criterion with its bounds, the measured value and which bounds it meets.

    value and met are None where the result lacks the number.
    """
    rows = []
    for criterion in CRITERIA:
        value = _value(result, criterion.path)
        known = value is not None
        rows.append(
            {
                "name": criterion.name,
                "value": value,
                "unit": criterion.unit,
                "floor": criterion.floor,
                "target": criterion.target,
                "floor met": criterion.reached(value, criterion.floor) if known else None,
                "target met": criterion.reached(value, criterion.target)
                if known and criterion.target is not None
                else None,
                "highest": criterion.highest,
            }
        )
    return rows


def _value(result: dict[str, Any], path: tuple[str, ...]) -> Any:
    """The number at a path; of a list, its length; None where it is missing or counted nothing."""
    found: Any = result
    for key in path:
        if not isinstance(found, dict) or key not in found or found.get("of") == 0:
            return None
        found = found[key]
    return len(found) if isinstance(found, list) else found
