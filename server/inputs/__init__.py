"""What clients bring: uploads, addresses to fetch, and references to earlier results.

Attributes load on first use: the process that opens files needs nothing of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.inputs.bring import bring_inputs
    from server.inputs.references import resolve_references
    from server.inputs.upload import Upload
    from server.inputs.uploads import Uploads
    from server.inputs.url import fetch_url

_HOMES = {
    "Upload": "upload",
    "Uploads": "uploads",
    "bring_inputs": "bring",
    "fetch_url": "url",
    "resolve_references": "references",
}

__all__ = ["Upload", "Uploads", "bring_inputs", "fetch_url", "resolve_references"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
