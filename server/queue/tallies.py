"""Tallies: what has happened so far, counted in the transaction in which it happens.

They outlive the jobs that they tell of. Rows are only added, so that no transaction waits for
another one over a common row; `fold` makes few rows of many. Seconds are whole microseconds: a sum
of those is the same in any order, and a counter that falls by a rounding would be read as reset.
"""

import bisect
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from server.database.open import Database
from server.database.tables import tallies

FOLD_FROM = 1000  # rows
_FOLDED = 10_000  # at most in one transaction
_MICRO = 1_000_000
_WORK = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14400.0)
_WAITS = (0.25, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
_STEPS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_STOPS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is counted.

    labels   names of what it is told apart by
    bounds   upper ones of a histogram's buckets; None: it is a counter
    seconds  the counter counts these, not how often
    """

    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] | None = None
    seconds: bool = False


KINDS = {
    "jobs": Kind("Jobs that have ended.", ("state", "code", "model", "kind")),
    "interrupted": Kind("Jobs that lost their worker, or that a worker handed back."),
    "lease_lost": Kind("Jobs taken from workers that went silent."),
    "collapse": Kind("Clips that came out unusable and were made again."),
    "gpu_seconds": Kind("Work done.", ("tenant",), seconds=True),
    "queue_wait_seconds": Kind("From a job's creation to its first step.", bounds=_WAITS),
    "run_seconds": Kind("From the first step to the video.", ("model", "kind"), _WORK),
    "stage_seconds": Kind("Time of a clip by stage.", ("stage", "model"), _WORK),
    "denoise_step_seconds": Kind("Time of a denoising step.", ("model",), _STEPS),
    "cancel_latency_seconds": Kind("From a cancel to the worker's stop.", bounds=_STOPS),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """Something that has just happened.

    labels   values of the kind's labels
    seconds  that it took, all times together
    """

    name: str
    labels: tuple[str, ...] = ()
    seconds: float = 0.0
    times: int = 1


@dataclass(slots=True)
class Tally:
    """A sum: by bucket (its upper bound, None for the one without) how often, and how long."""

    times: dict[float | None, int]
    micros: int = 0

    @property
    def seconds(self) -> float:
        """All of them together."""
        return self.micros / _MICRO


def add(connection: Connection, seen: Iterable[Seen]) -> None:
    """Count what has happened, if the transaction is committed."""
    rows = [_row(item) for item in seen]
    if rows:
        connection.execute(insert(tallies), rows)


def _row(item: Seen) -> dict[str, Any]:
    kind = KINDS[item.name]
    assert len(item.labels) == len(kind.labels), item
    bound = None
    if kind.bounds is not None:
        place = bisect.bisect_left(kind.bounds, item.seconds / item.times)
        bound = kind.bounds[place] if place < len(kind.bounds) else None
    return {
        "name": item.name,
        "labels": json.dumps(item.labels),
        "bound": bound,
        "times": item.times,
        "micros": max(0, round(item.seconds * _MICRO)),
    }


def read(connection: Connection) -> Mapping[str, dict[tuple[str, ...], Tally]]:
    """Return the sums by name and labels."""
    told = (tallies.c.name, tallies.c.labels, tallies.c.bound)
    times, micros = func.sum(tallies.c.times), func.sum(tallies.c.micros)
    found: defaultdict[str, dict[tuple[str, ...], Tally]] = defaultdict(dict)
    for row in connection.execute(select(*told, times, micros).group_by(*told)):
        name, labels, bound, many, long = row
        tally = found[name].setdefault(tuple(json.loads(labels)), Tally({}))
        tally.times[bound] = int(many)
        tally.micros += int(long)
    return found


def fold(db: Database) -> None:
    """Make few rows of many, the sums unchanged; any number of processes may do so at once."""
    counted = select(func.count()).select_from(tallies)
    with db.read() as connection:
        if connection.execute(counted).scalar_one() < FOLD_FROM:
            return
    oldest = select(tallies.c.id).order_by(tallies.c.id).limit(_FOLDED)
    taken = delete(tallies).where(tallies.c.id.in_(oldest)).returning(*tallies.c)
    sums: defaultdict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    with db.write() as connection:
        for row in connection.execute(taken):
            both = sums[row.name, row.labels, row.bound]
            both[0] += row.times
            both[1] += row.micros
        rows = [
            {"name": name, "labels": labels, "bound": bound, "times": times, "micros": micros}
            for (name, labels, bound), (times, micros) in sums.items()
        ]
        if rows:
            connection.execute(insert(tallies), rows)
