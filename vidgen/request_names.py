"""The names and shapes under which a request's fields may be given, and the sentences that refuse.

It works on plain data and is told which names there are; `vidgen.request` declares them.
"""

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vidgen.errors import BadRequest

RESOLUTIONS = {"240p": 240, "360p": 360, "480p": 480, "540p": 540, "720p": 720, "1080p": 1080}
SHORTHANDS = ("size", "target_shape", "resolution", "res")


def canonical(data: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Translate aliases and shorthands to canonical fields.

    size "832x480" or "832*480", target_shape [h, w] and resolution "480p", alone or with aspect
    "16:9", become width and height; seed -1 becomes None; num_frames "5s" becomes seconds.

    known   the field that each name means, its own name included
    Raises  ValueError for an unknown name (with the nearest known ones) and a field given twice
    """
    out: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, value in _expanded(data).items():
        if key not in known:
            near = difflib.get_close_matches(key, [*known, *SHORTHANDS], n=2, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(f"unknown field {_shown(key)}{hint}")
        name = known[key]
        if name == "num_frames" and isinstance(value, str) and value.strip().endswith("s"):
            name = "seconds"
        if name in origin:
            raise ValueError(f"{origin[name]} and {key} are the same field; give one of them")
        origin[name] = key
        out[name] = None if name == "seed" and value in (-1, "-1") else value
    return out


def _expanded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the size shorthands by width and height."""
    out = {name: value for name, value in data.items() if name not in SHORTHANDS}
    short = {name: data[name] for name in SHORTHANDS if data.get(name) is not None}
    if not short:
        return out
    named = [*short, *(name for name in ("width", "height") if out.get(name) is not None)]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} both set the size; give one of them")
    name, value = next(iter(short.items()))
    if name == "size":
        match = re.fullmatch(r"\s*(\d{1,6})\s*[xX*×]\s*(\d{1,6})\s*", str(value))
        if match is None:
            raise ValueError(f"size={_shown(value)} is not WIDTHxHEIGHT, e.g. 832x480")
        return {**out, "width": int(match[1]), "height": int(match[2])}
    if name == "target_shape":
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"target_shape={_shown(value)} is not [height, width]")
        return {**out, "height": value[0], "width": value[1]}
    aspect = out.pop("aspect", out.pop("aspect_ratio", None))
    return {**out, **at_resolution("16:9" if aspect is None else aspect, value)}


def ratio_of(aspect: Any) -> Fraction:
    """Return width over height of "16:9".

    Raises  ValueError
    """
    match = re.fullmatch(r"\s*([1-9]\d{0,3})\s*[:/]\s*([1-9]\d{0,3})\s*", str(aspect))
    if match is None:
        raise ValueError(f"aspect={_shown(aspect)} is not W:H, e.g. 16:9")
    return Fraction(int(match[1]), int(match[2]))


def at_resolution(aspect: Any, resolution: Any) -> dict[str, int]:
    """Return width and height of an aspect ratio at a named resolution (its shorter side).

    Raises  ValueError
    """
    if str(resolution) not in RESOLUTIONS:
        raise ValueError(f"resolution={_shown(resolution)} is not one of {', '.join(RESOLUTIONS)}")
    ratio, short = ratio_of(aspect), RESOLUTIONS[str(resolution)]
    longer = round(short * max(ratio, 1 / ratio) / 2) * 2
    return {"width": longer, "height": short} if ratio >= 1 else {"width": short, "height": longer}


def _shown(value: Any) -> str:
    """Show a value in a message, not all of a long one."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_MOST_TOLD = 4  # faults of one request
# By pydantic's type of an error; it fills in the bounds.
_PHRASES = {
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} of them",
    "too_long": "must have at most {max_length} of them",
    "literal_error": "must be one of {expected}",
    "string_type": "must be text",
    "string_unicode": "holds half of a character, which is no text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    "int_parsing_size": "is too large a number",
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    "finite_number": "must be a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
    "string_pattern_mismatch": "must match {pattern}",
    "extra_forbidden": "is no field",
}


def what_is_wrong(item: ErrorDetails) -> str:
    """Return what is wrong, to stand behind a field's name and value."""
    phrase = _PHRASES.get(item["type"])
    if phrase is not None:
        return phrase.format_map(
            {name: _written(bound) for name, bound in item.get("ctx", {}).items()}
        )
    text = str(item["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _written(bound: Any) -> Any:
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def explain(error: ValidationError) -> BadRequest:
    """Turn pydantic's error into one sentence of ours."""
    parts: list[str] = []
    first: str | None = None
    found = error.errors()
    for item in found[:_MOST_TOLD]:
        where = ".".join(str(part) for part in item["loc"] if isinstance(part, str | int))
        text = what_is_wrong(item)
        first = first or where.split(".")[0] or None
        if not where:
            parts.append(text)
        elif item["type"] == "missing":
            parts.append(f"{where} is missing")
        else:
            parts.append(f"{where}={_shown(item['input'])}: {text}")
    if len(found) > _MOST_TOLD:
        parts.append(f"and {len(found) - _MOST_TOLD} more")
    return BadRequest("; ".join(parts) + ".", field=first)
