"""Workplace: the folder of a job, one part for each time that it was claimed.

A worker that was stopped for a while can wake up and go on writing after another has taken its job
over. So each claim works in a folder of its own, which begins with links to what is finished in the
newest one. All that is kept there is written under another name and renamed, never changed in
place.
"""

import os
import re
import shutil
from pathlib import Path

from server.queue.job import Job
from server.settings import ServerSettings
from server.store.store import Store
from server.worker.segments import write_whole

_CLAIM = re.compile(r"e(\d{1,9})")
_RUN = "run"  # the file that says of which run of the job a folder is


class Workplace:
    """One job's, for one claim.

    root    of all claims; the files that the request names are brought there, to the same place
            for each, since a chain goes on only with pictures of the same paths
    folder  where the session works
    """

    def __init__(self, settings: ServerSettings, store: Store, job: Job) -> None:
        self.root = Path(settings.work) / job.id
        self.folder = self.root / f"e{job.lease_epoch}"
        self._store = store
        self._run = job.run
        self._prefix = f"jobs/{job.id}/work/"
        # What is on one machine's disk is no use to workers on others.
        self._remote = store.free_bytes() is None

    def open(self) -> bool:
        """Make the folder, with all that earlier claims have finished.

        Returns whether the job was begun anew since: what is not written down counts no more.
        """
        if not self.folder.is_dir():
            part = self.root / f"{self.folder.name}.part"
            shutil.rmtree(part, ignore_errors=True)
            self._begin(part)
            part.rename(self.folder)
        mark = self.folder / _RUN
        before = mark.read_text("ascii") if mark.is_file() else None
        write_whole(mark, str(self._run).encode())
        return before not in (None, str(self._run))

    def _begin(self, part: Path) -> None:
        before = _newest(self.root)
        if before is None:
            part.mkdir(parents=True)
        else:
            unfinished = shutil.ignore_patterns("*.part", "lock")
            shutil.copytree(before, part, copy_function=_link, ignore=unfinished)
        if self._remote:
            self._store.pull(self._prefix, part)

    def save(self) -> None:
        """Let other machines have what is finished, where the store is not on this one's disk."""
        if self._remote:
            self._store.push(self.folder, self._prefix)

    def remove(self) -> None:
        """Delete the folder with those of all other claims."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self._remote:
            self._store.delete_prefix(self._prefix)

    def of_other(self, job_id: str) -> Path | None:
        """Return where another job has worked last, None where nothing is left of it."""
        found = _newest(self.root.parent / job_id)
        if found is not None or not self._remote:
            return found
        copy = self.root / "other"
        self._store.pull(f"jobs/{job_id}/work/", copy)
        return copy if copy.is_dir() else None


def _newest(root: Path) -> Path | None:
    """Return the folder of the newest claim of a job, None before the first."""
    if not root.is_dir():
        return None
    found = {
        int(match[1]): path
        for path in root.iterdir()
        if (match := _CLAIM.fullmatch(path.name)) is not None
    }
    return found[max(found)] if found else None


def _link(source: str, target: str) -> str:
    """Link a file, or copy it where the disk knows no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
