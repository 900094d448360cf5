"""Upstream: the server behind the studio, in this process or at an address."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from demos.ui.saving import save_of

SECONDS = 30.0
# What is passed on to the server, and back to the browser.
_ASKED = ("accept", "content-type", "content-length", "idempotency-key", "if-none-match",
          "if-range", "last-event-id", "range")  # fmt: skip
_TOLD = ("accept-ranges", "cache-control", "content-disposition", "content-length",
         "content-range", "content-security-policy", "content-type", "etag",
         "openai-poll-after-ms", "retry-after", "x-content-type-options")  # fmt: skip


class Upstream(Protocol):
    """The server, as the studio sees it.

    address  under which people reach its API
    """

    address: str

    async def call(
        self, method: str, path: str, key: str | None, data: Any = None, *, click: str = ""
    ) -> httpx.Response:
        """Send JSON and return the answer; click is the idempotency key.

        Raises  httpx.TransportError when the server is away
        """

    async def save(self, path: str, key: str | None, target: Path) -> httpx.Response:
        """Write what is at a path into a file, unless it is refused; return the answer.

        Raises  httpx.TransportError when the server is away
        """

    async def forward(
        self, scope: Scope, receive: Receive, send: Send, path: str, key: str | None
    ) -> None:
        """Pass a browser's request on under another path, and the answer back as it comes."""


def headers_of(key: str | None, click: str = "") -> dict[str, str]:
    """Return the headers that say who asks, and which click it was."""
    found = {"Authorization": f"Bearer {key}"} if key else {}
    return found | ({"Idempotency-Key": click} if click else {})


class Inside:
    """The server is the app that the studio is mounted in."""

    def __init__(self, app: ASGIApp, address: str) -> None:
        self.address = address
        self._app = app
        transport = httpx.ASGITransport(app=app)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    async def call(
        self, method: str, path: str, key: str | None, data: Any = None, *, click: str = ""
    ) -> httpx.Response:
        """Call the app."""
        return await self._client.request(method, path, json=data, headers=headers_of(key, click))

    async def save(self, path: str, key: str | None, target: Path) -> httpx.Response:
        """Call the app, and write its answer piece by piece."""
        return await save_of(self._app, path, headers_of(key), target)

    async def forward(
        self, scope: Scope, receive: Receive, send: Send, path: str, key: str | None
    ) -> None:
        """Hand the request to the app under its other path."""
        dropped = (b"authorization", b"cookie")
        headers = [pair for pair in scope["headers"] if pair[0] not in dropped]
        headers += [(name.lower().encode(), value.encode("latin-1"))
                    for name, value in headers_of(key).items()]  # fmt: skip
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": "",
                 "headers": headers}  # fmt: skip
        await self._app(inner, receive, send)


class Elsewhere:
    """The server is reached over HTTP."""

    def __init__(self, address: str) -> None:
        self.address = address
        # Let go of idle connections before servers do: one that is just closed would lose a call.
        limits = httpx.Limits(max_keepalive_connections=20, keepalive_expiry=2.0)
        self._client = httpx.AsyncClient(base_url=address, timeout=SECONDS, limits=limits)

    async def call(
        self, method: str, path: str, key: str | None, data: Any = None, *, click: str = ""
    ) -> httpx.Response:
        """Ask the server."""
        return await self._client.request(method, path, json=data, headers=headers_of(key, click))

    async def save(self, path: str, key: str | None, target: Path) -> httpx.Response:
        """Ask the server, and write its answer piece by piece."""
        async with self._client.stream("GET", path, headers=headers_of(key)) as answer:
            if not answer.is_success:
                await answer.aread()
                return answer
            with target.open("wb") as file:
                async for piece in answer.aiter_bytes():
                    await asyncio.to_thread(file.write, piece)
            return answer

    async def forward(
        self, scope: Scope, receive: Receive, send: Send, path: str, key: str | None
    ) -> None:
        """Ask the server and pass the answer on piece by piece."""
        asked = Request(scope, receive)
        headers = picked(asked.headers, _ASKED) | headers_of(key)
        headers["Accept-Encoding"] = "identity"  # pieces are passed on as they come
        body = None if asked.method in ("GET", "HEAD") else _body(asked)
        request = self._client.build_request(
            asked.method, path, params=asked.url.query.encode() or None, headers=headers,
            content=body, timeout=httpx.Timeout(SECONDS, read=None),
        )  # fmt: skip
        try:
            found = await self._client.send(request, stream=True)
        except httpx.TransportError:
            await away()(scope, receive, send)
            return
        answer = StreamingResponse(
            found.aiter_raw(), found.status_code, picked(found.headers, _TOLD),
            background=BackgroundTask(found.aclose),
        )  # fmt: skip
        await answer(scope, receive, send)


async def _body(request: Request) -> AsyncIterator[bytes]:
    async for piece in request.stream():
        yield piece


def picked(headers: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return only the headers of these names."""
    return {name: headers[name] for name in names if name in headers}


def away() -> JSONResponse:
    """Return the answer for a server that cannot be reached."""
    error = {"code": "unavailable", "message": "The server does not answer; is it running?",
             "type": "server_error", "param": None, "retryable": True}  # fmt: skip
    return JSONResponse({"error": error}, 503)
