"""Reading stories: YAML, JSON, CSV, or lines such as "5s: a cat walks"."""

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from chaining.story import Story, parse_story
from vidgen.errors import BadMedia, BadRequest, NotFound
from vidgen.home import expanded

_LINE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*s\s*:\s*(.*\S)\s*", re.DOTALL)
_PICTURES = ("image", "last_image")
MAX_BYTES = 8 * 2**20  # several times the longest story that is allowed
_MAX_NODES = 100_000  # values of a YAML file, those counted anew that an alias repeats


def read_story(path: str | Path, **changes: Any) -> Story:
    """Read a story's file by its suffix: .yaml, .yml, .json or .csv (one shot a row).

    changes  fields of the story that replace the file's
    Pictures are found beside the file.
    Raises   NotFound, BadMedia, BadRequest
    """
    file = Path(path)
    if not is_named_as_story(file):
        raise BadRequest(
            f"{file.name} is no story that can be read; use {', '.join(_READERS)}.", field="story"
        )
    data = _READERS[file.suffix.lower()](_text(file), file.name)
    if isinstance(data, Mapping):
        data = _beside({**data, **changes}, file.parent)
    return parse_story(data)


def is_named_as_story(file: Path) -> bool:
    """Return whether a file has a suffix that stories are read by."""
    return file.suffix.lower() in _READERS


def story_of_lines(lines: Sequence[str], **fields: Any) -> Story:
    """Make a story of lines such as "5s: a cat walks"; fields are the story's other ones.

    Raises  BadRequest
    """
    shots = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None:
            raise BadRequest(
                f'{line[:60]!r} is no shot; write its length and text, e.g. "5s: a cat walks".',
                field="shots",
            )
        shots.append({"seconds": float(match[1]), "prompt": match[2]})
    return parse_story({"shots": shots, **fields})


def _text(file: Path) -> str:
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise BadMedia(f"{file.name} has {size} bytes, a story at most {MAX_BYTES}.")
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"{file} does not exist.") from None
    except (OSError, ValueError) as error:
        raise BadMedia(f"{file.name} cannot be read as text ({error}).") from error


def _yaml(text: str, name: str) -> Any:
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        count = _count(root, {})
        data = None if root is None or count > _MAX_NODES else loader.construct_document(root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        why = getattr(error, "problem", None) or str(error).split("\n", 1)[0]
        raise BadMedia(f"{name} is not YAML{where}: {why.rstrip('.')}.") from error
    if count > _MAX_NODES:
        raise BadMedia(
            f"{name} names more than {_MAX_NODES} values, aliases counted each time; write a "
            "shorter story."
        )
    return data


def _count(node: Any, known: dict[int, float]) -> float:
    """Return how many values a node stands for with its aliases written out; inf in a circle."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        known[id(node)] = math.inf  # stays for a node that holds itself
        children = node.value
        if isinstance(node, yaml.MappingNode):
            _refuse_twice([key for key, _ in node.value])
            children = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_count(child, known) for child in children)
    return known[id(node)]


def _refuse_twice(keys: Sequence[Any]) -> None:
    """Raise YAMLError for a key that is there twice; but for merges, the first would be lost."""
    seen: set[str] = set()
    for key in keys:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            continue
        if key.value in seen:
            raise yaml.MarkedYAMLError(
                problem=f"{key.value[:60]!r} is there twice", problem_mark=key.start_mark
            )
        seen.add(key.value)


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadMedia(f"{name} is not JSON: {error}.") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; of two with one key, one would be lost without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"{twice[:60]!r} is there twice")
    return found


def _csv(text: str, name: str) -> Any:
    """Read rows; values are parted by what parts the header: a comma, semicolon or tab."""
    header = text.lstrip().split("\n", 1)[0]
    between = next((mark for mark in ",;\t" if mark in header), ",")
    rows = csv.reader(
        io.StringIO(text, newline=""), delimiter=between, skipinitialspace=True, strict=True
    )
    try:
        lines = [(rows.line_num, row) for row in rows if any(value.strip() for value in row)]
    except csv.Error as error:
        raise BadMedia(f"{name}, line {rows.line_num}: not CSV ({error}).") from error
    names = [value.strip() for value in lines[0][1]] if lines else []
    if len(set(names)) < len(names):
        raise BadMedia(f"{name} has a column twice: {', '.join(names)}.")
    shots = []
    for number, row in lines[1:]:
        if len(row) > len(names):
            raise BadMedia(f"{name}, line {number}: more values than the header has names.")
        pairs = zip(names, (value.strip() for value in row), strict=False)
        shots.append({key: value for key, value in pairs if value})
    return {"shots": shots}


def _beside(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the data with the names of pictures taken from the story's own folder."""
    found = dict(data)
    if isinstance(found.get("end_image"), str):
        found["end_image"] = _picture(found["end_image"], folder)
    if isinstance(found.get("shots"), list):
        found["shots"] = [
            {
                key: _picture(value, folder)
                if key in _PICTURES and isinstance(value, str)
                else value
                for key, value in shot.items()
            }
            if isinstance(shot, Mapping)
            else shot
            for shot in found["shots"]
        ]
    return found


def _picture(name: str, folder: Path) -> str:
    return name if name.startswith("data:") else str(folder / expanded(name))


_READERS = {".yaml": _yaml, ".yml": _yaml, ".json": _json, ".csv": _csv}
