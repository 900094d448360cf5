"""FolderStore: the store in a folder of this machine; files enter it by a link where they can."""

import os
import secrets
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from obstore.store import LocalStore

from server.problems import Problem
from server.store.hashing import measure, pieces
from server.store.keys import check_key, check_prefix
from server.store.store import Store
from server.store.trouble import damaged, told
from vidgen.media.disk import sync_file


class FolderStore(Store):
    """A store whose key a/b is the file a/b of a folder, which is made when missing."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        super().__init__(LocalStore(self._root))

    def local_path(self, key: str) -> Path | None:
        """Return where a file lies, None when there is none; links lead nowhere."""
        path = self._root / check_key(key)
        return path if path.is_file() and self._is_inside(path) else None

    def free_bytes(self) -> int | None:
        """Return the room that is left on the disk."""
        return shutil.disk_usage(self._root).free

    def get_file(self, key: str, path: Path) -> None:
        """Bring a file to a path, by a link where it can be; it must only be read there."""
        self._check_readable(key)
        with told(key):
            path.parent.mkdir(parents=True, exist_ok=True)
            _enter(self._root / key, path)

    def modified(self, prefix: str) -> float:
        """Return when anything below a prefix was last written; 0 when nothing is there."""
        folder = self._root / check_prefix(prefix)
        with told(prefix):
            found = [folder, *folder.rglob("*")] if folder.is_dir() else []
            return max((path.lstat().st_mtime for path in found), default=0.0)

    def delete_prefix(self, prefix: str) -> None:
        """Delete a folder with all in it; what is gone already is no error."""
        folder = self._root / check_prefix(prefix)
        with told(prefix):
            if folder.is_symlink() and self._is_inside(folder.parent):
                folder.unlink()
            elif self._is_inside(folder.parent):
                shutil.rmtree(folder, onerror=_unless_gone)
            else:
                raise _outside(prefix)

    def _put(self, key: str, source: Path | bytes, length: int, sha256: str) -> None:
        target = self._root / key
        # Looked at apart from the form of the key: what is written outside cannot be undone.
        if not self._is_inside(target.parent):
            raise _outside(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        linked = _enter(source, target)
        for folder in target.parents[: len(Path(key).parts)]:
            sync_file(folder)
        if target.stat().st_size == length and (linked or measure(pieces(target))[1] == sha256):
            return
        target.unlink()
        raise damaged(key)

    def _is_inside(self, path: Path) -> bool:
        """Whether a path lies in the store and leads there without any link."""
        return path.resolve() == path and path.is_relative_to(self._root)

    def _check_readable(self, key: str) -> None:
        if self.local_path(key) is None:
            raise Problem("not_found", f"{key} is not in the store.")


def _outside(key: str) -> Problem:
    return Problem("storage_failed", f"{key} leads out of the store.")


def _enter(source: Path | bytes, target: Path) -> bool:
    """Give content its name in one step and say whether that was by a link."""
    # obstore lists no name that ends in # and digits.
    part = target.with_name(f"{target.name}#{secrets.randbelow(10**12)}")
    try:
        linked = _write(source, part)
        sync_file(part)
        part.replace(target)
        return linked
    finally:
        part.unlink(missing_ok=True)  # a rename onto a link to the same file leaves it


def _write(source: Path | bytes, part: Path) -> bool:
    if isinstance(source, bytes):
        part.write_bytes(source)
        return False
    whole = source.resolve(strict=True)
    try:
        os.link(whole, part)
    except OSError:  # another disk, or one without links
        shutil.copyfile(whole, part)
        return False
    return True


def _unless_gone(
    _function: Any,
    _path: str,
    error: tuple[type[BaseException], BaseException, TracebackType],
) -> None:
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]
