"""Fetching an input by URL: https, public addresses on every hop, bounded in bytes and time."""

from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

import httpcore

from server.inputs.dialling import Deadline, Refused, Rules, Unreachable
from server.inputs.http import open_url, parse_url
from server.problems import Problem
from server.settings import ServerSettings

_REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 3


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched: its length, and the last part of the address as its name."""

    bytes: int
    filename: str


def fetch_url(
    url: str,
    settings: ServerSettings,
    max_bytes: int,
    into: BinaryIO,
    *,
    field: str | None = None,
    rules: Rules | None = None,
) -> Fetched:
    """Fetch a file into an open file.

    max_bytes  of the content; it is asked for uncompressed, and refused otherwise
    field      of the request, for messages
    rules      where it may go; None: https to public addresses, url_seconds in all
    Raises     Problem invalid_request (not allowed), input_too_large, input_fetch_failed
    """
    if not settings.url_fetch:
        raise Problem(
            "invalid_request",
            f"{field or 'The input'} is a URL, which this server does not fetch; upload the file.",
            param=field,
        )
    rules = rules or Rules(seconds=settings.url_seconds)
    deadline = Deadline(rules.seconds)
    found = url
    for _hop in range(MAX_REDIRECTS + 1):
        try:
            answer = _one_hop(found, rules, deadline, max_bytes, into)
        except Refused:
            text = "leads to an address that is not public, where this server fetches nothing"
            raise _problem("invalid_request", url, text, field) from None
        except ValueError as error:
            raise _problem("invalid_request", url, f"cannot be used: {error}", field) from None
        except _TooLarge:
            text = f"holds more than {max_bytes / 2**20:g} MiB; use a smaller file"
            raise _problem("input_too_large", url, text, field) from None
        except Unreachable as error:
            raise _problem("input_fetch_failed", url, f"gave no file: {error}", field) from None
        if isinstance(answer, int):
            return Fetched(answer, urlsplit(found).path.rpartition("/")[2])
        found = answer
    text = f"redirects more than {MAX_REDIRECTS} times; give the last address"
    raise _problem("input_fetch_failed", url, text, field)


class _TooLarge(Exception):
    pass


def _one_hop(
    url: str, rules: Rules, deadline: Deadline, max_bytes: int, into: BinaryIO
) -> int | str:
    """Fetch one address and return the bytes written, or the address that it points to."""
    target = parse_url(url, rules.schemes)
    headers = {"Accept": "image/*, video/*", "Accept-Encoding": "identity", "User-Agent": "vidgen"}
    with open_url("GET", target, rules, deadline, headers=headers) as response:
        sent = {name.lower(): value for name, value in response.headers}
        if response.status in _REDIRECTS and b"location" in sent:
            return urljoin(url, sent[b"location"].decode("latin-1"))
        if response.status != 200:
            raise Unreachable(f"its server answered {response.status}")
        if sent.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Unreachable("its server compresses it, though asked not to")
        return _copy(response, max_bytes, into)


def _copy(response: httpcore.Response, max_bytes: int, into: BinaryIO) -> int:
    length = 0
    for piece in response.iter_stream():
        length += len(piece)
        if length > max_bytes:
            raise _TooLarge
        into.write(piece)
    return length


def _problem(code: str, url: str, text: str, field: str | None) -> Problem:
    where = f"{field}: " if field else ""
    shown = url.partition("?")[0][:200]  # what follows may be a password
    return Problem(code, f"{where}{shown} {text}.", param=field)
