"""Serving: one stored file over HTTP, whole or a range of it; nothing a client sends is a path."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from server.media_types import MEDIA_TYPES, media_type_of
from server.problems import Problem
from server.store import Store

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def bytes_said(*types: str) -> dict[int | str, dict[str, Any]]:
    """Return the documented answers of a route that serves a file.

    types  that it may have; none given: any that is stored
    """
    told = types or sorted(set(MEDIA_TYPES.values()))
    content: dict[str, dict[str, Any]] = {name: {} for name in told}
    return {
        200: {"content": content, "description": "The file."},
        206: {"content": content, "description": "A range of it."},
        304: {"description": "Not changed since the ETag that was sent."},
    }


@dataclass(frozen=True, slots=True)
class Stored:
    """A file of the store as a job's row tells it."""

    key: str
    bytes: int
    sha256: str | None

    @classmethod
    def of(cls, artifact: Mapping[str, Any]) -> "Stored":
        """Read it from a job's artifacts."""
        return cls(str(artifact["key"]), int(artifact["bytes"]), artifact.get("sha256"))

    @property
    def suffix(self) -> str:
        """The last part of its name."""
        return self.key.rpartition(".")[2]

    @property
    def media_type(self) -> str:
        """One of the types that are served; what is not known is only octets."""
        return media_type_of(self.key)

    @property
    def etag(self) -> str:
        """Of its content."""
        return f'"{(self.sha256 or self.key)[:40]}"'


def serve(
    request: Request,
    store: Store,
    stored: Stored,
    name: str,
    *,
    after: Callable[[], None] | None = None,
) -> Response:
    """Answer GET or HEAD for a file.

    name    that a browser saves it under
    after   called when all of it was sent, and not when the connection broke before
    Raises  Problem range_not_satisfiable, gone
    """
    headers = {
        "ETag": stored.etag,
        "Accept-Ranges": "bytes",
        "Content-Type": stored.media_type,
        "Content-Disposition": f'{_disposition(stored)}; filename="{name}"',
        "Cache-Control": "private, no-cache",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if _names(request.headers.get("if-none-match", ""), stored.etag):
        return Response(status_code=304, headers=headers)
    found = _asked(request, stored)
    if found is None:
        start, stop, status = 0, stored.bytes, 200
    else:
        (start, stop), status = found, 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{stored.bytes}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    pieces = _pieces(store, stored.key, start, stop)
    if after is None or stop - start < stored.bytes:
        return StreamingResponse(pieces, status, headers)
    sent = threading.Event()

    def told() -> Iterator[bytes]:
        yield from pieces
        sent.set()

    def end() -> None:  # it runs after a broken connection too
        if sent.is_set():
            after()

    return StreamingResponse(told(), status, headers, background=BackgroundTask(end))


def _pieces(store: Store, key: str, start: int, stop: int) -> Iterator[bytes]:
    try:
        return store.get_range(key, start, stop)
    except Problem as problem:
        if problem.code == "not_found":
            raise Problem("gone", "The file has expired.") from None
        raise


def _disposition(stored: Stored) -> str:
    """Pictures and videos may be shown in a page; all else is saved, and nothing is a page."""
    return "inline" if stored.media_type.startswith(("video/", "image/")) else "attachment"


def _names(header: str, etag: str) -> bool:
    named = [item.strip().removeprefix("W/") for item in header.split(",")]
    return etag in named or named == ["*"]


def _asked(request: Request, stored: Stored) -> tuple[int, int] | None:
    """Return start and end of the range that is asked for, None for the whole.

    Several ranges, and one in another unit, are answered with the whole, as HTTP allows.
    Raises  Problem range_not_satisfiable
    """
    header = request.headers.get("range")
    if header is None or request.headers.get("if-range", stored.etag) != stored.etag:
        return None
    match = _RANGE.fullmatch(header.strip())
    if match is None or not (match[1] or match[2]):
        return None
    length = stored.bytes
    if match[1]:
        start = int(match[1])
        stop = min(int(match[2]) + 1, length) if match[2] else length
        if match[2] and int(match[2]) < start:
            return None
    else:
        start, stop = max(0, length - int(match[2])), length
    if start >= stop:
        raise Problem(
            "range_not_satisfiable",
            f"The file has {length} bytes.",
            headers={"Content-Range": f"bytes */{length}"},
        )
    return start, stop
