"""The API with the studio in it as a process of its own: its first line is its address."""

import ctypes
import gc
import json
import sys
from pathlib import Path

import psutil
from fastapi import FastAPI

from demos.studio import mount
from server.api.run import serve_api
from server.settings import ServerSettings


def main() -> int:
    """Serve the home that is named first with the settings (JSON) that are named second."""
    settings = ServerSettings.model_validate(json.loads(sys.argv[2]))

    def told(address: str) -> None:
        print(address, flush=True)

    return serve_api(settings, Path(sys.argv[1]), told, dress=dress)


def dress(app: FastAPI, settings: ServerSettings) -> None:
    """Add the studio, and a way to ask what the process holds."""
    mount(app, settings)
    app.add_api_route("/held", held, include_in_schema=False)


def held() -> int:
    """Return the bytes of this process when all that is let go of has been given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # another C library may not know it
        trim(0)
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    sys.exit(main())
