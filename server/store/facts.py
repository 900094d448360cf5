"""What is known of a stored file: its key, length, hash and type."""

from dataclasses import asdict, dataclass
from typing import Any

_TYPES = {
    "mp4": "video/mp4",
    "m4s": "video/iso.segment",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
    "gif": "image/gif",
    "png": "image/png",
    "jpg": "image/jpeg",
    "webp": "image/webp",
    "json": "application/json",
    "m3u8": "application/vnd.apple.mpegurl",
    "zip": "application/zip",
}


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One stored file.

    bytes       its length
    sha256      hex, of its content
    media_type  for the header of a response
    """

    key: str
    bytes: int
    sha256: str
    media_type: str

    def as_dict(self) -> dict[str, Any]:
        """Return the facts JSON-ready, as a job's artifacts hold them."""
        return asdict(self)


def media_type_of(name: str) -> str:
    """Return the type that a file's suffix stands for; octets for any that is not ours."""
    return _TYPES.get(name.rpartition(".")[2].lower(), "application/octet-stream")
