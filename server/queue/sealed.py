"""Sealed payloads: what a zero-retention job asks, unreadable once its key is deleted."""

import json
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from sqlalchemy import Connection, select

from server.database.open import Database
from server.database.tables import job_secrets
from server.problems import Problem
from server.queue.job import Job


def seal(payload: dict[str, Any]) -> tuple[bytes, bytes]:
    """Encrypt a payload with a key of its own; return cipher and key."""
    key = Fernet.generate_key()
    return Fernet(key).encrypt(json.dumps(payload).encode()), key


def open_sealed(cipher: bytes, key: bytes) -> dict[str, Any]:
    """Decrypt a payload.

    Raises  Problem gone when the key is not its own
    """
    try:
        return dict(json.loads(Fernet(key).decrypt(cipher)))
    except InvalidToken:
        raise Problem("gone", "The job's request cannot be decrypted with its key.") from None


def payload_of(db: Database, job: Job) -> dict[str, Any]:
    """Return what a job asks, decrypted where it is sealed.

    Raises  Problem gone when it was deleted
    """
    if job.payload is not None:
        return job.payload
    with db.read() as connection:
        return payload_in(connection, job)


def payload_in(connection: Connection, job: Job) -> dict[str, Any]:
    """Return what `payload_of` does, read in a transaction that is open."""
    if job.payload is not None:
        return job.payload
    chosen = select(job_secrets.c.key).where(job_secrets.c.job_id == job.id)
    key = connection.execute(chosen).scalar_one_or_none()
    if job.cipher is None or key is None:
        raise Problem("gone", f"What {job.id} asked was deleted, as zero retention promises.")
    return open_sealed(job.cipher, key)
