"""Tenants: who shares the workers, with which weight and bounds."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from server.database.open import Database
from server.database.tables import tenants
from server.problems import Problem

_ONE = select(tenants).where(tenants.c.id == bindparam("its_id"))
_BOUNDS = ("weight", "max_queued", "max_running", "gpu_seconds_per_day", "budget_per_month")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of those who share the workers; the columns are explained in the tables."""

    id: str
    name: str
    weight: float
    served: float
    max_queued: int | None
    max_running: int | None
    gpu_seconds_per_day: float | None
    budget_per_month: float | None
    created_at: float


def ensure(db: Database, tenant: str, clock: Callable[[], float] = time.time) -> Tenant:
    """Return a tenant, made with weight 1 and the installation's bounds if it is new."""
    with db.read() as connection:
        found = _find(connection, tenant)
    if found is not None:
        return found
    row = {"id": tenant, "name": tenant, "weight": 1.0, "served": 0.0, "created_at": clock()}
    with db.write("admit") as connection:
        if _find(connection, tenant) is None:
            connection.execute(insert(tenants).values(row))
        return get(connection, tenant)


def get(connection: Connection, tenant: str) -> Tenant:
    """Return a tenant.

    Raises  Problem not_found
    """
    found = _find(connection, tenant)
    if found is None:
        raise Problem("not_found", f"There is no tenant {tenant!r}; make a key for it first.")
    return found


def set_bounds(db: Database, tenant: str, **bounds: Any) -> Tenant:
    """Change a tenant's name, weight or bounds; a bound of None is the installation's or none.

    Raises  Problem not_found; Problem invalid_request for a value that makes no sense
    """
    for name, value in bounds.items():
        _check(name, value)
    with db.write() as connection:
        get(connection, tenant)
        connection.execute(update(tenants).where(tenants.c.id == tenant).values(bounds))
        return get(connection, tenant)


def list_tenants(db: Database) -> list[Tenant]:
    """Return all tenants by id."""
    with db.read() as connection:
        rows = connection.execute(select(tenants).order_by(tenants.c.id)).all()
    return [Tenant(**row._mapping) for row in rows]


def _find(connection: Connection, tenant: str) -> Tenant | None:
    row = connection.execute(_ONE, {"its_id": tenant}).one_or_none()
    return None if row is None else Tenant(**row._mapping)


def _check(name: str, value: Any) -> None:
    if name == "name":
        return
    if name not in _BOUNDS:
        raise Problem("invalid_request", f"A tenant has no {name!r}; set one of {_BOUNDS}.")
    if value is None and name != "weight":
        return
    least = "above 0" if name == "weight" else "at least 0"
    good = isinstance(value, int | float) and (value > 0 if name == "weight" else value >= 0)
    if not good:
        raise Problem("invalid_request", f"{name}={value!r} must be {least}.", param=name)
