"""What the line plots show: a table of charts, their panels, and where each line's values are."""

# f frames
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from chaining.drift.arrays import Double
from chaining.drift.features import ClipFeatures


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a panel.

    label    in the legend; "" where the panel has but one
    frames   gives a clip's values (f,) from its scalars; None shows the clips' readings alone
    reading  the reading against the first clip that is shown where there are no frames' values
    slope    the signal whose slope is fitted; "" for none
    ratio    the slope is a logarithm: it multiplies instead of adding
    """

    label: str
    slope: str
    frames: Callable[[dict[str, Double]], Double] | None = None
    reading: str = ""
    ratio: bool = False

    def values(self, clip: ClipFeatures) -> Double | None:
        """Return the values of a clip's frames, None where only the clip has one."""
        return None if self.frames is None else np.asarray(self.frames(clip.scalars))


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a chart; its title says the unit."""

    title: str
    lines: tuple[Line, ...]


CHARTS: Final = {
    "luma": (
        Panel("Mean brightness (luma, 0 black to 1 white)", (
            Line("", "luma", lambda s: s["luma"]),
        )),
        Panel("Dark and bright pixels (%)", (
            Line("below 16/255", "", lambda s: 100 * s["black"]),
            Line("above 235/255", "", lambda s: 100 * s["white"]),
        )),
    ),
    "colour": (
        Panel("Colourfulness (chroma over lightness)", (
            Line("", "chroma", lambda s: s["chroma"] / np.maximum(s["ok_l"], 1e-3), ratio=True),
        )),
        Panel("Hue, turned from the first clip (degrees)", (Line("", "hue", reading="hue"),)),
        Panel("Colour cast against the first clip (Oklab)", (
            Line("a: green to red", "cast_a", reading="cast_a"),
            Line("b: blue to yellow", "cast_b", reading="cast_b"),
        )),
    ),
    "detail": (
        Panel("Blur beyond the first clip (px² of variance)", (Line("", "blur", reading="blur"),)),
        Panel("Noise beyond the first clip ((1/255)² of variance)", (
            Line("", "noise", reading="noise"),
        )),
        Panel("Fine detail (% of the picture's power)", (
            Line("", "high_share", lambda s: 100 * s["high_share"], ratio=True),
        )),
        Panel("Motion (% of the width per frame)", (
            Line("", "flow", lambda s: s["flow"], ratio=True),
        )),
    ),
}  # fmt: skip
HEADINGS: Final = {"luma": "Brightness", "colour": "Colour", "detail": "Detail and motion"}
