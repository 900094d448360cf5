"""Connecting to a name at exactly the address that was checked, within one bound of time."""

import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from socket import SOCK_STREAM, getaddrinfo
from typing import Any

import httpcore

from server.inputs.addresses import Allowed, is_public, parse_address

Resolve = Callable[[str, int], list[str]]


class Refused(Exception):
    """The name leads to an address that must not be reached."""


class Unreachable(Exception):
    """Nothing usable came back; str() says why, in a few words."""


def system_resolve(host: str, port: int) -> list[str]:
    """Ask the system for a name's addresses; it also reads 127.1, 0x7f000001 and their like."""
    return [str(found[4][0]) for found in getaddrinfo(host, port, type=SOCK_STREAM)]


@dataclass(frozen=True, slots=True)
class Rules:
    """How far a request may go.

    seconds   for everything together: names, connecting, headers, content, redirects
    schemes   of the address
    allowed   which addresses may be connected to
    resolve   finds a name's addresses; asked once for each connection
    context   for certificates; None: the system's authorities
    """

    seconds: float
    schemes: tuple[str, ...] = ("https",)
    allowed: Allowed = is_public
    resolve: Resolve = system_resolve
    context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment after which nothing is waited for."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Return the seconds that are left, or raise Unreachable."""
        left = self.began + self.seconds - time.monotonic()
        if left <= 0:
            raise Unreachable(f"it took more than {self.seconds:g} s")
        return left


class Dialler(httpcore.NetworkBackend):
    """Connects to names: resolves once, checks every address, and connects to one of those."""

    def __init__(self, rules: Rules, deadline: Deadline) -> None:
        self._rules = rules
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect, or raise Refused if any of the name's addresses is not allowed."""
        found = [parse_address(text) for text in self._addresses(host, port)]
        if not all(self._rules.allowed(address) for address in found):
            raise Refused
        reason = "the name has no address"
        for address in dict.fromkeys(found):
            try:
                stream = self._sockets.connect_tcp(
                    str(address),
                    port,
                    min(self._deadline.left(), timeout or self._rules.seconds),
                    local_address,
                    socket_options,
                )
                return _Bounded(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                reason = str(error) or "no connection"
        raise Unreachable(reason)

    def _addresses(self, host: str, port: int) -> list[str]:
        """Resolve in a thread of its own: the system's resolver knows no bound of time."""
        found: list[list[str]] = []
        failed: list[OSError] = []

        def work() -> None:
            try:
                found.append(self._rules.resolve(host, port))
            except (OSError, UnicodeError) as error:
                failed.append(error if isinstance(error, OSError) else OSError(str(error)))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._deadline.left())
        if failed:
            raise Unreachable("the name cannot be resolved") from failed[0]
        if not found:
            raise Unreachable("the name was not resolved in time")
        return found[0]


class _Bounded(httpcore.NetworkStream):
    """A connection on which no wait outlasts the deadline, however slowly bytes drip in."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._left(timeout))
        return _Bounded(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None) -> float:
        left = self._deadline.left()
        return left if timeout is None else min(left, timeout)
