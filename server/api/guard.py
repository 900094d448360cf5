"""Guard: what is checked and added around every request, before any handler sees it."""

import logging
import time
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.api.auth import is_loopback
from server.api.counters import Counters
from server.api.errors import problem_response
from server.problems import Problem
from server.settings import ServerSettings

log = logging.getLogger("vidgen.server.access")

_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Bounds bodies, refuses foreign Host headers on a loopback, adds headers, counts and logs."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, counters: Counters) -> None:
        self._app = app
        self._most = settings.max_body_mib * 2**20
        self._most_mib = settings.max_body_mib
        self._hosts = _hosts(settings)
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._counters)
        try:
            self._check(scope)
        except Problem as problem:
            await problem_response(problem)(scope, receive, exchange.send)
        else:
            await self._app(scope, self._bounded(receive), exchange.send)
        finally:
            exchange.end()

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        host = _host_of(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts is not None and not is_loopback(host) and host not in self._hosts:
            raise Problem(
                "forbidden",
                "This server answers only under the names of this machine; set public_url for "
                "another name.",
            )
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._most:
            raise self._too_large()

    def _bounded(self, receive: Receive) -> Receive:
        """Count a body that does not say how long it is."""
        room = self._most

        async def counted() -> Message:
            nonlocal room
            message = await receive()
            if message["type"] == "http.request":
                room -= len(message.get("body", b""))
                if room < 0:
                    raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Problem:
        return Problem(
            "input_too_large", f"A body may have {self._most_mib} MiB (setting max_body_mib)."
        )


def _host_of(header: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    name = header.lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


def _hosts(settings: ServerSettings) -> frozenset[str] | None:
    """Return the names that a loopback server answers to beside this machine's own; None: to all.

    So no foreign name can be bound to it.
    """
    if not is_loopback(settings.host):
        return None
    return frozenset({urlsplit(settings.public_url).hostname or ""} if settings.public_url else ())


class _Exchange:
    """One request and its response, as they are counted and logged: never a body, never a query."""

    def __init__(self, scope: Scope, send: Send, counters: Counters) -> None:
        self._scope = scope
        self._send = send
        self._counters = counters
        self._status = 500
        self._began = time.perf_counter()

    async def send(self, message: Message) -> None:
        """Pass a message on; the first one gets the headers that each response has."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers: list[Any] = list(message.get("headers", ()))
            named = {name.lower() for name, _ in headers}
            extra = [*_HEADERS]
            if self._scope["path"].startswith("/v1"):
                extra.append((b"cache-control", b"no-store"))
            headers += [pair for pair in extra if pair[0] not in named]
            message = {**message, "headers": headers}
        await self._send(message)

    def end(self) -> None:
        """Count and log it."""
        seconds = time.perf_counter() - self._began
        route = self._scope.get("route")
        path = getattr(route, "path", "other")
        method = self._scope["method"] if route is not None else "other"
        self._counters.answered(method, path, self._status, seconds)
        log.info("%s %s %d %.1f ms", method, path, self._status, seconds * 1000)
