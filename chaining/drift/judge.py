"""From readings to findings: which are good enough, which are not, and where."""

from collections.abc import Iterator, Sequence

from chaining.drift import thresholds as limits
from chaining.drift.contrasts import Contrast
from chaining.drift.flash import Flash, Settling
from chaining.drift.forecast import Forecast
from chaining.drift.freeze import Freeze
from chaining.drift.seams import Seam
from chaining.drift.segment import Segment
from chaining.drift.thresholds import Limit
from chaining.drift.timeline import Timeline
from chaining.drift.trend import Slope
from chaining.drift.verdict import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    WARN,
    Finding,
    judge_interval,
    judge_value,
)

# A change that another one explains better is that other one's to report; hue can turn by many
# degrees in a scene almost without colour, where no one sees it.
_EXPLAINED = {
    "hue": ("none", "cast", "chroma"),
    "cast": ("hue", "chroma"),
    "chroma": ("cast", "hue"),
}
_MEASURED = ("tone", "colour", "detail", "motion")


def judge_slopes(segment: Segment, timeline: Timeline) -> Iterator[Finding]:
    """Judge what changes from clip to clip in one segment."""
    where = f"clips {segment.first}-{segment.last}"
    for signal, limit in limits.SLOPES.items():
        if signal in segment.slopes and not explained(signal, segment):
            slope = segment.slopes[signal]
            yield _slope(slope, limit, where)
            yield from _steps(slope, limit, segment, timeline)
    if "duplicates" in segment.slopes:
        yield _slope(segment.slopes["duplicates"], limits.DUPLICATES, where)


def failing(segment: Segment) -> list[str]:
    """Name what drifts beyond its limit for certain, in words."""
    return [
        limit.words
        for signal, limit in limits.SLOPES.items()
        if signal in segment.slopes
        and not explained(signal, segment)
        and judge_interval(*segment.slopes[signal].ci95, limit) == FAIL
    ]


def explained(signal: str, segment: Segment) -> bool:
    """Whether a signal changes only because of another, which is judged in its place."""
    if signal == "spread":
        return segment.tone != "affine"
    return segment.colour in _EXPLAINED.get(signal, ())


def _slope(slope: Slope, limit: Limit, where: str) -> Finding:
    low, high = slope.ci95
    why = (
        f"{where}: {limit.words} changes by {slope.value:+.4f} {limit.unit} "
        f"(95 % {low:+.4f} to {high:+.4f}; good up to {limit.passes:g}, bad beyond {limit.fails:g})"
    )
    return Finding(limit.group, judge_interval(low, high, limit), why)


def _steps(slope: Slope, limit: Limit, segment: Segment, timeline: Timeline) -> Iterator[Finding]:
    for step in slope.steps:
        if limit.rises_only and step.size < 0:
            continue
        clip = segment.first + step.clip
        why = (
            f"clip {clip} (frame {timeline.starts[clip]}): {limit.words} jumps by {step.size:+.4f} "
            "and stays there"
        )
        yield Finding(limit.group, WARN, why)


def judge_codec(segment: Segment, grids: Sequence[float]) -> Iterator[Finding]:
    """Tell lossy encoding: the later clips of a segment all carry a grid that its first has not.

    grids  logarithms of the grid's strength against the first clip
    """
    if len(grids) >= 2 and min(grids[1:]) > limits.CODEC:
        why = (
            f"clips {segment.first + 1}-{segment.last}: a grid of 8 pixels shows "
            f"({grids[-1]:+.2f}), as lossy encoding between clips (codec) leaves it"
        )
        yield Finding("detail", WARN, why)


def judge_seams(seams: Sequence[Seam]) -> Iterator[Finding]:
    """Judge the seams that should not show."""
    for seam in seams:
        if seam.kind != "continue":
            continue
        place = f"frame {seam.frame} (seam into clip {seam.clip})"
        ratio = judge_value(seam.ratio, limits.SEAM_RATIO)
        if ratio == FAIL and seam.z < limits.SEAM_Z:
            ratio = WARN
        why = f"{place}: the picture changes {seam.ratio:.1f} times as much as around it"
        yield Finding("seams", ratio, f"{why} (z {seam.z:.1f})")
        step = judge_value(seam.luma_step, limits.SEAM_LUMA)
        if abs(seam.luma_step) <= 3 * seam.luma_spread:
            step = PASS
        elif step == FAIL and seam.luma_z < limits.SEAM_LUMA_Z:
            step = WARN
        yield Finding("seams", step, f"{place}: luma steps by {seam.luma_step:+.4f}")


