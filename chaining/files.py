"""Files of a chain that appear whole or not at all, their hashes, and the lock on its folder."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vidgen.errors import BadMedia, DoesNotFit, VidgenError
from vidgen.media.disk import check_folder, part_of, publish, sync_file

LOCK = "lock"  # the file in a chain's folder that whoever works there has locked


class Busy(VidgenError):
    """Another process works in the folder."""

    exit_code = 75
    default_code = "busy"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write JSON, whole or not at all."""
    part = part_of(path)
    try:
        part.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8")
        sync_file(part)
        publish(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_json(path: Path, key: str, schema: int) -> dict[str, Any]:
    """Read a JSON object of ours.

    key, schema  its mark and version
    Raises       BadMedia, also for another version
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadMedia(f"{path} is missing or damaged ({type(error).__name__}).") from error
    if not isinstance(data, dict) or key not in data:
        raise BadMedia(f"{path} is not a file of a Vidgen chain.")
    if data[key] != schema:
        raise BadMedia(f"{path} has version {data[key]}; this Vidgen reads {schema}.")
    return data


def file_hash(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; the lock ends with the process, however that ends.

    Raises  Busy, DoesNotFit (nothing can be written there)
    """
    check_folder(folder)
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise DoesNotFit(
            f"{folder / 'lock'} cannot be opened ({error.strerror}); choose another folder.",
            field="folder",
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(
                f"Another process works on the chain in {folder}; wait for it, or stop it."
            ) from None
        yield
    finally:
        os.close(handle)
