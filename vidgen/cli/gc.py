"""`vidgen gc`: old latents, leftovers of killed runs and cached embeddings go."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vidgen.cli.naming import LATENTS_SUFFIX
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.place import home_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest, NotFound
from vidgen.media.disk import remove

_UNITS = {"m": 60, "h": 3600, "d": 86400}
_LEFTOVERS = (".part", ".old")


@flowing
def gc(
    folders: Annotated[
        list[Path] | None,
        Parameter(help="Folders with clips, whose old latents may go.", negative=()),
    ] = None,
    /,
    *,
    older_than: Annotated[str, Parameter(help="Age: 30m, 12h or 7d.")] = "7d",
    dry_run: Annotated[bool, Parameter(help="Only say what would go.", show_default=False)] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Delete old latents and leftovers in the given folders, and old cached embeddings.

    Clips are never deleted. Latents are what `vidgen decode` finishes a clip from: those of a run
    that failed go too once they are old enough.
    """
    limit = time.time() - _age(older_than)
    home = home_of(common)
    for folder in folders or []:
        if not folder.is_dir():
            raise NotFound(f"The folder {folder} does not exist.")
    found = [
        (path, kind)
        for path, kind in (*_cached(home.embeddings), *_beside_clips(folders or []))
        if path.lstat().st_mtime < limit
    ]
    items = [{"path": str(path), "kind": kind, "bytes": _size(path)} for path, kind in found]
    if not dry_run:
        for path, _ in found:
            remove(path)
    total = sum(int(str(item["bytes"])) for item in items)
    word = "would go" if dry_run else "deleted"
    lines = [f"{word}  {item['kind']}  {item['path']}" for item in items]
    lines.append(f"{len(items)} files, {total / 2**20:.1f} MiB {word}.")
    Reporter(common).answer({"dry_run": dry_run, "items": items, "bytes": total}, "\n".join(lines))


def _age(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhd])", text)
    if match is None:
        raise BadRequest(f"older_than={text!r} is not an age; write 30m, 12h or 7d.")
    return float(match[1]) * _UNITS[match[2]]


def _cached(folder: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.glob("*")):
        yield path, "embedding" if path.suffix == ".safetensors" else "leftover"


def _beside_clips(folders: list[Path]) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.name.endswith(LATENTS_SUFFIX):
                yield path, "latents"
            elif path.suffix in _LEFTOVERS and _is_ours(path):
                yield path, "leftover"


def _is_ours(path: Path) -> bool:
    """Whether a leftover was to become a file or a folder of frames of ours."""
    if path.is_dir():
        return (path / "frame_000000.png").is_file()
    return not _OURS.isdisjoint(path.suffixes)


_OURS = {".mp4", ".mkv", ".mov", ".webm", ".gif", ".png", ".webp", ".safetensors"}


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(item.stat().st_size for item in path.rglob("*") if item.is_file())
    return path.lstat().st_size
