"""Means with intervals, alone and in pairs."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from chaining.drift.student import student_quantile


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
    return Mean(
        fmean(values), student_quantile(count - 1) * stdev(values) / math.sqrt(count), count
    )


def paired(values: Sequence[float], others: Sequence[float]) -> Mean:
    """Return the mean of the differences of items that belong together."""
    return mean_of([value - other for value, other in zip(values, others, strict=True)])
