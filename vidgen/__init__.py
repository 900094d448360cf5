"""Vidgen: one video request on one device, from the prompt to the clip.

The names in `__all__` are the public interface and load when they are first used, so that
`import vidgen` costs next to nothing. Planning is `vidgen.plan.plan`.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vidgen.adjustment import Adjustment
    from vidgen.clip import Clip, Trace
    from vidgen.device import DeviceProfile
    from vidgen.engine import Engine
    from vidgen.errors import (
        BadMedia,
        BadOutput,
        BadRequest,
        Cancelled,
        DoesNotFit,
        NotFound,
        Unsupported,
        VidgenError,
    )
    from vidgen.events import CancelToken, Preview, Progress
    from vidgen.plan import Plan
    from vidgen.request import VideoRequest
    from vidgen.request_values import LoraSpec

__all__ = [
    "Adjustment",
    "BadMedia",
    "BadOutput",
    "BadRequest",
    "CancelToken",
    "Cancelled",
    "Clip",
    "DeviceProfile",
    "DoesNotFit",
    "Engine",
    "LoraSpec",
    "NotFound",
    "Plan",
    "Preview",
    "Progress",
    "Trace",
    "Unsupported",
    "VideoRequest",
    "VidgenError",
]

_HOMES = {
    "Adjustment": "adjustment",
    "BadMedia": "errors",
    "BadOutput": "errors",
    "BadRequest": "errors",
    "CancelToken": "events",
    "Cancelled": "errors",
    "Clip": "clip",
    "DeviceProfile": "device",
    "DoesNotFit": "errors",
    "Engine": "engine",
    "LoraSpec": "request_values",
    "NotFound": "errors",
    "Plan": "plan",
    "Preview": "events",
    "Progress": "events",
    "Trace": "clip",
    "Unsupported": "errors",
    "VideoRequest": "request",
    "VidgenError": "errors",
}


def _refuse_a_foreign_attention() -> None:
    """Raise ImportError unless the package `attention` is the one beside this one.

    It is a plain top-level name: a user's own attention.py, earlier on the path, would hide it.
    """
    ours = Path(__file__).resolve().parent.parent / "attention" / "__init__.py"
    try:
        spec = find_spec("attention")
    except ValueError:  # a module made by hand, which knows no origin
        spec = None
    if spec is None or spec.origin is None:
        raise ImportError(
            f"Vidgen needs its own package `attention` ({ours}), which Python does not find; "
            "install Vidgen anew."
        )
    found = Path(spec.origin).resolve()
    if found != ours:
        raise ImportError(
            f"Vidgen needs its own package `attention`, but {found} hides it; "
            "rename that file or start Python in another folder."
        )


_refuse_a_foreign_attention()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"vidgen.{_HOMES[name]}"), name)
    if name == "__version__":
        return import_module("importlib.metadata").version("vidgen")
    raise AttributeError(f"module 'vidgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
