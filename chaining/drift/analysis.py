"""From the features of clips to a drift report."""

# f frames
from collections.abc import Iterator, Sequence

import numpy as np

from chaining.drift.contrasts import Contrast, Vde, contrast, vde
from chaining.drift.drift import ClipRow, Drift, Source
from chaining.drift.features import ClipFeatures
from chaining.drift.flash import find_flashes, read_settling
from chaining.drift.freeze import find_freezes
from chaining.drift.judge import (
    judge_codec,
    judge_distances,
    judge_events,
    judge_forecast,
    judge_length,
    judge_seams,
    judge_slopes,
)
from chaining.drift.readings import Reader, Reading
from chaining.drift.recall import read_recall
from chaining.drift.seams import read_seams
from chaining.drift.segment import Segment, read_segment
from chaining.drift.timeline import Timeline, lay_out
from chaining.drift.verdict import Finding, conclude

_CONTRASTED = ("luma", "ok_l", "ok_a", "ok_b", "chroma", "high_share", "noise", "flow", "black",
               "white")  # fmt: skip


def analyse(
    clips: Sequence[ClipFeatures],
    *,
    requested_clips: int | None = None,
    kind: str = "float",
    path: str | None = None,
    sha256: str | None = None,
    reader: Reader | None = None,
) -> Drift:
    """Analyse a chain.

    requested_clips  how long it is meant to become; the forecast is judged against it
    kind, path, sha256  what was read; see `Source`
    reader           kept between calls for one chain, so that old clips are not read again
    Raises           BadRequest (no clips, or clips that do not belong together)
    """
    reader = reader or Reader()
    timeline = lay_out(clips, reader.memory_of(clips))
    segments: list[Segment] = []
    readings: list[Reading] = []
    for members in timeline.segments():
        segment, own = read_segment(clips, members, timeline, reader)
        segments.append(segment)
        readings += own
    seams, settling = read_seams(timeline), read_settling(timeline)
    flashes, freezes, recall = find_flashes(timeline), find_freezes(timeline), read_recall(timeline)
    scalars = {name: timeline.scalars[name] for name in _CONTRASTED}
    known = {name: values for name, values in scalars.items() if np.isfinite(values).any()}
    contrasts = {name: contrast(values) for name, values in known.items()}
    findings = list(_findings(timeline, segments, readings, contrasts, requested_clips))
    findings += judge_seams(seams)
    findings += judge_events(flashes, settling, freezes, recall.snap_backs, timeline)
    return Drift(
        source=_source(clips[0], timeline, kind, path, sha256),
        clips=_rows(clips, timeline, segments, readings),
        segments=tuple(segments),
        seams=tuple(seams),
        contrasts=contrasts,
        vde=_vde(clips),
        flashes=tuple(flashes),
        settling=tuple(settling),
        freezes=tuple(freezes),
        recall=recall,
        verdict=conclude(findings),
    )


def _findings(
    timeline: Timeline,
    segments: Sequence[Segment],
    readings: Sequence[Reading],
    contrasts: dict[str, Contrast],
    requested_clips: int | None,
) -> Iterator[Finding]:
    for segment in segments:
        yield from judge_slopes(segment, timeline)
        grids = [r.values["blocks"][0] for r in readings[segment.first : segment.last + 1]]
        yield from judge_codec(segment, grids)
    yield from judge_length(segments)
    if len(segments) == 1 and segments[0].slopes:
        yield from judge_distances(segments[0], readings[-1].distance, contrasts)
    if requested_clips is not None:
        yield from judge_forecast(segments[-1].forecast, requested_clips)


def _source(
    first: ClipFeatures, timeline: Timeline, kind: str, path: str | None, sha256: str | None
) -> Source:
    return Source(
        fps=first.fps,
        frames=timeline.num_frames,
        width=first.source_width,
        height=first.source_height,
        analysis_width=first.width,
        analysis_height=first.height,
        kind=kind,
        path=path,
        sha256=sha256,
    )


def _rows(
    clips: Sequence[ClipFeatures],
    timeline: Timeline,
    segments: Sequence[Segment],
    readings: Sequence[Reading],
) -> tuple[ClipRow, ...]:
    rows = []
    for index, (clip, reading) in enumerate(zip(clips, readings, strict=True)):
        start, end = timeline.span([index])
        values = {name: float(value[0]) for name, value in reading.values.items()}
        rows.append(
            ClipRow(
                index=index,
                start=start,
                end=end,
                kind=clip.kind,
                segment=next(i for i, s in enumerate(segments) if index <= s.last),
                labels=clip.labels,
                readings={name: value for name, value in values.items() if np.isfinite(value)},
                tone=reading.tone,
                colour=reading.colour,
                distance=reading.distance,
                wasserstein=reading.wasserstein,
                similarity=reading.similarity,
            )
        )
    return tuple(rows)


def _vde(clips: Sequence[ClipFeatures]) -> dict[str, Vde]:
    names = ("luma", "chroma", "high_share")
    return {
        name: vde(np.array([float(clip.scalars[name].mean()) for clip in clips])) for name in names
    }