def judge_events(
    flashes: Sequence[Flash],
    settling: Sequence[Settling],
    freezes: Sequence[Freeze],
    snap_backs: Sequence[int],
    timeline: Timeline,
) -> Iterator[Finding]:
    """Judge flashes, freezes and jumps back to the start."""
    for flash in flashes:
        why = (
            f"{_frames(flash.first, flash.last)} (clip {timeline.clip_of(flash.first)}): "
            f"a flash of {flash.size:+.3f}"
        )
        yield Finding("events", judge_value(flash.size, limits.FLASH), why)
    told = {frame for flash in flashes for frame in range(flash.first, flash.last + 1)}
    for start in settling:
        if start.frame not in told:
            ends = "then returns" if start.returns else "and is slow to settle"
            why = f"frame {start.frame} (start of clip {start.clip}): luma off by {start.size:+.3f}"
            yield Finding("events", judge_value(start.size, limits.FLASH), f"{why}, {ends}")
    for freeze in freezes:
        why = (
            f"{_frames(freeze.first, freeze.last)} (clip {timeline.clip_of(freeze.first)}): "
            f"the picture stands still for {freeze.length} frames"
        )
        yield Finding("events", judge_value(freeze.length, limits.FREEZE), why)
    for frame in snap_backs:
        yield Finding("events", FAIL, f"frame {frame}: the picture jumps back to its first frame")


def _frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {first}-{last}"


def judge_distances(
    segment: Segment, distance: float, contrasts: dict[str, Contrast]
) -> Iterator[Finding]:
    """Judge start against end of a chain of one segment.

    The slopes are the better evidence, since content changes too: what they pass is passed here,
    and where they cannot tell, this cannot either.
    """
    signals = {"luma": "gain", "chroma": "chroma"}
    for name, limit in limits.CONTRASTS.items():
        found = contrasts[name]
        outcome = judge_interval(found.signed - found.half, found.signed + found.half, limit)
        why = f"clips {segment.first}-{segment.last}: {limit.words} differs by {found.signed:+.4f}"
        yield Finding(limit.group, _supported(outcome, segment, (signals[name],)), why)
    why = f"clip {segment.last}: {limits.ANCHOR.words} is {distance:.4f}"
    outcome = judge_value(distance, limits.ANCHOR)
    supported = _supported(outcome, segment, ("gain", "chroma", "hue", "cast"))
    yield Finding("colour", supported, why)


def _supported(outcome: str, segment: Segment, signals: Sequence[str]) -> str:
    """Take back a judgement that no slope and no step of these signals supports."""
    known = [(segment.slopes[name], limits.SLOPES[name]) for name in signals]
    judged = [WARN if slope.steps else judge_interval(*slope.ci95, limit) for slope, limit in known]
    if outcome == PASS or any(found in (WARN, FAIL) for found in judged):
        return outcome
    return INCONCLUSIVE if INCONCLUSIVE in judged else PASS


def judge_forecast(forecast: dict[str, Forecast], requested_clips: int) -> Iterator[Finding]:
    """Judge whether a chain reaches far enough beyond what was asked for."""
    passes, warns = (times * requested_clips for times in limits.HORIZON)
    for end, found in forecast.items():
        if found.clips is None:
            continue
        low, high = found.ci95
        if low is not None and low > passes:
            outcome = PASS
        elif high is not None and high <= warns:
            outcome = FAIL
        elif low is not None and low <= warns:
            outcome = INCONCLUSIVE if high is None or high > passes else WARN
        else:
            outcome = WARN
        why = f"{end} in {found.clips:.1f} clips; {passes:g} are wanted for {requested_clips} clips"
        yield Finding("forecast", outcome, why)


def judge_length(segments: Sequence[Segment]) -> Iterator[Finding]:
    """Say that nothing can be said of slopes where no segment is long enough."""
    if any(segment.slopes for segment in segments):
        return
    longest = max(segment.num_clips for segment in segments)
    for group in _MEASURED:
        why = f"{group}: the longest scene has {longest} clips; a slope needs 3"
        yield Finding(group, INCONCLUSIVE, why)
