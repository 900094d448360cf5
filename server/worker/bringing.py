"""Bringing what a job goes on from: the files that it names, and clips of another job."""

from pathlib import Path
from typing import Any

from server.database.open import Database
from server.inputs.bring import bring_inputs
from server.store.store import Store
from server.worker.workplace import Workplace


def bring(payload: dict[str, Any], db: Database, store: Store, place: Workplace) -> dict[str, Any]:
    """Return a payload whose files are paths relative to the job's folder, the current one.

    Relative, so that no recipe tells where they were, and a chain goes on under any folder.
    Raises  Problem input_fetch_failed, storage_full, storage_failed
    """
    made = bring_inputs(payload, db, store, Path())
    if "takes" in payload:
        folder = place.of_other(payload["takes"]["job"])
        made["takes"] = {**payload["takes"], "folder": None if folder is None else str(folder)}
    return made
