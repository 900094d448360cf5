"""API keys: shown once, kept as a hash."""

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, bindparam, insert, or_, select, update

from server.database.open import Database
from server.database.tables import api_keys
from server.ids import new_id
from server.problems import Problem
from server.queue import tenants

PREFIX = "sk-vidgen-"
SCOPES = ("create", "read", "admin")
_BY_HASH = select(api_keys).where(api_keys.c.hash == bindparam("its_hash"))
_ANY = select(api_keys.c.id).limit(1)
_LIVE = _ANY.where(api_keys.c.revoked_at.is_(None))
_SEEN_SECONDS = 60.0  # how exactly last_used_at is known; each use would be a write otherwise


@dataclass(frozen=True, slots=True)
class Key:
    """What an API key opens. models: names that it may use, None: all."""

    id: str
    tenant: str
    name: str
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None
    created_at: float
    last_used_at: float | None
    revoked_at: float | None

    def may(self, scope: str) -> bool:
        """Whether it allows something; admin allows all."""
        return scope in self.scopes or "admin" in self.scopes


def create_key(
    db: Database,
    tenant: str,
    name: str,
    scopes: Sequence[str],
    models: Sequence[str] | None = None,
    clock: Callable[[], float] = time.time,
) -> tuple[Key, str]:
    """Make a key for a tenant, which is made too if it is new; return it and its only plain text.

    Raises  Problem invalid_request for a scope that does not exist
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise Problem(
            "invalid_request",
            f"scopes={list(scopes)} must be one or more of {', '.join(SCOPES)}.",
            param="scopes",
        )
    tenants.ensure(db, tenant, clock)
    plain = PREFIX + secrets.token_urlsafe(32)
    row = {
        "id": new_id("key"),
        "tenant": tenant,
        "name": name,
        "hash": _hash(plain),
        "scopes": list(scopes),
        "models": None if models is None else list(models),
        "created_at": clock(),
    }
    with db.write() as connection:
        connection.execute(insert(api_keys).values(row))
        made = connection.execute(_BY_HASH, {"its_hash": row["hash"]}).one()
    return _key(made), plain


def find_key(db: Database, plain: str, clock: Callable[[], float] = time.time) -> Key:
    """Return the key with a plain text, and note that it was used.

    Raises  Problem unauthorized when there is none or it was revoked
    """
    now = clock()
    with db.read() as connection:
        row = connection.execute(_BY_HASH, {"its_hash": _hash(plain)}).one_or_none()
    if row is None or row.revoked_at is not None:
        raise Problem("unauthorized", "The API key is unknown or was revoked; use another one.")
    key = _key(row)
    if key.last_used_at is None or now - key.last_used_at >= _SEEN_SECONDS:
        unseen = or_(
            api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at <= now - _SEEN_SECONDS
        )
        used = update(api_keys).where(api_keys.c.id == key.id, unseen)
        with db.write() as connection:
            connection.execute(used.values(last_used_at=now))
    return key


def list_keys(db: Database, tenant: str | None = None) -> list[Key]:
    """Return the keys of one tenant or of all, oldest first, revoked ones too."""
    chosen = select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
    if tenant is not None:
        chosen = chosen.where(api_keys.c.tenant == tenant)
    with db.read() as connection:
        return [_key(row) for row in connection.execute(chosen)]


def revoke_key(
    db: Database,
    key_id: str,
    tenant: str | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """End a key; one that was ended before stays so.

    Raises  Problem not_found, also for another tenant's key
    """
    mine = api_keys.c.id == key_id
    if tenant is not None:
        mine = mine & (api_keys.c.tenant == tenant)
    with db.write() as connection:
        if connection.execute(select(api_keys.c.id).where(mine)).first() is None:
            raise Problem("not_found", f"There is no key {key_id!r}.")
        ended = update(api_keys).where(mine, api_keys.c.revoked_at.is_(None))
        connection.execute(ended.values(revoked_at=clock()))


def asks_for_keys(db: Database) -> bool:
    """Whether a key was ever made: revoking the last one opens nothing."""
    with db.read() as connection:
        return connection.execute(_ANY).first() is not None


def any_key(db: Database) -> bool:
    """Whether a key exists that was not revoked."""
    with db.read() as connection:
        return connection.execute(_LIVE).first() is not None


def is_live(db: Database, key_id: str) -> bool:
    """Whether a key was not revoked."""
    with db.read() as connection:
        return connection.execute(_LIVE.where(api_keys.c.id == key_id)).first() is not None


def _key(row: Row[Any]) -> Key:
    models = None if row.models is None else tuple(row.models)
    values = {name: value for name, value in row._mapping.items() if name != "hash"}
    return Key(**{**values, "scopes": tuple(row.scopes), "models": models})


def _hash(plain: str) -> str:
    """Hash a key; it is 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(plain.encode()).hexdigest()
