"""The drift meter: how much a chain of clips changes from clip to clip, and where that leads.

It needs numpy and OpenCV, no weights. It reads frames, not files, and writes nothing but the
features of a clip. Names load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaining.drift.analysis import analyse
    from chaining.drift.cases import Check
    from chaining.drift.compare import Comparison, compare
    from chaining.drift.drift import Drift
    from chaining.drift.features import ClipFeatures
    from chaining.drift.inject import INJECTIONS, Injector
    from chaining.drift.meter import DriftMeter, DriftState, measure
    from chaining.drift.selftest import selftest
    from chaining.drift.signals import read_clip

_HOMES = {
    "INJECTIONS": "inject",
    "Check": "cases",
    "ClipFeatures": "features",
    "Comparison": "compare",
    "Drift": "drift",
    "DriftMeter": "meter",
    "DriftState": "meter",
    "Injector": "inject",
    "analyse": "analysis",
    "compare": "compare",
    "measure": "meter",
    "read_clip": "signals",
    "selftest": "selftest",
}

__all__ = [
    "INJECTIONS",
    "Check",
    "ClipFeatures",
    "Comparison",
    "Drift",
    "DriftMeter",
    "DriftState",
    "Injector",
    "analyse",
    "compare",
    "measure",
    "read_clip",
    "selftest",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
