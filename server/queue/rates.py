"""Rates: how far measured times are from predicted ones, learnt from what was run."""

import math
import time
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from server.database.open import Database
from server.database.tables import rates

_SHARE = 0.1  # of the newest measurement in the mean, once there are ten
_PRIOR_SPREAD = 1.5  # of the prediction itself; counts as one measurement
_Z90 = 1.2816  # standard deviations from the middle to the 90th percentile
_OF_MODELS = select(rates).where(rates.c.model.in_(bindparam("models", expanding=True)))

Factors = tuple[float, float]


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
) -> Factors:
    """Return by what to multiply predicted seconds for the 50th and the 90th percentile.

    device, attention  None: over all that the model was run with, by how often
    """
    with db.read() as connection:
        rows = connection.execute(_OF_MODELS, {"models": [model]}).all()
    return _factors(
        row for row in rows if device in (None, row.device) and attention in (None, row.attention)
    )


def factors_of(connection: Connection, models: Iterable[str]) -> dict[str, Factors]:
    """Return what `corrected` does of each of some models, over all that it was run with."""
    names = sorted(set(models))
    rows = connection.execute(_OF_MODELS, {"models": names}).all()
    return {name: _factors(row for row in rows if row.model == name) for name in names}


def _factors(measured: Iterable[Row[Any]]) -> Factors:
    found = [(row._mapping["count"], row.ratio, row.spread) for row in measured]
    total = sum(times for times, _, _ in found)
    if total == 0:
        return 1.0, _PRIOR_SPREAD**_Z90
    middle = sum(times * math.log2(ratio) for times, ratio, _ in found) / total
    spread = sum(times * math.log2(spread) for times, _, spread in found) / total
    return 2**middle, 2 ** (middle + _Z90 * spread)
