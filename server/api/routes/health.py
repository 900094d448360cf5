"""Health: alive, ready, and how it is; and the metrics."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from server.api.auth import caller_of, is_only_here
from server.api.docs import errors
from server.api.metrics import metrics_text
from server.api.services import Services, ServicesOf
from server.database.migrate import current
from server.database.tables import locks
from server.problems import Problem
from server.queue.admission import free_disk_of
from server.queue.fleet import list_workers
from server.queue.worker import LIVE
from vidgen import __version__

router = APIRouter(tags=["health"])
_NOT: dict[int | str, dict[str, Any]] = {503: {"description": "It is not."}}


@router.get("/livez", operation_id="getLive")
async def live() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", operation_id="getReady", responses=_NOT)
def ready(services: ServicesOf) -> JSONResponse:
    """Say whether requests should be sent here: it can write, has room, and does not end."""
    checks = _checks(services)
    good = all(checks.values())
    return JSONResponse({"status": "ok" if good else "no", "checks": checks}, 200 if good else 503)


def _checks(services: Services) -> dict[str, bool]:
    return {
        "staying": not services.draining,
        "database": _can_write(services),
        "disk": _has_room(services),
    }


def _can_write(services: Services) -> bool:
    try:
        with services.database.write() as connection:
            connection.execute(select(locks.c.name).limit(1))
    except SQLAlchemyError:
        return False
    return True


def _has_room(services: Services) -> bool:
    free = free_disk_of(services.settings)
    return free is None or free >= services.settings.disk_reserve_mib * 2**20


@router.get("/healthz", operation_id="getHealth", responses=_NOT)
def health(services: ServicesOf) -> JSONResponse:
    """Say how the server is.

    READY: a worker is free; BUSY: all work; STARTING: all load still; NO_WORKER; DRAINING: it is
    about to end; UNHEALTHY: it cannot write, or has no room.
    """
    checks = _checks(services)
    data: dict[str, Any] = {"version": __version__, "checks": checks}
    if not checks["database"]:
        return JSONResponse({"status": "UNHEALTHY", **data}, 503)
    workers = [item for item in list_workers(services.database) if item.state in LIVE]
    if services.draining:
        status = "DRAINING"
    elif not all(checks.values()):
        status = "UNHEALTHY"
    elif not workers:
        status = "NO_WORKER"
    elif all(worker.state == "starting" for worker in workers):
        status = "STARTING"
    else:
        status = "READY" if any(worker.state == "idle" for worker in workers) else "BUSY"
    data |= {"workers": len(workers), "schema": current(services.database)}
    return JSONResponse({"status": status, **data}, 503 if status == "UNHEALTHY" else 200)


@router.get(
    "/metrics",
    operation_id="getMetrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **errors()},
)
def metrics(request: Request, services: ServicesOf) -> Response:
    """Give the metrics; where others can reach the server, only to admins."""
    if not is_only_here(services.settings) and "admin" not in caller_of(request).scopes:
        raise Problem("forbidden", "This key lacks the scope 'admin'.")
    text = metrics_text(services.database, services.counters)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
