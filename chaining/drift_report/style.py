"""How plots look: one set of colours and letters, as PNG on white and as SVG that follows the page.

matplotlib is asked for here and nowhere else.
"""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from vidgen.errors import Unsupported
from vidgen.extras import how_to_install

# Plots are drawn in these; in the page each becomes the CSS variable of its name.
INK: Final = "#1c1c21"
FAINT: Final = "#6b6b76"
RULE: Final = "#d9d9e0"
BAND: Final = "#f1f1f6"
ONE: Final = "#1f5fae"
TWO: Final = "#c4560f"
GOOD: Final = "#2b7d4f"
FAIR: Final = "#b07b00"
BAD: Final = "#b8293c"
_VARIABLES: Final = {
    INK: "ink", FAINT: "faint", RULE: "rule", BAND: "band", ONE: "one", TWO: "two",
    GOOD: "good", FAIR: "fair", BAD: "bad",
}  # fmt: skip
OF_OUTCOME: Final = {"pass": GOOD, "warn": FAIR, "fail": BAD, "inconclusive": FAINT}
_LOOK: Final = {
    "font.family": ["sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",
    "svg.hashsalt": "vidgen",
}


def require_matplotlib() -> None:
    """Raise Unsupported, in one sentence, where plots cannot be drawn."""
    try:
        import matplotlib.figure  # noqa: F401 - asked for, not used
    except ImportError:
        raise Unsupported(
            f"The drift report needs matplotlib; install it with {how_to_install('metrics')}, or "
            "ask for no report."
        ) from None


@contextmanager
def figure(width: float, height: float) -> Iterator[Any]:
    """Give a figure of that size in inches, drawn and saved in our style inside the block.

    Raises  Unsupported (matplotlib is not installed)
    """
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_LOOK):
        yield Figure(figsize=(width, height), layout="constrained")


def as_png(drawn: Any) -> bytes:
    """Return a figure as PNG on white."""
    file = io.BytesIO()
    drawn.savefig(file, format="png", dpi=110, facecolor="white")
    return file.getvalue()


def as_svg(drawn: Any, label: str) -> str:
    """Return a figure as an element for a page: no background, colours by CSS, nothing linked.

    label  says what it shows, for those who do not see it
    """
    file = io.StringIO()
    drawn.savefig(file, format="svg", transparent=True)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'^<svg[^>]*?viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" '
                 rf'aria-label="{label}">', svg)  # fmt: skip
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def variables() -> str:
    """Return the CSS variables of the plots on white."""
    return "".join(f"--{name}:{colour};" for colour, name in _VARIABLES.items())
