"""What the queue's commands say: jobs, workers and events as lines for people."""

import time
from typing import Any

from server.cli.report import pairs, visible
from vidgen.cli.report import clock

_SHOWN = 48
Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]


def job_rows(found: list[dict[str, Any]]) -> Rows:
    """Return head and rows of a table of jobs."""
    head: tuple[str, ...] = (
        "JOB",
        "STATE",
        "PLACE",
        "DONE",
        "ENDS IN",
        "PRIORITY",
        "MODEL",
        "WHAT",
    )
    tenants = any("tenant" in job for job in found)
    rows: list[tuple[str, ...]] = []
    for job in found:
        place = job.get("queue_position")
        what = job.get("title") or job.get("prompt") or ""
        row: tuple[str, ...] = (
            job["id"],
            job["state"],
            "" if not place else str(place),
            f"{job['progress']} %",
            _range(job.get("eta_s")),
            str(job["priority"]),
            job["model"],
            _short(what if job["hold_reason"] is None else job["hold_reason"]),
        )
        rows.append((job.get("tenant", ""), *row) if tenants else row)
    if tenants:
        head = ("TENANT", *head)
    return head, rows


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _range(eta: dict[str, float] | None) -> str:
    if eta is None:
        return ""
    low, high = clock(eta["p50"]), clock(eta["p90"])
    return low if low == high else f"{low} - {high}"


def job_text(job: dict[str, Any]) -> str:
    """Return all that matters of a job."""
    usage = job["usage"]
    facts = [
        ("job", job["id"]),
        ("tenant", job.get("tenant")),
        ("state", job["state"]),
        ("why", job["hold_reason"]),
        ("error", None if job["error"] is None else _error(job["error"])),
        ("place", job["queue_position"] or None),
        ("begins in", _range(job["eta_start_s"]) or None),
        ("ends in", _range(job["eta_s"]) or None),
        ("progress", f"{job['progress']} %, {job['clips_completed']} of {job['clips']} clips"),
        ("model", job["model"]),
        ("video", f"{job['size']}, {job['num_frames']} frames at {job['fps']} fps, "
                  f"{job['seconds']} s, seed {job['seed']}"),
        ("prompt", job["prompt"]),
        ("title", job["title"]),
        ("tags", ", ".join(job["tags"]) or None),
        ("pool", job["pool"]),
        ("priority", job["priority"]),
        ("made", when(job["created_at"])),
        ("ended", None if job["completed_at"] is None else when(job["completed_at"])),
        ("kept until", None if job["expires_at"] is None else when(job["expires_at"])),
        ("files", ", ".join(job["variants"]) or None),
        ("GPU seconds", usage.get("gpu_seconds") and f"{_total(usage['gpu_seconds']):.1f}"),
    ]  # fmt: skip
    lines = [pairs([(name, str(value)) for name, value in facts if value is not None])]
    lines += [visible(f"adjusted  {_adjusted(item)}") for item in job["adjustments"]]
    lines += [visible(f"note      {text}") for text in job["warnings"]]
    return "\n".join(lines)


def _error(error: dict[str, Any]) -> str:
    again = "; vidgen queue retry tries it again" if error.get("retryable") else ""
    return f"{error['code']}: {error['message']}{again}"


def _adjusted(item: dict[str, Any]) -> str:
    return f"{item['field']}: {item['asked']} -> {item['used']} ({item['why']})"


def _total(seconds: Any) -> float:
    return float(seconds["total"] if isinstance(seconds, dict) else seconds)


def when(at: float) -> str:
    """Return a time as text, in this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def worker_rows(found: list[dict[str, Any]]) -> Rows:
    """Return head and rows of a table of workers."""
    head: tuple[str, ...] = ("WORKER", "STATE", "DEVICE", "FREE", "POOL", "WARM", "HEARD", "JOB")
    rows: list[tuple[str, ...]] = []
    for worker in found:
        heard = max(0.0, time.time() - worker["heartbeat_at"])
        rows.append(
            (
                worker["id"],
                worker["state"],
                worker["profile"]["title"],
                f"{worker['free_bytes'] / 2**30:.1f} GiB",
                worker["pool"],
                worker["warm"].get("model") or "",
                f"{clock(heard)} ago",
                worker["job_id"] or "",
            )
        )
    return head, rows


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(moment))


def _value(name: str, value: str | float) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_at"):
        return _clock(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def event_text(kind: str, data: dict[str, Any]) -> str:
    """Return an event as a line."""
    at = _clock(data["ts"])
    shown = {
        name: value
        for name, value in data.items()
        if name not in ("id", "seq", "ts", "status") and isinstance(value, str | int | float)
    }
    words = " ".join(f"{name}={_value(name, value)}" for name, value in shown.items())
    error = data.get("error")
    told = f"  {error['code']}: {error['message']}" if isinstance(error, dict) else ""
    return visible(f"{at}  {data['id']}  {kind}  {words}{told}")
