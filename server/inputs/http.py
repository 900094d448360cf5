"""One HTTP request to an address that a client named: no redirects, no proxies, all of it bounded.

Fetching of inputs and delivery of webhooks both go through here.
"""

import contextlib
import re
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpcore

from server.inputs.dialling import Deadline, Dialler, Rules, Unreachable

_PLAIN = re.compile(r"[!-\[\]-~]{1,2048}")  # printable ASCII without a space or a backslash
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_PORTS = {"https": 443, "http": 80}


def parse_url(url: str, schemes: tuple[str, ...]) -> httpcore.URL:
    """Split an address into what is connected to and what is asked for.

    Raises  ValueError with a few words for anything that two readers could read differently
    """
    if not _PLAIN.fullmatch(url):
        raise ValueError("it must be 1 to 2048 characters of plain ASCII without spaces")
    parts = urlsplit(url)
    if parts.scheme not in schemes:
        raise ValueError(f"it must begin with {' or '.join(f'{name}://' for name in schemes)}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user or password")
    host, port = parts.hostname or "", parts.port
    if not _HOST.fullmatch(host) or port == 0:
        raise ValueError("its host or port cannot be read")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return httpcore.URL(
        scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme], target=target
    )


@contextlib.contextmanager
def open_url(
    method: str,
    url: httpcore.URL,
    rules: Rules,
    deadline: Deadline,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> Iterator[httpcore.Response]:
    """Send a request and give its response, whose content is not yet read.

    Raises  Refused, Unreachable; also while the content is read inside the block
    """
    host = url.host.decode()
    named = f"[{host}]" if ":" in host else host
    if url.port != _PORTS[url.scheme.decode()]:
        named = f"{named}:{url.port}"
    sent: list[tuple[bytes | str, bytes | str]] = [("Host", named), *headers.items()]
    context = rules.context or ssl.create_default_context()
    pool = httpcore.ConnectionPool(
        ssl_context=context, network_backend=Dialler(rules, deadline), max_connections=1
    )
    with _told(), pool, pool.stream(method, url, headers=sent, content=body) as response:
        yield response


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException:
        raise Unreachable("it took too long") from None
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise Unreachable(str(error)[:200] or type(error).__name__) from error
