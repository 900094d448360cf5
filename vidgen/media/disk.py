"""Files that appear whole at their name or not at all."""

import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path

from vidgen.errors import BadRequest, DoesNotFit

_OF_FRAMES = re.compile(r"frame_\d{6}\.png|clip\.json|recipe\.json")


def part_of(path: Path) -> Path:
    """Return a name beside a file, to write it under until it is whole; no other run has it."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")


def check_name(path: Path) -> None:
    """Raise BadRequest for a path, such as ".", that ends in no name."""
    if not path.name:
        raise BadRequest(f"{str(path)!r} is a folder; give a name in it.", field="out")


def check_target(path: Path, *, is_folder: bool = False) -> None:
    """Refuse a name at which something else stands than what may be replaced.

    is_folder  a folder of frames is to be written, else a file
    Raises     BadRequest
    """
    check_name(path)
    if not path.exists():
        return
    if not is_folder and path.is_dir():
        raise BadRequest(f"{str(path)!r} is a folder; give a name for a file.", field="out")
    if is_folder and not path.is_dir():
        raise BadRequest(
            f"{str(path)!r} is a file and a folder of frames is to be written; give another name.",
            field="out",
        )
    names = sorted(item.name for item in path.iterdir()) if is_folder else []
    others = [name for name in names if not _OF_FRAMES.fullmatch(name)]
    if others or (names and "clip.json" not in names):
        raise BadRequest(
            f"{str(path)!r} holds other files than a clip's frames (e.g. {(others or names)[0]}), "
            "which would be lost; give another name.",
            field="out",
        )


def check_folder(folder: Path, way_out: str = "choose another folder") -> None:
    """Make a folder, or raise DoesNotFit now if nothing could be written there later."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DoesNotFit(
            f"{folder} cannot be written ({error.strerror}); {way_out}.", field="out"
        ) from error


def publish(part: Path, path: Path) -> None:
    """Give a finished file or folder its name in one step, replacing an earlier one."""
    if path.exists() and (part.is_dir() or path.is_dir()):
        # A folder cannot be replaced in one step: the old one steps aside for a moment.
        aside = path.with_name(path.name + ".old")
        remove(aside)
        os.rename(path, aside)
        try:
            os.rename(part, path)
        except OSError:
            os.rename(aside, path)
            raise
        remove(aside)
    else:
        os.replace(part, path)
    sync_file(path.parent)


def remove(path: Path) -> None:
    """Delete a file or a folder with all in it, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def file_address(path: Path) -> str:
    """A name that ffmpeg takes literally, whatever it begins with ("-", "http:")."""
    return f"file:{path.absolute()}"


def sync_file(path: Path) -> None:
    """Force a file's or folder's content to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
