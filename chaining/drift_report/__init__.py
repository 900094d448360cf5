"""The drift report: one page that stands alone, plots and sheets, and the words they share.

Plots need matplotlib. Names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaining.drift_report.files import write_html, write_pngs
    from chaining.drift_report.measured import Measured
    from chaining.drift_report.stills import Stills, StillTaker

_HOMES = {
    "Measured": "measured",
    "StillTaker": "stills",
    "Stills": "stills",
    "write_html": "files",
    "write_pngs": "files",
}

__all__ = ["Measured", "StillTaker", "Stills", "write_html", "write_pngs"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
