"""Clips that a chain takes over from the chain of another job, by links to their files."""

import json
import os
import shutil
from pathlib import Path

from chaining.manifest import read_manifest
from chaining.takes import takes_of
from server.worker.segments import write_whole
from vidgen.errors import BadMedia

_LIST = "taken-over.json"


def take_over(source: Path, folder: Path, count: int) -> None:
    """Link the takes of the first clips, in the order of making, of another chain's folder.

    The choices of that chain stand, also where this one would have more trials to choose from. A
    chain that is not there, or is damaged, gives none: its clips are then made anew, the same.
    """
    names = []
    try:
        other = read_manifest(source)
    except BadMedia:
        return
    made = read_manifest(folder)
    for index in range(count):
        for path in takes_of(source / "takes", index):
            if path.name in other.superseded:
                continue
            target = folder / "takes" / path.name
            if not target.exists():
                part = target.with_name(f"{target.name}.part")
                shutil.copytree(path, part, copy_function=os.link, dirs_exist_ok=True)
                part.rename(target)
            names.append(path.name)
            if other.chosen.get(str(index)) == path.name:
                made = made.with_take(index, path.name)
    write_whole(folder / _LIST, json.dumps(names).encode("ascii"))
    made.save(folder)


def names_taken_over(folder: Path) -> frozenset[str]:
    """Return the takes of a folder that another job has made."""
    path = folder / _LIST
    return frozenset(json.loads(path.read_text("ascii"))) if path.is_file() else frozenset()
