"""What is good enough: every limit of the meter, in one table."""

from dataclasses import dataclass
from typing import Final

GROUPS: Final = ("tone", "colour", "detail", "motion", "seams", "events", "forecast")


@dataclass(frozen=True, slots=True)
class Limit:
    """Up to `passes` is good, beyond `fails` is bad: of the size, or of a rise only."""

    group: str
    passes: float
    fails: float
    unit: str
    words: str
    rises_only: bool = False


# Change per clip; the limits lie well above what undrifted footage reads.
SLOPES: Final = {
    "gain": Limit("tone", 0.005, 0.010, "ln per clip", "brightness"),
    "spread": Limit("tone", 0.010, 0.020, "ln per clip", "contrast beyond brightness"),
    "chroma": Limit("colour", 0.010, 0.020, "ln per clip", "colourfulness (C/L)"),
    "hue": Limit("colour", 0.3, 1.0, "degrees per clip", "hue"),
    "cast": Limit("colour", 0.001, 0.003, "Oklab per clip", "colour cast"),
    "blur": Limit("detail", 0.02, 0.06, "px^2 per clip", "blur"),
    "noise": Limit("detail", 0.10, 0.50, "(1/255)^2 per clip", "noise", True),
    "flow": Limit("motion", 0.05, 0.10, "ln per clip", "motion"),
}
# Signals that are reported, and judged only through others.
UNITS: Final = {
    "luma": "Y' per clip",
    "contrast": "ln per clip",
    "gamma": "ln per clip",
    "offset": "Y' per clip",
    "lift": "Y' per clip",
    "chroma_absolute": "ln per clip",
    "cast_a": "Oklab per clip",
    "cast_b": "Oklab per clip",
    "high_share": "ln per clip",
    "sharpness": "ln per clip",
    "blocks": "ln per clip",
    "duplicates": "share per clip",
}
# Logarithm of the strength of an 8-pixel grid against the first clip; plain footage stays in 0.05.
CODEC: Final = 0.10
DUPLICATES: Final = Limit("motion", 0.02, 0.05, "share per clip", "share of repeated frames")

ANCHOR: Final = Limit("colour", 0.02, 0.05, "Oklab", "colour distance to the first clip")
CONTRASTS: Final = {
    "luma": Limit("tone", 0.02, 0.05, "Y'", "luma from start to end"),
    "chroma": Limit("colour", 0.02, 0.05, "Oklab", "chroma from start to end"),
}
SEAM_RATIO: Final = Limit("seams", 2.5, 4.0, "times the usual change", "picture change")
SEAM_Z: Final = 6.0
SEAM_LUMA: Final = Limit("seams", 0.008, 0.02, "Y'", "luma step")
SEAM_LUMA_Z: Final = 4.0
FLASH: Final = Limit("events", 0.02, 0.04, "Y'", "flash")
FREEZE: Final = Limit("events", 4, 11, "frames", "freeze")
HORIZON: Final = (4.0, 2.0)  # times the requested clips that a forecast must reach to pass, to warn


def step_floor(signal: str) -> float:
    """Return the smallest jump of a signal that is taken for a step, not for drift."""
    return 2 * SLOPES[signal].fails if signal in SLOPES else 0.02
