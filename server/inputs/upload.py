"""Upload: a picture or video that a client sent, as the database knows it."""

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from server.ids import pattern_of
from server.inputs.look import Facts

PREFIX = "upload:"
JOB_PREFIX = "job:"  # of a finished one, in its place
# What clients may write for either; the first group is the id.
UPLOAD_REFERENCE = re.compile(rf"(?:{PREFIX})?({pattern_of('upload')})")
JOB_REFERENCE = re.compile(rf"(?:{JOB_PREFIX})?({pattern_of('video')})")


@dataclass(frozen=True, slots=True)
class Upload:
    """A stored input.

    key    in the store
    facts  found by looking into it
    """

    id: str
    tenant: str
    key: str
    filename: str
    media_type: str
    bytes: int
    sha256: str
    facts: Facts
    created_at: float
    expires_at: float

    @property
    def reference(self) -> str:
        """How a payload names it."""
        return PREFIX + self.id

    @staticmethod
    def of(row: Row[Any]) -> "Upload":
        """Make it from a row of the table."""
        facts = {name: value for name, value in row.facts.items() if name != "inline"}
        return Upload(**{**row._mapping, "facts": Facts(**facts)})
