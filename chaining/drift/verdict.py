"""Pass, warn, fail or inconclusive: single judgements, and the worst of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from chaining.drift.thresholds import GROUPS, Limit

PASS: Final = "pass"
WARN: Final = "warn"
INCONCLUSIVE: Final = "inconclusive"
FAIL: Final = "fail"
OUTCOMES: Final = (PASS, WARN, INCONCLUSIVE, FAIL)  # from the best to the worst


@dataclass(frozen=True, slots=True)
class Finding:
    """One judgement: its group, its outcome, and why, naming clips or frames."""

    group: str
    outcome: str
    why: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst outcome, over all and in each group, and the reasons of all that did not pass."""

    overall: str
    by_group: dict[str, str]
    reasons: tuple[str, ...]


def judge_interval(low: float, high: float, limit: Limit) -> str:
    """Judge a 95 % interval by its sizes: all beyond, all inside, or between."""
    if limit.rises_only:
        low, high = max(low, 0.0), max(high, 0.0)
    largest = max(abs(low), abs(high))
    smallest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    if smallest > limit.fails:
        return FAIL
    if largest <= limit.passes:
        return PASS
    if smallest <= limit.passes and largest > limit.fails:
        return INCONCLUSIVE
    return WARN


def judge_value(value: float, limit: Limit) -> str:
    """Judge a value without interval."""
    return judge_interval(value, value, limit)


def worst(outcomes: Iterable[str]) -> str:
    """Return the worst outcome; a pass if there is none."""
    return max(outcomes, key=OUTCOMES.index, default=PASS)


def conclude(findings: Iterable[Finding]) -> Verdict:
    """Gather findings into a verdict."""
    kept = list(findings)
    by_group = {
        group: worst(finding.outcome for finding in kept if finding.group == group)
        for group in GROUPS
    }
    told = sorted(
        (finding for finding in kept if finding.outcome != PASS),
        key=lambda finding: -OUTCOMES.index(finding.outcome),
    )
    reasons = tuple(f"{finding.outcome}: {finding.why}" for finding in told)
    return Verdict(worst(by_group.values()), by_group, reasons)
