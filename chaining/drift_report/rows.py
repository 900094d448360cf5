"""The report's table: each reading by group, with its interval, its limits and its outcome."""

from collections.abc import Iterator
from dataclasses import dataclass

from chaining.drift import thresholds as limits
from chaining.drift.drift import Drift
from chaining.drift.judge import judge_distances, judge_seams
from chaining.drift.seams import Seam
from chaining.drift.thresholds import SLOPES, Limit
from chaining.drift.verdict import FAIL, PASS, judge_value
from chaining.drift_report import words


@dataclass(frozen=True, slots=True)
class Row:
    """One line: the group it counts in, what is read, and an outcome ("" where none is due)."""

    group: str
    what: str
    reading: str
    interval: str
    limits: str
    outcome: str


def table_rows(drift: Drift) -> list[Row]:
    """Return the lines of the longest scene, and those of seams and events anywhere, by group."""
    rows = [*_slope_rows(drift), *_distance_rows(drift), *_seam_rows(drift), *_event_rows(drift)]
    return sorted(rows, key=lambda row: limits.GROUPS.index(row.group))


def _slope_rows(drift: Drift) -> Iterator[Row]:
    segment = drift.main
    for signal, limit in SLOPES.items():
        if signal not in segment.slopes:
            continue
        slope = segment.slopes[signal]
        yield Row(
            limit.group,
            f"{limit.words} per clip",
            words.amount(signal, slope.value),
            words.interval(signal, slope),
            words.limits(signal),
            words.outcome(signal, slope) if words.counts(signal, segment) else "",
        )


def _distance_rows(drift: Drift) -> Iterator[Row]:
    """Compare start and end; over several scenes, or without slopes, that is not judged."""
    judged = ["", "", ""]
    last = drift.clips[-1].distance
    if len(drift.segments) == 1 and drift.slopes:
        found = judge_distances(drift.main, last, drift.contrasts)
        judged = [finding.outcome for finding in found]
    for (name, limit), outcome in zip(limits.CONTRASTS.items(), judged, strict=False):
        contrast = drift.contrasts[name]
        ends = f"{contrast.signed - contrast.half:+.4f} to {contrast.signed + contrast.half:+.4f}"
        yield _row(limit, limit.words, f"{contrast.signed:+.4f}", ends, outcome, sign="± ")
    if drift.segments[-1].num_clips > 1:
        yield _row(limits.ANCHOR, limits.ANCHOR.words, f"{last:.4f}", "", judged[-1])


def _seam_rows(drift: Drift) -> Iterator[Row]:
    seams = [seam for seam in drift.seams if seam.kind == "continue"]
    if not seams:
        return
    leap = max(seams, key=lambda seam: seam.ratio)
    step = max(seams, key=lambda seam: abs(seam.luma_step))
    what, reading = f"jump into clip {leap.clip}, the largest", f"{leap.ratio:.2f} x usual"
    yield _row(limits.SEAM_RATIO, what, reading, "", seam_outcomes(leap)[0])
    what, reading = f"luma step into clip {step.clip}, the largest", f"{step.luma_step:+.4f}"
    yield _row(limits.SEAM_LUMA, what, reading, "", seam_outcomes(step)[1], sign="± ")


def _event_rows(drift: Drift) -> Iterator[Row]:
    flash = max((abs(found.size) for found in drift.flashes), default=0.0)
    what = f"flashes: {len(drift.flashes)}, the largest"
    outcome = judge_value(flash, limits.FLASH)
    yield _row(limits.FLASH, what, f"{flash:.3f}", "", outcome, sign="± ")
    told = {frame for found in drift.flashes for frame in range(found.first, found.last + 1)}
    starts = [abs(found.size) for found in drift.settling if found.frame not in told]
    start = max(starts, default=0.0)
    outcome = judge_value(start, limits.FLASH)
    yield _row(limits.FLASH, "start of a clip off by", f"{start:.3f}", "", outcome, sign="± ")
    still = max((found.length for found in drift.freezes), default=0)
    what = f"standstills: {len(drift.freezes)}, the longest"
    yield _row(limits.FREEZE, what, f"{still} frames", "", judge_value(still, limits.FREEZE))
    snaps = len(drift.recall.snap_backs)
    yield Row("events", "jumps back to the start", str(snaps), "", "0 / 0", FAIL if snaps else PASS)


def _row(
    limit: Limit, what: str, reading: str, interval: str, outcome: str, *, sign: str = ""
) -> Row:
    ends = f"{sign}{limit.passes:g} / {limit.fails:g}"
    return Row(limit.group, what, reading, interval, ends, outcome)


def seam_outcomes(seam: Seam) -> tuple[str, str]:
    """Judge a seam's change of picture and its luma step; a cut or an anchor may have both."""
    found = [finding.outcome for finding in judge_seams([seam])]
    return (found[0], found[1]) if found else (PASS, PASS)
