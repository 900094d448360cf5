"""Means with intervals, alone and in pairs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

# 97.5 % quantiles of Student's t for 1, 2, .. degrees of freedom; beyond, the normal one's.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
      2.052, 2.048, 2.045, 2.042)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and the half width of its 95 % interval (Student's t over independent items)."""

    mean: float
    half: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.4g} +- {self.half:.2g}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return asdict(self)


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of independent items; one item has an interval without end."""
    count = len(values)
    if count < 2:
        return Mean(values[0], math.inf, count)
    quantile = _T[count - 2] if count - 2 < len(_T) else 1.96
    return Mean(fmean(values), quantile * stdev(values) / math.sqrt(count), count)


def paired(values: Sequence[float], others: Sequence[float]) -> Mean:
    """Return the mean of the differences of items that belong together."""
    return mean_of([value - other for value, other in zip(values, others, strict=True)])
