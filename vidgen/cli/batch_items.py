"""The items of a batch: prompts x images x grid, each a complete request; and those done."""

import csv
import io
import itertools
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any

from vidgen.cli.naming import request_id
from vidgen.cli.paths import with_absolute_paths
from vidgen.errors import BadRequest, NotFound
from vidgen.recipe import file_fingerprints
from vidgen.request import VideoRequest, canonical_names, parse_request
from vidgen.settings import listed, outweighed

MANIFEST = "batch.jsonl"
MAX_CELLS = 10_000


@dataclass(frozen=True, slots=True)
class Item:
    """One clip of a batch.

    id     names its content: the canonical request and the files that it reads
    where  the line of the batch file, for messages; all of them where several say the same
    """

    id: str
    where: str
    request: VideoRequest


def read_prompts(file: Path) -> list[tuple[str, dict[str, Any]]]:
    """Read a batch file: .txt (prompts), .jsonl (requests) or .csv (requests under a header).

    Returns  (where, fields) a line; empty lines and, in .txt, those that begin with # are left out
    """
    reader = {".txt": _text, ".jsonl": _json_lines, ".csv": _csv}.get(file.suffix.lower())
    if reader is None:
        raise BadRequest(f"{file} must end in .txt, .jsonl or .csv.")
    try:
        content = file.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise BadRequest(f"{file} is not UTF-8 text.") from None
    found = [(f"{file.name}:{number}", data) for number, data in reader(content, file)]
    if not found:
        raise BadRequest(f"{file} holds no prompt.")
    return found


def _text(content: str, _file: Path) -> list[tuple[int, dict[str, Any]]]:
    lines = enumerate((line.strip() for line in content.split("\n")), start=1)
    return [(n, {"prompt": line}) for n, line in lines if line and not line.startswith("#")]


def _json_lines(content: str, file: Path) -> list[tuple[int, dict[str, Any]]]:
    found = []
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{file.name}:{number} is not JSON: {error}.") from None
        if not isinstance(data, dict):
            raise BadRequest(f"{file.name}:{number} must be an object of fields, e.g. "
                             '{"prompt": "a ball"}.')  # fmt: skip
        found.append((number, data))
    return found


