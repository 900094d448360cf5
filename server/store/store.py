"""Store: files by key in any bucket that obstore speaks to; `FolderStore` is the one on disk."""

import secrets
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import obstore
from obstore.store import ObjectStore

from server.media_types import media_type_of
from server.problems import Problem
from server.store.facts import FileFacts
from server.store.hashing import PIECE, measure, pieces
from server.store.keys import check_key, check_prefix
from server.store.trouble import damaged, told
from vidgen.media.disk import sync_file

_PART = 8 << 20  # of an upload in parts, and at most four of them in memory
_DELETE = 500  # keys in one call
_SHA256 = "sha256"


class Store:
    """Files by key. Every method raises Problem not_found, storage_full or storage_failed.

    A put is atomic: the key has the old file or the new one, whole, and it was read back.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def put_file(self, key: str, path: Path) -> FileFacts:
        """Store a file, which must not be changed in place afterwards, and check what arrived."""
        check_key(key)
        with told(key):
            length, sha256 = measure(pieces(path))
            self._put(key, path, length, sha256)
        return FileFacts(key, length, sha256, media_type_of(key))

    def put_bytes(self, key: str, data: bytes) -> FileFacts:
        """Store a few bytes and check what arrived."""
        check_key(key)
        length, sha256 = measure([data])
        with told(key):
            self._put(key, data, length, sha256)
        return FileFacts(key, length, sha256, media_type_of(key))

    def get_range(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Return the bytes start..end-1, or all from start on, in pieces of about 1 MiB.

        A missing key and a range outside the file (range_not_satisfiable) raise at once; a file
        that is deleted while it is read is read to its end.
        """
        self._check_readable(key)
        length, _ = self.head(key)
        stop = length if end is None else min(end, length)
        if start < 0 or start > stop or (start == length and length > 0):
            raise Problem(
                "range_not_satisfiable",
                f"Bytes {start}..{end} are not in {key}, which has {length}.",
                headers={"Content-Range": f"bytes */{length}"},
            )
        if start == stop:
            return iter(())
        with told(key):
            found = obstore.get(self._objects, key, options={"range": (start, stop)})
            stream = iter(found.stream(min_chunk_size=PIECE))
        return self._told_pieces(key, stream)

    def head(self, key: str) -> tuple[int, str | None]:
        """Return the length of a file and its sha256, None where the store keeps no such note."""
        self._check_readable(key)
        with told(key):
            found = obstore.get(self._objects, key, options={"head": True})
            noted = found.attributes.get(_SHA256)
        return found.meta["size"], None if noted is None else str(noted)

    def get_file(self, key: str, path: Path) -> None:
        """Bring a file to a path, whole or not at all; its folder is made."""
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        length, sha256 = self.head(key)
        with told(key):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as handle:
                    for piece in self.get_range(key):
                        handle.write(piece)
                found = measure(pieces(part))
                if found[0] != length or sha256 not in (None, found[1]):
                    raise damaged(key)
                sync_file(part)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with a prefix."""
        check_prefix(prefix)
        with told(prefix):
            for batch in obstore.list(self._objects, prefix):
                for item in batch:
                    yield item["path"]

    def folders(self, prefix: str) -> list[str]:
        """Return the names one level below a prefix that hold files themselves, in order."""
        check_prefix(prefix)
        with told(prefix):
            found = obstore.list_with_delimiter(self._objects, prefix)["common_prefixes"]
        return sorted(name.rstrip("/").rpartition("/")[2] for name in found)

    def modified(self, prefix: str) -> float:
        """Return when anything below a prefix was last written; 0 when nothing is there."""
        check_prefix(prefix)
        with told(prefix):
            times = [
                item["last_modified"].timestamp()
                for batch in obstore.list(self._objects, prefix)
                for item in batch
            ]
        return max(times, default=0.0)

    def delete_prefix(self, prefix: str) -> None:
        """Delete all below a prefix; what is gone already is no error."""
        keys = self.keys(prefix)
        while batch := list(islice(keys, _DELETE)):
            with told(prefix):
                obstore.delete(self._objects, batch)

    def push(self, folder: Path, prefix: str) -> list[FileFacts]:
        """Store a folder's files that are not there already, and return what was stored.

        Unfinished files (*.part) and hidden ones are left out.
        """
        check_prefix(prefix)
        made = []
        for path in sorted(folder.rglob("*")):
            inner = path.relative_to(folder)
            hidden = any(part.startswith(".") for part in inner.parts)
            if hidden or path.suffix == ".part" or not path.is_file():
                continue
            key = prefix + inner.as_posix()
            if not self._has(key, path):
                made.append(self.put_file(key, path))
        return made

    def pull(self, prefix: str, folder: Path) -> None:
        """Bring all below a prefix into a folder; files that are there are kept."""
        for key in self.keys(prefix):
            path = folder / key.removeprefix(prefix)
            if not path.exists():
                self.get_file(key, path)

    def local_path(self, key: str) -> Path | None:
        """Return where a file lies on this machine, None when it lies elsewhere."""
        check_key(key)
        return None

    def free_bytes(self) -> int | None:
        """Return the room that is left, None where there is no such bound."""
        return None

    def _put(self, key: str, source: Path | bytes, length: int, sha256: str) -> None:
        attributes = {"Content-Type": media_type_of(key), _SHA256: sha256}
        obstore.put(
            self._objects,
            key,
            source,
            attributes=attributes,
            chunk_size=_PART,
            max_concurrency=4,
        )
        if measure(self.get_range(key)) != (length, sha256):
            obstore.delete(self._objects, key)
            raise damaged(key)

    def _has(self, key: str, path: Path) -> bool:
        try:
            length, sha256 = self.head(key)
        except Problem as problem:
            if problem.code != "not_found":
                raise
            return False
        if path.stat().st_size != length:
            return False
        known = sha256 or measure(self.get_range(key))[1]
        return measure(pieces(path))[1] == known

    def _check_readable(self, key: str) -> None:
        check_key(key)

    def _told_pieces(self, key: str, stream: Iterator[bytes]) -> Iterator[bytes]:
        with told(key):
            for piece in stream:
                yield bytes(piece)
