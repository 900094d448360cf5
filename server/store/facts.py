"""What is known of a stored file: its key, length, hash and type."""

from dataclasses import asdict, dataclass
from typing import Any


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
