"""Where media bytes come from: a path, a data URL or bytes, with every bad source told in one
sentence.
"""

import base64
import binascii
import stat
from pathlib import Path

from vidgen.errors import BadMedia, NotFound


def load_bytes(source: str | Path | bytes, max_bytes: int) -> tuple[str, bytes]:
    """Return (name for messages, content) of an image source; the size is checked before the
    content is read.

    source  a path, bytes, or a "data:image/...;base64,..." URL
    Raises  NotFound (no such file), BadMedia (anything else)
    """
    if isinstance(source, bytes):
        _check_length("the image", len(source), max_bytes)
        return "the image", source
    if isinstance(source, str) and source[:5].lower() == "data:":
        return "the data URL", _decode_data_url(source, max_bytes)
    if isinstance(source, str) and source.split(":", 1)[0].lower() in (
        "http",
        "https",
        "ftp",
        "s3",
    ):
        raise BadMedia(f"{source!r} is a URL, which is not fetched; download it and give the file.")
    path = existing_file(source)
    _check_length(path.name, path.stat().st_size, max_bytes)
    try:
        return path.name, path.read_bytes()
    except OSError as error:
        raise BadMedia(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error


def existing_file(path: str | Path) -> Path:
    """Return the path of a regular file that exists, or raise NotFound or BadMedia."""
    try:
        path = Path(path)
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"No file {str(path)!r}; check the path.") from error
    except (OSError, ValueError) as error:  # too long a name, a null byte, no permission
        reason = getattr(error, "strerror", None) or error
        raise BadMedia(f"{str(path)[:200]!r} cannot be opened: {reason}.") from error
    if stat.S_ISDIR(mode):
        raise BadMedia(f"{str(path)!r} is a folder; give a file.")
    if not stat.S_ISREG(mode):
        raise BadMedia(f"{str(path)!r} is a device or a pipe; give a regular file.")
    return path


def _decode_data_url(url: str, max_bytes: int) -> bytes:
    header, comma, body = url.partition(",")
    kind = header[5:].lower()
    if not comma or not kind.startswith("image/") or not kind.endswith(";base64"):
        raise BadMedia('A data URL must read "data:image/<type>;base64,<content>".')
    _check_length("the data URL", len(body) * 3 // 4, max_bytes)
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except binascii.Error as error:
        raise BadMedia(f"The data URL's base64 content is broken: {error}.") from error


def _check_length(name: str, length: int, max_bytes: int) -> None:
    if length == 0:
        raise BadMedia(f"{name} is empty (0 bytes).")
    if length > max_bytes:
        raise BadMedia(
            f"{name} has {length / 2**20:.1f} MiB, over the {max_bytes / 2**20:.1f} MiB allowed; "
            "save a smaller file."
        )
