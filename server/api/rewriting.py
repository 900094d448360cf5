"""Rewriting: the columns of a waiting job that is changed."""

from typing import Any

from server.api.fields import JobOptions
from server.api.planned import Planned
from server.problems import Problem
from server.queue.creating import searched
from server.queue.job import Job

_FIXED = {
    "zdr": "make a new job",
    "hold": "use hold or pause",
    "pool": "make a new job",
}


def columns_of(job: Job, planned: Planned, options: JobOptions) -> dict[str, Any]:
    """Return what changes in the row; options that are not given stay.

    Raises  Problem unprocessable for an option that is fixed once a job exists
    """
    given = options.model_dump(mode="json", exclude_unset=True)
    for name, instead in _FIXED.items():
        if name in given:
            raise Problem(
                "unprocessable", f"{name} cannot be changed once a job exists; {instead}.",
                param=name,
            )  # fmt: skip
    title = given.get("title", job.title)
    columns: dict[str, Any] = {
        "payload": planned.payload,
        "options": {**job.options, **given},
        "decided": planned.decided,
        "model": planned.model,
        "loras": list(planned.loras),
        "tokens": planned.tokens,
        "cost_seconds": planned.cost_seconds,
        "device_bytes": planned.device_bytes,
        "disk_bytes": planned.disk_bytes,
        "clips": planned.clips,
        "search": searched(planned.text, title),
    }
    for name, column in (("title", "title"), ("tags", "tags"), ("priority", "priority")):
        if name in given:
            columns[column] = given[name]
    if "cancel_after_s" in given:
        columns["run_limit_seconds"] = given["cancel_after_s"]
    if "max_queue_s" in given:
        columns["queue_deadline_at"] = job.created_at + given["max_queue_s"]
    if "retention_s" in given:
        columns["retention_seconds"] = given["retention_s"]
    return columns
