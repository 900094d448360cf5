"""Bodies: JSON, multipart and urlencoded forms, read into one plain mapping with files in place.

It knows the shapes of bodies and no field's name; `fields` says what the names mean.
"""

import hashlib
import json
import re
from typing import Any, NoReturn

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from server.problems import Problem

TEXT_MIB = 32  # of JSON, and of one field of a form that is no file
MAX_DEPTH = 32
MAX_FIELDS = 2000
MAX_FILES = 16
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_KEY = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")


async def read_body(request: Request) -> dict[str, Any]:
    """Return the fields of a request's body; a file is an UploadFile at its field's place.

    Raises  Problem unsupported_media, input_too_large or invalid_request
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind == JSON:
        fields = await run_in_threadpool(_read_json, await _whole(request))
    elif kind in (MULTIPART, FORM):
        fields = await _read_form(request)
    elif not kind and not await _whole(request):
        fields = {}
    else:
        raise Problem(
            "unsupported_media",
            f"Content-Type {kind[:80] or 'missing'!r} is not understood; send {JSON}, "
            f"{MULTIPART} or {FORM}.",
        )
    check_texts(fields)
    return fields


async def _whole(request: Request) -> bytes:
    parts: list[bytes] = []
    room = TEXT_MIB * 2**20
    try:
        async for part in request.stream():
            room -= len(part)
            if room < 0:
                raise Problem(
                    "input_too_large",
                    f"A JSON body may have {TEXT_MIB} MiB; send files as {MULTIPART} or upload "
                    "them.",
                )
            parts.append(part)
    except ClientDisconnect:
        raise _cut_off() from None
    return b"".join(parts)


def _cut_off() -> Problem:
    """Return what a log and the counters say of a body that broke off; nobody hears it."""
    return Problem("invalid_request", "The body broke off before its end.")


def _read_json(body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        data = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except RecursionError:
        raise Problem("invalid_request", "The body is nested too deeply.") from None
    except ValueError as error:
        raise Problem("invalid_request", f"The body is not JSON: {error}.") from None
    if not isinstance(data, dict):
        raise Problem(
            "invalid_request", f"The body must be a JSON object, not a {type(data).__name__}."
        )
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for number, (name, _) in enumerate(pairs)
                     if any(name == other for other, _ in pairs[:number]))  # fmt: skip
        raise ValueError(f"{twice[:60]!r} is given twice")
    return made


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


async def _read_form(request: Request) -> dict[str, Any]:
    try:
        form = await request.form(
            max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=TEXT_MIB * 2**20
        )
    except ClientDisconnect:
        raise _cut_off() from None
    except HTTPException as error:
        raise Problem("invalid_request", f"The form cannot be read: {error.detail}") from None
    return unflatten(form)


def unflatten(form: FormData) -> dict[str, Any]:
    """Put a form's flat names back together: a[b], a[], a[0][b] and a[][b].

    Raises  Problem invalid_request for a name that is none, or that is two things at once
    """
    root: dict[str, Any] = {}
    for name, value in form.multi_items():
        match = _KEY.fullmatch(name)
        if match is None or match[2].count("[") > MAX_DEPTH:
            raise Problem(
                "invalid_request", f"{name[:60]!r} is not the name of a field.", param=name[:60]
            )
        _put(root, name, [match[1], *re.findall(r"\[([^\[\]]*)\]", match[2])], value)
    return {name: _lists(value) for name, value in root.items()}


def _put(root: dict[str, Any], name: str, path: list[str], value: Any) -> None:
    """Lay one value at its path; lists are held as dicts with the keys 0, 1, .. until the end."""
    here, key = root, path[0]
    for number, part in enumerate(path[1:], 1):
        below = here.setdefault(key, {})
        if not isinstance(below, dict):
            raise Problem(
                "invalid_request",
                f"{name[:60]!r} is given as a value and as an object.",
                param=path[0],
            )
        here, key = below, part or _next(below, path[number + 1 :])
    if key in here:
        raise Problem("invalid_request", f"{name[:60]!r} is given twice.", param=path[0])
    here[key] = value


def _next(items: dict[str, Any], rest: list[str]) -> str:
    """Return where an item of a[] goes: after the last, or into it while it lacks the next name."""
    if rest and rest[0] and items:
        last = str(len(items) - 1)
        if isinstance(items.get(last), dict) and rest[0] not in items[last]:
            return last
    return str(len(items))


def _lists(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    made = {key: _lists(item) for key, item in value.items()}
    if made and list(made) == [str(number) for number in range(len(made))]:
        return list(made.values())
    return made


def check_texts(value: Any, where: str = "", depth: int = 0) -> None:
    """Refuse what no database holds: NUL and halves of characters, and nesting without end.

    Raises  Problem invalid_request naming the field
    """
    if depth > MAX_DEPTH:
        raise Problem("invalid_request", f"{where[:60]} is nested too deeply.", param=_top(where))
    if isinstance(value, str):
        if "\0" in value or not _encodable(value):
            raise Problem(
                "invalid_request",
                f"{where[:60] or 'A name'} holds a character that is no text (NUL or half of a "
                "pair); leave it out.",
                param=_top(where),
            )
    elif isinstance(value, dict):
        for key, item in value.items():
            check_texts(key, where, depth + 1)
            check_texts(item, f"{where}.{key}" if where else key, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            check_texts(item, f"{where}.{number}", depth + 1)


def _encodable(text: str) -> bool:
    if text.isascii():  # a picture in the body has millions of letters
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _top(where: str) -> str | None:
    return where.split(".")[0][:60] or None


def body_hash(fields: dict[str, Any]) -> str:
    """Return a hash of parsed fields, the same however they were encoded and ordered.

    A file counts by its content.
    """
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False, default=_digest)
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(value: Any) -> str:
    assert isinstance(value, UploadFile)
    value.file.seek(0)
    found = hashlib.file_digest(value.file, "sha256").hexdigest()  # type: ignore[arg-type]
    value.file.seek(0)
    return f"file:{found}"
