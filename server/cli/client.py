"""Client: the API over HTTP, with the standard library alone; refusals become our errors."""

import http.client
import json
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from chaining.files import Busy
from server.cli.options import KEY_VARIABLE
from server.cli.report import visible
from server.settings import masked
from vidgen.errors import BadRequest, DoesNotFit, NotFound, VidgenError
from vidgen.media.disk import part_of

TIMEOUT_SECONDS = 60.0
TRIES = 6  # of a request that may be sent again; about a minute in all
UPLOAD = "upload:"  # before the id of an upload where a request names it
_CHUNK = 1 << 18
_AGAIN = frozenset({502, 503, 504})
_STRANGER = "no_vidgen_server"
_UNREADABLE = (ValueError, KeyError, TypeError, RecursionError, OSError, http.client.HTTPException)
_CLASSES: dict[str, type[VidgenError]] = {
    "no_worker_fits": DoesNotFit,
    "storage_full": DoesNotFit,
    "queue_full": Busy,
    "quota_exceeded": Busy,
    "budget_exceeded": Busy,
    "unavailable": Busy,
}


class Client:
    """One server and the key for it."""

    def __init__(self, address: str, key: str | None) -> None:
        """Take an address such as https://video.example.com.

        Raises  BadRequest for anything else, and for a key that no header can hold
        """
        _check_address(address)
        self.address = address.rstrip("/").removesuffix("/v1")
        self._headers = {"User-Agent": "vidgen"}
        if key:
            _check_key(key)
            self._headers["Authorization"] = f"Bearer {key}"
        self._opener = urllib.request.build_opener(_NoRedirects())

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read something; tried again while the server is away."""
        return self._json("GET", _with(path, query), again=True)

    def post(self, path: str, data: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Change something."""
        return self._json("POST", path, data or {})

    def create(self, path: str, data: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """Make a job; sent again while the server is away, with a key by which it is known.

        key     names the request for a day: the same one makes no second job; drawn when empty
        Raises  Busy when the queue is full, and what the server refuses with
        """
        return self.create_once(path, data, key or secrets.token_hex(16))[0]

    def create_once(
        self, path: str, data: Mapping[str, Any], key: str
    ) -> tuple[dict[str, Any], bool]:
        """Make a job as `create` does; return it, and whether it was there before."""
        headers = {"Idempotency-Key": key}
        made, answered = self._exchange("POST", path, data, headers, again=True)
        return self.video(made), answered.get("Idempotent-Replayed") == "true"

    def patch(self, path: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Change some fields of something."""
        return self._json("PATCH", path, data)

    def delete(self, path: str) -> dict[str, Any]:
        """Delete something."""
        return self._json("DELETE", path)

    def pages(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page by page."""
        asked = {**query, "limit": 100}
        while True:
            found = self.get(path, asked)
            yield from self.listed(found)
            if not found.get("has_more"):
                return
            asked["after"] = found["last_id"]

    def listed(self, found: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the items of an answer that is a list.

        Raises  VidgenError when it is none
        """
        items = found.get("data")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.stranger("its answer is no list")
        return items

    def video(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return an answer that is a job of ours.

        Raises  VidgenError when it is none, such as a video of another service
        """
        if "id" not in found or "state" not in found:
            raise self.stranger("its answer is no job")
        return found

    def upload(self, path: Path) -> str:
        """Send a file and return how requests name it."""
        mark = secrets.token_hex(16)
        name = path.name.replace('"', "_").encode("ascii", "replace").decode()
        head = (
            f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{mark}--\r\n".encode()

        def body() -> Iterator[bytes]:
            yield head
            with path.open("rb") as file:
                while piece := file.read(_CHUNK):
                    yield piece
            yield tail

        length = len(head) + path.stat().st_size + len(tail)
        headers = {
            "Content-Type": f"multipart/form-data; boundary={mark}",
            "Content-Length": str(length),
        }
        with self._open("POST", "/v1/uploads", body(), headers) as answer:
            return f"{UPLOAD}{self._object(answer)['id']}"

    def download(self, path: str, out: Path) -> None:
        """Write what the server has into a file, whole or not at all."""
        part = part_of(out)
        try:
            with self._open("GET", path) as answer, part.open("wb") as file:
                if answer.headers.get_content_type() == "text/html":
                    raise self.stranger("a page came in place of the file")
                expected = answer.headers.get("Content-Length")
                for piece in self._pieces(answer):
                    file.write(piece)
                if expected is not None and file.tell() != int(expected):
                    raise _broken(file.tell())
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)

    def _pieces(self, answer: Any) -> Iterator[bytes]:
        length = 0
        try:
            while piece := answer.read(_CHUNK):
                length += len(piece)
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise _broken(length) from error

    def events(self, path: str, after: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, data) of a stream of events, which goes on where it broke off."""
        seen, failed = after, 0
        while failed < TRIES:
            headers = {} if seen is None else {"Last-Event-ID": str(seen)}
            try:
                with self._open("GET", path, None, headers) as answer:
                    if answer.status == 204:
                        return
                    for kind, data in self._events(answer):
                        seen, failed = int(data["seq"]), 0
                        yield kind, data
            except (AwayError, OSError, http.client.HTTPException):
                failed += 1
            time.sleep(1)
        raise self._away("the stream of events breaks off again and again")

    def _events(self, answer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Read a stream of events; comments, which keep it alive, are left out."""
        if answer.headers.get_content_type() != "text/event-stream":
            raise self.stranger("its answer is no stream of events")
        kind = ""
        for line in answer:
            if not line.endswith(b"\n"):
                raise http.client.IncompleteRead(line)
            name, _, value = line.decode("utf-8", "replace").rstrip("\r\n").partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                data = self._parsed(value)
                if "seq" not in data:
                    raise self.stranger("its events have no numbers")
                yield kind, data

    def _json(
        self,
        method: str,
        path: str,
        data: Mapping[str, Any] | None = None,
        *,
        again: bool = False,
    ) -> dict[str, Any]:
        return self._exchange(method, path, data, again=again)[0]

    def _exchange(
        self,
        method: str,
        path: str,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = False,
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Send a request and return what came back, and its headers."""
        body = None if data is None else json.dumps(data).encode()
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        for number in range(TRIES if again else 1):
            if number:
                time.sleep(min(2 ** (number - 1), 15))
            try:
                with self._open(method, path, body, sent) as answer:
                    return self._object(answer), answer.headers
            except AwayError as error:
                last = error
        raise last

    def _object(self, answer: Any) -> dict[str, Any]:
        """Read the JSON object that an answer holds."""
        try:
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._away("its answer breaks off") from error
        return self._parsed(text)

    def _parsed(self, text: str | bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self.stranger("its answer is no JSON object")
        return found

    def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return the answer to be read.

        Raises  AwayError, or what the server refuses with
        """
        sent = {**self._headers, **(headers or {})}
        request = urllib.request.Request(self.address + path, body, sent, method=method)
        try:
            return self._opener.open(request, timeout=TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            with error:
                refusal = self._refusal(error)
            if error.code not in _AGAIN:
                raise refusal from None
            stranger = refusal.code == _STRANGER
            raise self._away(f"it says {error.code}" if stranger else refusal.message) from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last: its name
            reason = getattr(error, "reason", error)
            raise self._away(str(reason).strip() or type(error).__name__) from error

    def _away(self, reason: str) -> "AwayError":
        return AwayError(
            f"The server {self.address} does not answer ({visible(reason).rstrip('.')}); is it "
            "running?",
            code="unavailable",
        )

    def stranger(self, why: str) -> VidgenError:
        """Return the error for an answer that no server of ours gives."""
        return VidgenError(
            f"{self.address} does not answer as a Vidgen server does ({why}); name the address "
            "that vidgen serve printed.",
            code=_STRANGER,
        )

    def _refusal(self, error: urllib.error.HTTPError) -> VidgenError:
        """Return what an answer refuses with, in the server's own words where it has some."""
        try:
            said = dict(json.loads(error.read(1 << 20))["error"])
            code, message = str(said["code"]), visible(str(said["message"]))
        except _UNREADABLE:
            place = error.headers.get("Location", "")
            sent = f" and sends on to {visible(place)[:100]}" if place else ""
            return self.stranger(f"it says {error.code}{sent}")
        if code == "unauthorized":
            message += f" Give the key as --key or {KEY_VARIABLE}."
        usual = NotFound if error.code == 404 else BadRequest if error.code < 500 else VidgenError
        return _CLASSES.get(code, usual)(message, code=code, field=said.get("param"))


class AwayError(VidgenError):
    """The server cannot be reached, or is not ready."""

    exit_code = 75


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The key is for one server: nothing is followed to another."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """Refuse."""


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        named = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        good = named and "@" not in parts.netloc and re.fullmatch(r"[!-~]+", address)
    except ValueError:  # half an IPv6 address, a port that is none
        good = None
    if not good:
        raise BadRequest(
            f"server={masked(address)!r} is no address such as http://127.0.0.1:8000.",
            field="server",
        )
    if "?" in address or "#" in address:
        raise BadRequest(
            f"server={masked(address)!r} goes on behind its path; leave out ? or # and what "
            "follows.",
            field="server",
        )


def _check_key(key: str) -> None:
    found = re.search(r"[^!-~]", key)
    if found is not None:
        raise BadRequest(
            f"The API key holds {found[0]!a} as character {found.start() + 1}, which no key "
            f"has; copy it anew into --key or {KEY_VARIABLE}.",
            field="key",
        )


def _broken(length: int) -> VidgenError:
    return VidgenError(f"The download broke off after {length} bytes; try again.")


def _with(path: str, query: Mapping[str, Any] | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def job_path(job_id: str, *more: str) -> str:
    """Return the path of a job, or of something of it."""
    return "/".join(("/v1/videos", quote(job_id, safe=""), *more))
