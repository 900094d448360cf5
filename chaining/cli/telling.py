"""What the commands of chains say: the schedule, a finished clip, the video."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaining.advice import Advice
from chaining.cli.cost import Cost
from chaining.events import ChainEvent, ChainProgress, ClipFinished, TakenUp
from chaining.schedule import Schedule
from vidgen.cli.report import Reporter, pairs, table
from vidgen.cli.show import between, bytes_text, seconds_text
from vidgen.plan import Plan

if TYPE_CHECKING:
    from chaining.chain import Result
    from chaining.drift.meter import DriftState

_SHOWN = ("luma", "chroma", "blur")  # signals whose rates are told after each clip
_ENDS = {"black": "black", "white": "white", "grey": "colourless", "blur": "too blurred to use"}


class Teller:
    """Passes on what a chain says while it runs."""

    def __init__(self, reporter: Reporter, fps: Fraction, given: int = 0) -> None:
        """Speak through a reporter; `given` clips at the start are not made and not counted."""
        self._reporter = reporter
        self._fps = fps
        self._given = given
        self._clip = 0

    def __call__(self, event: ChainEvent) -> None:
        """Tell one event."""
        if isinstance(event, ChainProgress):
            self._progress(event)
        elif isinstance(event, ClipFinished):
            self._finished(event)
        elif isinstance(event, TakenUp):
            tell_advice(self._reporter, event.advice)

    def _progress(self, event: ChainProgress) -> None:
        clip, clips = event.clip - self._given, event.clips - self._given
        if clip != self._clip:
            self._clip = clip
            self._reporter.emit(
                "clip_begins",
                clip=clip,
                clips=clips,
                kind=event.kind,
                prompt=event.prompt,
            )
        self._reporter.progress(event.step, clip, clips)

    def _finished(self, event: ClipFinished) -> None:
        take = event.take
        clip, clips = event.clip + 1 - self._given, event.clips - self._given
        if clip < 1:
            return
        self._reporter.emit(
            "clip",
            clip=clip,
            clips=clips,
            take=take.name,
            kind=take.plan.kind,
            prompt=take.plan.prompt,
            seed=take.seed,
            num_frames=take.plan.num_frames,
            shown=take.plan.shown,
            seconds=take.record["seconds"],
            seam=take.seam,
            colour=take.correction.as_dict(),
            drift=None if event.drift is None else drift_data(event.drift),
        )
        if self._reporter.for_people:
            self._reporter.warn(clip_text(event, self._fps), f"clip {clip}/{clips}")
        tell_advice(self._reporter, event.advice)


def clip_text(event: ClipFinished, fps: Fraction) -> str:
    """Say in one line what a finished clip adds, and how its chain drifts."""
    plan, take = event.take.plan, event.take
    length = f"{plan.shown} frames, {float(plan.shown / fps):.2f} s"
    what = length if plan.kind == "clip" else f"{plan.kind}, {length}"
    if plan.kind == "keyframe":
        what = "keyframe"
    parts = [f"{what} (made in {take.record['seconds']:.1f} s, seed {take.seed})"]
    if event.drift is not None:
        parts.append(drift_text(event.drift))
    return "; ".join(parts)


def drift_text(state: "DriftState") -> str:
    """Say where a chain is heading: its rates, its nearest end, and the verdict."""
    if not state.slopes:
        return "drift is told from a scene's third clip on"
    from chaining.drift_report.words import amount

    rates = [
        f"{name} {amount(name, state.slopes[name].value)}"
        for name in _SHOWN
        if name in state.slopes
    ]
    return f"per clip: {', '.join(rates)}; {_end_text(state)}; drift: {state.verdict.overall}"


def _end_text(state: "DriftState") -> str:
    """Say which end comes first, and after how many more clips."""
    ends = [
        (found.clips, name) for name, found in state.forecast.items() if found.clips is not None
    ]
    if not ends:
        return "no end in sight"
    clips, name = min(ends)
    low, high = state.forecast[name].ci95
    reach = ""
    if low is not None:
        reach = f" (95 %: {low:.0f} {'or more' if high is None else f'to {high:.0f}'})"
    return f"{_ENDS[name]} after about {clips:.0f} more clips{reach}"


def drift_data(state: "DriftState") -> dict[str, Any]:
    """Return a state of the meter for programs."""
    return {
        "verdict": state.verdict.overall,
        "reasons": list(state.verdict.reasons),
        "slopes": {
            name: {"value": slope.value, "ci95": list(slope.ci95), "unit": slope.unit}
            for name, slope in state.slopes.items()
        },
        "forecast": {
            name: {"clips": found.clips, "ci95": list(found.ci95)}
            for name, found in state.forecast.items()
        },
        "advice": state.advice,
        "why": state.why,
    }


def tell_advice(reporter: Reporter, items: tuple[Advice, ...]) -> None:
    """Tell what a person should know now."""
    for item in items:
        reporter.emit("advice", code=item.code, text=item.text, clip=item.clip)
        if reporter.for_people:
            reporter.warn(item.text, "advice")


def tell_stopped(reporter: Reporter, result: "Result") -> None:
    """Say that the drift meter ended a chain, and how it goes on all the same."""
    if result.state == "stopped":
        text = "the drift meter's verdict is fail; --resume --drift-stop=false goes on all the same"
        reporter.warn(text, "stopped")


def tell_schedule(reporter: Reporter, schedule: Schedule, cost: Cost, first: Plan) -> None:
    """Say before the work what will be made and what had to differ."""
    reporter.emit("schedule", **schedule_data(schedule, cost, first))
    reporter.adjustments((*first.adjustments, *schedule.adjustments))
    if reporter.for_people:
        for note in first.notes:
            reporter.warn(note)
        reporter.warn(
            f"{len(schedule.clips)} clips, {schedule.num_frames} frames, "
            f"{float(schedule.seconds):.3f} s; seed {schedule.seed}; "
            f"expected time {seconds_text(cost.seconds)}",
            "chain",
        )


def schedule_data(schedule: Schedule, cost: Cost, first: Plan) -> dict[str, Any]:
    """Return a schedule and its cost for programs."""
    made = schedule.as_dict()
    adjusted = [item.as_dict() for item in first.adjustments]
    return {
        **made,
        "model": first.model.name,
        "width": first.size.export_width,
        "height": first.size.export_height,
        "adjustments": [*adjusted, *made["adjustments"]],
        "num_frames_dropped": schedule.num_frames_made - schedule.num_frames,
        "estimate": cost.as_dict(),
    }


def schedule_text(schedule: Schedule, cost: Cost, first: Plan, advice: tuple[Advice, ...]) -> str:
    """Return the whole schedule as aligned lines."""
    size = first.size
    head = ("CLIP", "KIND", "SHOT", "STRATEGY", "MADE", "SHOWN", "DROPPED", "ENDS AT", "SEED",
            "PROMPT")  # fmt: skip
    rows = []
    for clip in schedule.clips:
        ends = "" if clip.place < 0 else f"{float(clip.stop / schedule.fps):.3f} s"
        follows = "-" if clip.previous is None else clip.strategy
        rows.append((
            str(clip.index), clip.kind, str(clip.shot + 1), follows, str(clip.num_frames),
            str(clip.shown), str(clip.dropped), ends, str(clip.seed), _short(clip.prompt),
        ))  # fmt: skip
    made, shown = schedule.num_frames_made, schedule.num_frames
    facts = [
        ("model", f"{first.model.name} ({first.model.family.title})"),
        ("device", f"{first.device.title} (rates: {first.device.rates.source})"),
        ("size", f"{size.export_width}x{size.export_height}"),
        ("length", f"{shown} frames at {schedule.fps} fps, {float(schedule.seconds):.3f} s"),
        ("frames made", f"{made}, of which {made - shown} are not shown"),
        ("seed", str(schedule.seed)),
        ("time", seconds_text(cost.seconds)),
        ("device memory", between(cost.largest.estimate.device_bytes, bytes_text)),
        ("folder", between(cost.folder, bytes_text)),
        ("file", between(cost.video, bytes_text)),
    ]
    lines = [table(head, rows), "", pairs(facts)]
    lines += [f"adjusted  {item}" for item in (*first.adjustments, *schedule.adjustments)]
    lines += [f"note      {text}" for text in (*first.notes, *cost.largest.estimate.notes)]
    lines += [f"advice    {item.text}" for item in advice]
    return "\n".join(lines)


def _short(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= 40 else f"{line[:39]}…"


Whole = tuple[Path, int]  # a file, and how many frames it has where that is more than the chain


def result_data(result: "Result", folder: str, whole: Whole | None = None) -> dict[str, Any]:
    """Return what a finished run left, for programs."""
    drift = result.drift
    video, num_frames = whole or (result.video, result.num_frames)
    return {
        "path": None if video is None else str(video),
        "state": result.state,
        "folder": folder,
        "num_frames": num_frames,
        "fps": str(result.schedule.fps),
        "seconds": float(num_frames / result.schedule.fps),
        "seed": result.schedule.seed,
        "takes": [take.name for take in result.takes],
        "drift": None if drift is None else {
            "verdict": drift.verdict.overall, "reasons": list(drift.verdict.reasons),
        },
        "advice": [item.code for item in result.advice],
    }  # fmt: skip


def result_text(
    result: "Result", folder: str, size: tuple[int, int], whole: Whole | None = None
) -> str:
    """Say in a few lines what a finished run left."""
    video, num_frames = whole or (result.video, result.num_frames)
    seconds = float(num_frames / result.schedule.fps)
    lines = [
        f"{video}  {size[0]}x{size[1]}, {num_frames} frames at "
        f"{result.schedule.fps} fps, {seconds:.3f} s, {len(result.takes)} clips, "
        f"seed {result.schedule.seed}; clips in {folder}"
    ]
    drift = result.drift
    if drift is not None:
        from chaining.drift_report.words import HEADLINES, forecasts, movements

        told = [HEADLINES[drift.verdict.overall], *movements(drift), *forecasts(drift)]
        lines.append(f"drift: {drift.verdict.overall}. {' '.join(told)}")
    return "\n".join(lines)
