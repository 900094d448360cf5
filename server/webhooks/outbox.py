"""The outbox: what is to be told is written in the transaction of what happened, and sent later."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from server.database.tables import deliveries, webhook_endpoints
from server.ids import new_id
from server.queue.job import Job

EVENT_TYPES = ("video.completed", "video.failed", "video.cancelled")


def announce(connection: Connection, job: Job, type: str, now: float) -> None:
    """Write a delivery of a job's end for each endpoint that asked for it, and for its own URL.

    type  of EVENT_TYPES
    """
    payload = event_of(job, type, now)
    for endpoint_id, url in _receivers(connection, job, type):
        row = {
            "id": new_id("msg"),
            "tenant": job.tenant,
            "endpoint_id": endpoint_id,
            "job_id": job.id,
            "url": url,
            "type": type,
            "payload": payload,
            "state": "pending",
            "tries": 0,
            "next_at": now,
            "traceparent": job.traceparent,
            "created_at": now,
        }
        connection.execute(insert(deliveries).values(row))


def event_of(job: Job, type: str, now: float) -> dict[str, Any]:
    """Return the body of an event: never a prompt, and of a zero-retention job no message."""
    error = None
    if job.error is not None:
        error = {"code": job.error["code"]}
        if not job.zdr:
            error["message"] = job.error["message"]
    data = {
        "id": job.id,
        "object": "video",
        "status": job.status,
        "state": job.state.value,
        "model": job.model,
        "completed_at": None if job.completed_at is None else int(job.completed_at),
        "error": error,
    }
    return made_event(type, now, data)


def made_event(type: str, now: float, data: dict[str, Any]) -> dict[str, Any]:
    """Return an event as the videos API's clients know them."""
    return {
        "id": new_id("evt"),
        "object": "event",
        "type": type,
        "created_at": int(now),
        "data": data,
    }


def drop(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Give up messages that are still to be sent."""
    chosen = update(deliveries).where(deliveries.c.state == "pending", *conditions)
    connection.execute(chosen.values(state="dropped"))


def _receivers(connection: Connection, job: Job, type: str) -> list[tuple[str | None, str]]:
    table = webhook_endpoints.c
    chosen = select(table.id, table.url, table.event_types).where(
        table.tenant == job.tenant, table.disabled_at.is_(None)
    )
    rows = connection.execute(chosen.order_by(table.id)).all()
    found: list[tuple[str | None, str]] = [
        (row.id, row.url) for row in rows if type in row.event_types
    ]
    own = job.options.get("webhook_url")
    return [*found, (None, own)] if own else found
