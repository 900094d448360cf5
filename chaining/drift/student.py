"""Student's t: how far a mean of few readings may be off."""

from typing import Final

# 97.5 % quantiles for 1, 2, .. degrees of freedom; beyond, the normal distribution's.
_QUANTILES: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, for at least one degree of freedom."""
    return _QUANTILES[freedom - 1] if freedom <= len(_QUANTILES) else 1.96
