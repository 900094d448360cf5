"""The studio's own files for the browser: those that lie in one folder, and no others."""

from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from starlette.responses import JSONResponse, Response

_FOLDER = Path(__file__).parent / "web"
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
          ".svg": "image/svg+xml", ".png": "image/png"}  # fmt: skip


@lru_cache(maxsize=1)
def files() -> dict[str, tuple[bytes, str]]:
    """Return content and media type of each file by its name."""
    return {path.name: (path.read_bytes(), _TYPES[path.suffix])
            for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}  # fmt: skip


@lru_cache(maxsize=1)
def version() -> str:
    """Return a hash of all files, so that a browser takes the new ones after an update."""
    return sha256(b"".join(data for data, _ in files().values())).hexdigest()[:12]


def asset(name: str) -> Response:
    """Answer for one of the files."""
    found = files().get(name)
    if found is None:
        return JSONResponse({"detail": "Not Found"}, 404)
    data, kind = found
    headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    return Response(data, media_type=kind, headers=headers)
