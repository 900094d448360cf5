"""Keepsakes: what a job puts into the store, under the number of the claim that made it.

A worker that has lost its job without knowing can only write where nothing is looked for.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from server.queue.job import Job
from server.store.store import Store
from server.worker.ladder import Usable
from server.worker.voice import preview_prefix


class Keepsakes:
    """One job's, for one claim. Every method raises Problem when the store fails or is full."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store = store
        self._job_id = job.id
        self._epoch = job.lease_epoch

    def clip(self, idx: int, usable: Usable) -> dict[str, Any]:
        """Store a clip's segment: alone, to follow another, and the beginning that both need."""
        if not usable.piece:
            return {}
        where = f"jobs/{self._job_id}/e{self._epoch}"
        whole = usable.beginning + usable.piece
        put = self._store.put_bytes
        return {
            "init": put(f"{where}/init.mp4", usable.beginning).as_dict(),
            "segment": put(f"{where}/seg-{idx}.m4s", usable.piece).as_dict(),
            "clip": put(f"{where}/clip-{idx}.mp4", whole).as_dict(),
        }

    def results(self, files: Mapping[str, Path], report: Mapping[str, Any]) -> dict[str, Any]:
        """Store the files of the whole, in place of those of a claim that did not end."""
        for epoch in range(1, self._epoch):
            self._store.delete_prefix(self._results(epoch))
        where = self._results(self._epoch)
        stored = {
            variant: self._store.put_file(f"{where}{variant}{path.suffix}", path).as_dict()
            for variant, path in files.items()
        }
        text = json.dumps(report, ensure_ascii=False).encode()
        return {**stored, "report": self._store.put_bytes(f"{where}report.json", text).as_dict()}

    def forget_preview(self) -> None:
        """Delete the preview: there is something better now."""
        self._store.delete_prefix(preview_prefix(self._job_id))

    def forget(self) -> None:
        """Delete everything of the job."""
        self._store.delete_prefix(f"jobs/{self._job_id}/")

    def _results(self, epoch: int) -> str:
        return f"jobs/{self._job_id}/f{epoch}/"