def _csv(content: str, file: Path) -> list[tuple[int, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(content), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise BadRequest(f"{file.name}:{reader.line_num} is not CSV: {error}.") from None
    head = [name.strip() for name in rows[0][1]] if rows else []
    if "" in head or len(set(head)) < len(head):
        raise BadRequest(f"{file.name}:{rows[0][0]} must name every column, each by another name.")
    for number, row in rows:
        if len(row) != len(head):
            raise BadRequest(f"{file.name}:{number} has {len(row)} cells, the header {len(head)}.")
    return [
        (number, {name: cell for name, cell in zip(head, row, strict=True) if cell != ""})
        for number, row in rows[1:]
    ]


def read_grid(texts: Iterable[str]) -> list[dict[str, str]]:
    """Return every combination of key=a,b texts; 1..4 counts."""
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise BadRequest(f"grid={text!r} is not KEY=A,B, e.g. cfg=1,3,5 or seed=1..4.",
                             field="grid")  # fmt: skip
        axes.append((key.replace("-", "_"), _listed(text, values)))
    keys = [key for key, _ in axes]
    if len(set(keys)) < len(keys):
        raise BadRequest(f"The grid names {', '.join(keys)}; name each once.", field="grid")
    count = math.prod(len(values) for _, values in axes)
    if count > MAX_CELLS:
        raise BadRequest(f"The grid has {count:,} cells; give at most {MAX_CELLS:,}.", field="grid")
    return [
        dict(zip(keys, map(str, cell), strict=True))
        for cell in itertools.product(*(values for _, values in axes))
    ]


def _listed(text: str, values: str) -> Sequence[object]:
    """Return the values of one text of a grid.

    Raises  BadRequest when there is none
    """
    match = re.fullmatch(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})", values)
    found: Sequence[object] = (
        range(int(match[1]), int(match[2]) + 1)
        if match is not None
        else [value.strip() for value in values.split(",") if value.strip()]
    )
    if not found:
        raise BadRequest(f"grid={text!r} gives no value; write e.g. seed=1..4.", field="grid")
    return found


def find_images(pattern: str | None) -> list[str]:
    """Return the files that a pattern means, sorted."""
    if pattern is None:
        return []
    found = sorted(path for path in glob(pattern, recursive=True) if Path(path).is_file())
    if not found:
        raise NotFound(f"images={pattern!r} means no file.", field="images")
    return found


def make_items(
    base: Mapping[str, Any],
    prompts: list[tuple[str, dict[str, Any]]],
    images: list[str],
    grid: list[dict[str, str]],
    seed: int,
) -> list[Item]:
    """Join everything to requests of one clip each; the more special word wins.

    base  the fields that all items share, below a line's own, below the grid's
    seed  of items for which nothing gives one: the same for all, so that only the grid differs
    Raises  BadRequest naming the line
    """
    items: dict[str, Item] = {}
    pictures: list[str | None] = [*images] or [None]
    for (where, line), image, cell in itertools.product(prompts, pictures, grid or [{}]):
        try:
            own = outweighed(listed(canonical_names(line)), listed(canonical_names(cell)))
            data = outweighed(base, own)
            if image is not None:
                if data.get("image") is not None:
                    raise ValueError("image and --images both give the first frame; use one")
                data["image"] = image
            data["seed"] = seed if data.get("seed") is None else data["seed"]
            request = parse_request(data)
        except ValueError as error:  # a BadRequest is one too
            raise BadRequest(f"{where}: {str(error).rstrip('.')}.") from None
        assert request.seed is not None
        for index in range(request.n):
            one = parse_request({**request.given(), "n": 1, "seed": request.seed + index})
            content = {**one.given(), "files": file_fingerprints(one)}
            item = Item(request_id(content), where, with_absolute_paths(one))
            same = items.get(item.id)
            if same is not None:
                item = replace(same, where=f"{same.where}, {where}")
            items[item.id] = item
    return list(items.values())


class Manifest:
    """The finished items of a batch, in its folder; a line is written when a clip is whole."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST
        self._lines, self._torn = _read_lines(self.path)

    def seed(self) -> int:
        """Return the batch's drawn seed: an earlier run's, so that its items are found again."""
        drawn = [line["seed"] for line in self._lines if "seed" in line]
        if not drawn:
            return secrets.randbits(31)
        seed = drawn[0]
        if type(seed) is not int or seed < 0:
            raise BadRequest(
                f"{self.path} gives seed={seed!r}, which is none; mend that line or choose another "
                "--out."
            )
        return seed

    def keep_seed(self, seed: int) -> None:
        """Note the seed before the first item."""
        if not any("seed" in line for line in self._lines):
            self._add({"seed": seed})

    def file_of(self, item: Item) -> Path | None:
        """Return the file of a finished item if it is still there."""
        names = [
            line["file"] for line in self._lines if line.get("id") == item.id and "file" in line
        ]
        path = self.path.parent / str(names[-1]) if names else None
        return path if path is not None and path.exists() else None

    def add(self, item: Item, path: Path) -> None:
        """Note that an item is finished."""
        name = str(path.relative_to(self.path.parent))
        self._add({"id": item.id, "file": name, "request": item.request.given()})

    def _add(self, line: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * self._torn + json.dumps(line, ensure_ascii=False) + "\n")
        self._torn = False
        self._lines.append(line)


def _read_lines(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """Read a manifest and whether its last line was cut off by a kill; such lines do not count."""
    content = path.read_bytes() if path.is_file() else b""
    lines = []
    for text in content.split(b"\n"):
        try:
            lines.append(json.loads(text))
        except (ValueError, RecursionError):
            continue
    return [line for line in lines if isinstance(line, dict)], content[-1:] not in (b"", b"\n")
