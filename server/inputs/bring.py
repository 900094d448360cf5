"""Bringing a job's inputs to the worker that has it."""

import copy
from pathlib import Path
from typing import Any

from sqlalchemy import select

from server.database.open import Database
from server.database.tables import jobs, uploads
from server.inputs.fields import Slot, slots
from server.inputs.references import wanted_variant
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.problems import Problem
from server.store import Store


def bring_inputs(
    payload: dict[str, Any], db: Database, store: Store, folder: Path
) -> dict[str, Any]:
    """Return a payload whose files are paths in a folder, where they may only be read.

    payload  of `resolve_references`
    Files that are there already are kept, so that a resumed job begins quickly.
    Raises   Problem input_fetch_failed naming the field, storage_full, storage_failed
    """
    made = copy.deepcopy(payload)
    for slot in slots(made):
        key = _key_of(slot, db)
        path = folder / key.replace("/", "-")
        try:
            if not path.exists():
                store.get_file(key, path)
        except Problem as problem:
            if problem.code == "not_found":
                raise _gone(slot) from None
            raise
        slot.put(str(path))
    return made


def _key_of(slot: Slot, db: Database) -> str:
    if slot.value.startswith(PREFIX):
        chosen = select(uploads.c.key).where(uploads.c.id == slot.value.removeprefix(PREFIX))
        with db.read() as connection:
            key = connection.execute(chosen).scalar_one_or_none()
    else:
        wanted = select(jobs.c.artifacts).where(
            jobs.c.id == slot.value.removeprefix(JOB_PREFIX), jobs.c.artifacts_gone_at.is_(None)
        )
        with db.read() as connection:
            artifacts = connection.execute(wanted).scalar_one_or_none() or {}
        key = artifacts.get(wanted_variant(slot), {}).get("key")
    if key is None:
        raise _gone(slot)
    return str(key)


def _gone(slot: Slot) -> Problem:
    return Problem(
        "input_fetch_failed",
        f"{slot.name}: {slot.value} was deleted before a worker read it; send it again.",
        param=slot.name,
    )
