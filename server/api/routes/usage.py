"""Usage: GPU-seconds, clips and price, by tenant, model and day."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from server.api.auth import Reader
from server.api.docs import errors
from server.api.services import ServicesOf
from server.problems import Problem
from server.queue.usage import start_of_day, usage_summary

router = APIRouter(prefix="/v1", tags=["usage"])
_DAY = Query(pattern=r"^\d{4}-\d{2}-\d{2}$", description="A day as YYYY-MM-DD, UTC.")


@router.get("/usage", operation_id="getUsage", responses=errors())
def usage(
    services: ServicesOf,
    caller: Reader,
    group_by: Annotated[
        str, Query(max_length=64, description="Of tenant, model, day, separated by commas.")
    ] = "model",
    since: Annotated[str | None, _DAY] = None,
    until: Annotated[str | None, _DAY] = None,
    tenant: Annotated[
        str | None, Query(max_length=64, description="Another tenant, or *; for admins.")
    ] = None,
) -> dict[str, Any]:
    """Add up what was used; yours, or with the scope admin that of others."""
    whose: str | None = caller.tenant
    if tenant is not None and tenant != caller.tenant:
        if "admin" not in caller.scopes:
            raise Problem("forbidden", "Only admins see the usage of others.", param="tenant")
        whose = None if tenant == "*" else tenant
    if whose is not None and "\0" in whose:
        raise Problem("invalid_request", "tenant holds NUL.", param="tenant")
    groups = tuple(name.strip() for name in group_by.split(",") if name.strip())
    rows = usage_summary(
        services.database,
        whose,
        groups,
        None if since is None else start_of_day(since),
        None if until is None else start_of_day(until),
    )
    return {"object": "list", "data": rows}
