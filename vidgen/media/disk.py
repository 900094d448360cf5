"""Files that appear whole at their name or not at all."""

import os
import shutil
from pathlib import Path


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
