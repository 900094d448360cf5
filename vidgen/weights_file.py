"""What a large file says of itself without being loaded: its fingerprint, a safetensors header."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidgen.budgets import BUDGETS_FILE
from vidgen.errors import BadRequest

EDGE = 2**20
LONGEST_HEADER = 100_000_000  # the format's own limit, so that a wrong file cannot fill memory


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a safetensors file.

    shapes       every tensor's shape by its name
    metadata     what the writer added
    whole_bytes  how long the file is when nothing of it is missing
    """

    shapes: Mapping[str, tuple[int, ...]]
    metadata: Mapping[str, str]
    whole_bytes: int


class _Damaged(ValueError):
    pass


def safetensors_header(path: Path, *, field: str | None = None) -> Header:
    """Read a safetensors file's header and none of its tensors.

    field   the request's field that an error names
    Raises  BadRequest when the file cannot be opened or is not of that format
    """
    try:
        return _header(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        reason = str(error) if isinstance(error, _Damaged) else "its header is damaged"
    raise BadRequest(
        f"{path} cannot be read as a safetensors file ({reason}); fetch or save it again.",
        field=field,
    )


def _header(path: Path) -> Header:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size <= LONGEST_HEADER:
            raise _Damaged("it has no header of a legal length")
        text = file.read(size)
    if len(text) < size:
        raise _Damaged("it ends inside its header")
    items: dict[str, dict[str, Any]] = json.loads(text)
    metadata = items.pop("__metadata__", None) or {}
    ends = [int(item["data_offsets"][1]) for item in items.values()]
    return Header(
        shapes={name: tuple(map(int, item["shape"])) for name, item in items.items()},
        metadata={str(name): str(value) for name, value in metadata.items()},
        whole_bytes=8 + size + max(ends, default=0),
    )


def shard_names(path: Path) -> frozenset[str]:
    """Return the names of the files over which the index of split weights spreads them.

    Raises  OSError, or ValueError when it is no such index
    """
    try:
        data = json.loads(path.read_text("utf-8"))
    except RecursionError:
        data = None
    named = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise ValueError("it has no weight_map that names files")
    return frozenset(named.values())


def file_fingerprint(path: Path) -> str:
    """Identify a file by its size and its first and last mebibyte, since some have gigabytes."""
    return _fingerprint([(path, "")])


def folder_fingerprint(folder: Path) -> str:
    """Identify a folder's weights: every file's name, size, first and last mebibyte.

    Budgets are measured on the weights, so they are no part of them. A part may be a link to
    another model's.
    """
    files = [
        path
        for part in sorted(folder.iterdir())
        for path in (sorted(part.rglob("*")) if part.is_dir() else [part])
        if path.suffix in (".safetensors", ".json", ".model")
        and path.is_file()
        and path != folder / BUDGETS_FILE
    ]
    return _fingerprint([(path, f"{path.relative_to(folder).as_posix()}:") for path in files])


def _fingerprint(files: list[tuple[Path, str]]) -> str:
    digest = hashlib.sha256()
    for path, name in files:
        size = path.stat().st_size
        digest.update(f"{name}{size}:".encode())
        with path.open("rb") as file:
            digest.update(file.read(EDGE))
            if size > EDGE:
                file.seek(max(EDGE, size - EDGE))
                digest.update(file.read(EDGE))
    return digest.hexdigest()[:32]
