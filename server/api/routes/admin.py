"""Administration: the queue as a whole, workers, keys and tenants."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from sqlalchemy import func, select

from server.api.auth import Reader, needs
from server.api.bodies import read_body
from server.api.docs import body, errors
from server.api.fields import KeyCreate, TenantUpdate, parse
from server.api.services import ServicesOf, check_id
from server.database.tables import jobs
from server.problems import Problem
from server.queue import tenants as accounts
from server.queue.admission import free_disk_of
from server.queue.fleet import Worker, list_workers
from server.queue.keys import Key, create_key, list_keys, revoke_key
from server.queue.standing import standing_of
from server.states import JobState

router = APIRouter(prefix="/v1", tags=["administration"])
admin = APIRouter(prefix="/v1", tags=["administration"], dependencies=[Depends(needs("admin"))])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]


BODIES = (KeyCreate, TenantUpdate)


@router.get("/queue", operation_id="getQueue", responses=errors())
def queue(services: ServicesOf, caller: Reader) -> dict[str, Any]:
    """Say how much waits and runs: yours, and of all."""
    with services.database.read() as connection:
        counted = select(jobs.c.state, func.count()).where(jobs.c.tenant == caller.tenant)
        mine = connection.execute(counted.group_by(jobs.c.state)).all()
        standing = standing_of(connection, caller.tenant)
    workers = list_workers(services.database)
    everyone, own = standing.everyone, standing.its
    return {
        "object": "queue",
        "tenant": caller.tenant,
        "states": {str(state): 0 for state in JobState} | {row[0]: row[1] for row in mine},
        "queued": own.queued,
        "backlog_s": round(own.backlog, 3),
        "all_queued": everyone.queued,
        "all_backlog_s": round(everyone.backlog, 3),
        "max_queued": services.settings.max_queued,
        "workers": len(workers),
        "workers_busy": sum(worker.state == "busy" for worker in workers),
        "devices": [_device(worker) for worker in workers],
        "disk_free_bytes": free_disk_of(services.settings),
    }


def _device(worker: Worker) -> dict[str, Any]:
    profile = worker.profile
    return {
        "name": profile["name"],
        "title": profile["title"],
        "memory_bytes": profile["memory_bytes"],
        "free_bytes": worker.free_bytes,
        "state": worker.state,
        "model": worker.warm.get("model"),
    }


@admin.get("/workers", operation_id="listWorkers", responses=errors())
def workers(services: ServicesOf) -> dict[str, Any]:
    """List the workers, those that went away within a day too."""
    found = list_workers(services.database, gone=True)
    return {"object": "list", "data": [asdict(worker) for worker in found]}


@admin.post("/keys", operation_id="createKey", responses=errors(413, 415),
             openapi_extra=body("KeyCreate"))  # fmt: skip
def create(services: ServicesOf, fields: BodyOf) -> dict[str, Any]:
    """Make an API key; the answer holds it, once."""
    asked = parse(KeyCreate, fields)
    made, plain = create_key(
        services.database, asked.tenant, asked.name, asked.scopes, asked.models, services.clock
    )
    return {**_key(made), "key": plain}


@admin.get("/keys", operation_id="listKeys", responses=errors())
def keys(
    services: ServicesOf,
    tenant: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = None,
) -> dict[str, Any]:
    """List the API keys, without what they are."""
    found = list_keys(services.database, tenant)
    return {"object": "list", "data": [_key(item) for item in found]}


@admin.delete("/keys/{key_id}", operation_id="revokeKey", responses=errors(404))
def revoke(key_id: str, services: ServicesOf) -> dict[str, Any]:
    """End an API key."""
    revoke_key(services.database, check_id(key_id, "key"), clock=services.clock)
    return {"id": key_id, "deleted": True, "object": "key.deleted"}


def _key(key: Key) -> dict[str, Any]:
    return {"object": "key", **asdict(key)}


@admin.get("/tenants", operation_id="listTenants", responses=errors())
def tenants(services: ServicesOf) -> dict[str, Any]:
    """List the tenants."""
    found = accounts.list_tenants(services.database)
    return {"object": "list", "data": [asdict(item) for item in found]}


@admin.patch("/tenants/{tenant}", operation_id="updateTenant", responses=errors(404, 413, 415),
              openapi_extra=body("TenantUpdate"))  # fmt: skip
def update_tenant(tenant: str, services: ServicesOf, fields: BodyOf) -> dict[str, Any]:
    """Change a tenant's weight and bounds."""
    asked = parse(TenantUpdate, fields).model_dump(exclude_unset=True)
    if not asked:
        raise Problem("invalid_request", "Give at least one of the tenant's bounds.")
    return asdict(accounts.set_bounds(services.database, _tenant(tenant), **asked))


def _tenant(name: str) -> str:
    if len(name) > 64 or not all(c.isascii() and (c.isalnum() or c in "._-") for c in name):
        raise Problem("not_found", "There is no such tenant.", param="tenant")
    return name
