"""Hashing files and streams piece by piece."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

PIECE = 1 << 20


def pieces(path: Path) -> Iterator[bytes]:
    """Yield a file's content, at most 1 MiB at a time."""
    with path.open("rb") as handle:
        while piece := handle.read(PIECE):
            yield piece


def measure(content: Iterable[bytes]) -> tuple[int, str]:
    """Return the length and the sha256 (hex) of a stream."""
    digest, length = hashlib.sha256(), 0
    for piece in content:
        digest.update(piece)
        length += len(piece)
    return length, digest.hexdigest()
