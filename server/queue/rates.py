"""Rates: how far measured times are from predicted ones, learnt from what was run."""

import math
import time
from collections.abc import Callable

from sqlalchemy import Connection, insert, select, update

from server.database.open import Database
from server.database.tables import rates

_SHARE = 0.1  # of the newest measurement in the mean, once there are ten
_PRIOR_SPREAD = 1.5  # of the prediction itself; counts as one measurement
_Z90 = 1.2816  # standard deviations from the middle to the 90th percentile


def record(
    db: Database,
    model: str,
    device: str,
    attention: str,
    predicted: float,
    measured: float,
    clock: Callable[[], float] = time.time,
) -> None:
    """Learn from one measurement.

    predicted  seconds above 0 as `estimate()` gave them, not yet corrected
    measured   seconds above 0 for the same work
    """
    found = math.log2(measured / predicted)
    mine = (rates.c.model == model) & (rates.c.device == device) & (rates.c.attention == attention)
    with db.write("rates") as connection:
        row = connection.execute(select(rates).where(mine)).mappings().one_or_none()
        mean, spread, count = (0.0, math.log2(_PRIOR_SPREAD), 0)
        if row is not None:
            mean, spread, count = math.log2(row["ratio"]), math.log2(row["spread"]), row["count"]
        share = max(_SHARE, 1 / (count + 2))
        away = found - mean
        variance = (1 - share) * (spread**2 + share * away**2)
        values = {
            "ratio": 2 ** (mean + share * away),
            "spread": 2 ** math.sqrt(variance),
            "count": count + 1,
            "updated_at": clock(),
        }
        if row is None:
            names = {"model": model, "device": device, "attention": attention}
            connection.execute(insert(rates).values(names | values))
        else:
            connection.execute(update(rates).where(mine).values(values))


def corrected(
    db: Database, model: str, device: str | None = None, attention: str | None = None
) -> tuple[float, float]:
    """Return by what to multiply predicted seconds for the 50th and the 90th percentile.

    device, attention  None: over all that the model was run with, by how often
    """
    with db.read() as connection:
        return factors(connection, model, device, attention)


def factors(
    connection: Connection, model: str, device: str | None = None, attention: str | None = None
) -> tuple[float, float]:
    """Return what `corrected` does, within a transaction."""
    chosen = select(rates.c.ratio, rates.c.spread, rates.c.count.label("times"))
    chosen = chosen.where(rates.c.model == model)
    if device is not None:
        chosen = chosen.where(rates.c.device == device)
    if attention is not None:
        chosen = chosen.where(rates.c.attention == attention)
    rows = connection.execute(chosen).all()
    total = sum(row.times for row in rows)
    if total == 0:
        return 1.0, _PRIOR_SPREAD**_Z90
    middle = sum(row.times * math.log2(row.ratio) for row in rows) / total
    spread = sum(row.times * math.log2(row.spread) for row in rows) / total
    return 2**middle, 2 ** (middle + _Z90 * spread)
