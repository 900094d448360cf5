"""Tries: how often each clip of a job was thrown away, on disk beside the clips."""

import json
from pathlib import Path

from server.worker.segments import write_whole


class Tries:
    """The counts of one session's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "tries.json"
        text = self._path.read_text("ascii") if self._path.is_file() else "{}"
        self._counts = {int(idx): int(count) for idx, count in json.loads(text).items()}

    def of(self, idx: int) -> int:
        """Return a clip's count."""
        return self._counts.get(idx, 0)

    def add(self, idx: int) -> None:
        """Count one more."""
        self._counts[idx] = self.of(idx) + 1
        write_whole(self._path, json.dumps(self._counts).encode("ascii"))
