"""Lines and texts of the studio's own colours can be told from what they stand on."""

import re

import pytest

from demos.ui.assets import files
from demos.ui.theme import theme

LEAST = 4.5  # WCAG 2.2, 1.4.3
STYLE = files()["studio.css"][0].decode()


def palette(dark: bool) -> dict[str, str]:
    """Return the colours of one theme by their names."""
    parts = re.findall(r"(?:^|\n)(:root, \.dark|\.dark) \{(.*?)\n\}", STYLE, re.DOTALL)
    found: dict[str, str] = {}
    for _, text in parts[: 2 if dark else 1]:
        found |= dict(re.findall(r"(--vg-[a-z0-9-]+): *(#[0-9a-f]{6})", text))
    return found


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """Return the contrast of two colours, 1 to 21."""
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_the_standards() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_drawn_stands_out(dark: bool) -> None:
    found = palette(dark)
    card = "#ffffff" if not dark else theme().neutral_900
    curves = [name for name in found if name.startswith("--vg-curve-")]
    assert len(curves) == 3
    for name in (*curves, "--vg-good", "--vg-warn", "--vg-bad", "--vg-run"):
        assert contrast(found[name], card) >= LEAST, (name, found[name])
        back = found.get(f"{name}-back", card)
        assert contrast(found[name], back) >= LEAST, (name, back)


@pytest.mark.parametrize("name", ["fidelity.js", "drift.js"])
def test_curves_have_the_colours_of_the_style(name: str) -> None:
    script = files()[name][0].decode()
    used = set(re.findall(r"var\((--vg-[a-z0-9-]+)\)", script))
    assert used
    assert not re.search(r"#[0-9a-f]{6}", script)
    assert used <= {*palette(False), "--vg-soft"}
