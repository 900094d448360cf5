"""Upload: a picture or video that a client sent, as the database knows it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from server.inputs.look import Facts

PREFIX = "upload:"
JOB_PREFIX = "job:"  # of a finished one, in its place


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
