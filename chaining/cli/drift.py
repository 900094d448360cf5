"""`vidgen drift`: measure how a chain drifts, compare two, inject drift, test the meter."""

import json
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import App, Parameter

from chaining.cli.drift_options import (
    ClipFlags,
    ClipFlagsOf,
    Watch,
    check_outputs,
    exit_code,
)
from chaining.cli.drift_text import checks_text, compared_text, finite, measured_text
from chaining.codec_share import CodecShare, against_master, encode_again
from chaining.drift.cases import CASES
from chaining.drift.compare import Comparison
from chaining.drift.compare import compare as compare_features
from chaining.drift.inject import INJECTIONS, Injector
from chaining.drift.selftest import selftest as run_selftest
from chaining.drift_report import Measured, write_html, write_pngs
from chaining.footage import Footage, open_footage
from chaining.measure_file import measure_file
from vidgen.cli.interrupt import stoppable
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter, clock
from vidgen.errors import BadRequest
from vidgen.fidelity import told_of_rates
from vidgen.media import VideoWriter, probe_video
from vidgen.media.disk import check_folder

drift = App(name="drift", help="Measure how a chain of clips drifts; inject drift; self-test.")
_VIDEO = Parameter(help="Any video file; a lossless master reads truest.")
_HTML = Parameter(
    name=["--html", "--report"],
    help="Write the report as one page that stands alone.",
    show_default=False,
)
_PNG = Parameter(help="Write plots and a contact sheet into this folder.", show_default=False)
_STRICT = Parameter(help="Exit code 10 for a warning too.", show_default=False, negative=())
_BASELINE = Parameter(
    help="Encode the frames again as they are delivered, and say what that alone does.",
    show_default=False,
    negative=(),
)
_MASTER = Parameter(
    help="A lossless video of the same frames, to tell the codec's share.", show_default=False
)
_OUTPUTS = {"mkv": "master", "mp4": "mp4", "webm": "webm", "mov": "prores"}


@drift.command
@flowing
def measure(
    video: Annotated[Path, _VIDEO],
    /,
    *,
    clips: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    html: Annotated[Path | None, _HTML] = None,
    png: Annotated[Path | None, _PNG] = None,
    codec_baseline: Annotated[bool, _BASELINE] = False,
    master: Annotated[Path | None, _MASTER] = None,
    strict: Annotated[bool, _STRICT] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Measure how much a video changes from clip to clip, and where that leads.

    Without an option that says where clips begin, they are those of the chain's recipe in the file;
    a file without one is measured in one piece, from start to end. Exit code 11 when something is
    bad, 12 when it cannot be told, 10 for a warning with --strict.
    """
    if codec_baseline and master is not None:
        raise BadRequest("--codec-baseline and --master both tell the codec's share; give one.")
    check_outputs(html, png)
    reporter = Reporter(common)
    passes = 1 + clips.cuts + (2 if codec_baseline else master is not None)
    stills = html is not None or png is not None
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        watch = Watch(reporter, cancel, passes * probe_video(video).num_frames)
        footage = open_footage(video, **clips.given(), watch=watch)
        measured = measure_file(footage, width=clips.width, stills=stills, watch=watch.next_pass())
        share: CodecShare | None = None
        if codec_baseline:
            share = encode_again(footage, measured, width=clips.width, watch=watch.next_pass())
        elif master is not None:
            source = replace(open_footage(master, fps=clips.fps), clips=footage.clips)
            share = against_master(source, measured, width=clips.width, watch=watch.next_pass())
        files = _write(html, png, measured, codec=share)
    data = {
        "event": "result",
        "path": str(video),
        "clips_found": footage.clips.found,
        "notes": measured.notes,
        "drift": measured.drift.as_dict(),
        "codec_share": None if share is None else share.as_dict(),
        "files": [str(file) for file in files],
    }
    reporter.answer(finite(data), "\n".join([measured_text(measured, share), *map(str, files)]))
    return exit_code(measured.drift.verdict.overall, strict=strict)


def _write(
    html: Path | None,
    png: Path | None,
    measured: Measured,
    other: Measured | None = None,
    *,
    comparison: Comparison | None = None,
    codec: CodecShare | None = None,
) -> list[Path]:
    """Write the report's files that were asked for, and return them."""
    files: list[Path] = []
    if html is not None:
        write_html(html, measured, other, comparison=comparison, codec=codec)
        files.append(html)
    if png is not None:
        files += write_pngs(png, measured, other)
    return files


@drift.command
@flowing
def compare(
    first: Annotated[Path, Parameter(help="The run that the other is measured against.")],
    second: Annotated[Path, Parameter(help="Another run of the same content.")],
    /,
    *,
    clips: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    html: Annotated[Path | None, _HTML] = None,
    png: Annotated[Path | None, _PNG] = None,
    strict: Annotated[bool, _STRICT] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Compare two runs of the same seed and prompt, clip by clip.

    What they show cancels, so that far smaller differences are seen than in two measurements. Exit
    codes as those of measure, for how much more or less the second one drifts.
    """
    check_outputs(html, png)
    reporter = Reporter(common)
    stills = html is not None or png is not None
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        total = sum(probe_video(path).num_frames for path in (first, second))
        watch = Watch(reporter, cancel, (1 + clips.cuts) * total)
        if rates := told_of_rates(first, second):
            reporter.warn(rates)
        runs = []
        for path in (first, second):
            footage = open_footage(path, **clips.given(), watch=watch.next_pass())
            watch = watch.next_pass()
            runs.append(measure_file(footage, width=clips.width, stills=stills, watch=watch))
        found = compare_features(runs[0].features, runs[1].features)
        written = _write(html, png, *runs, comparison=found)
    data = {
        "event": "result",
        "first": str(first),
        "second": str(second),
        "comparison": found.as_dict(),
        "verdicts": [run.drift.verdict.overall for run in runs],
        "files": [str(file) for file in written],
    }
    text = compared_text(first.name, second.name, found)
    reporter.answer(finite(data), "\n".join([text, *map(str, written)]))
    return exit_code(found.verdict.overall, strict=strict)


@drift.command
@flowing
def inject(
    video: Annotated[Path, _VIDEO],
    /,
    *,
    spec: Annotated[
        str, Parameter(help=f"What to inject, e.g. gain=0.97,blur=0.3: {', '.join(INJECTIONS)}.")
    ],
    out: Annotated[
        Path, Parameter(name=["--out", "-o"], help="The video to write; .mkv is lossless.")
    ],
    clips: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Put a known drift into a video, so that what the meter reads can be checked.

    The first clip stays as it is; memory is needed for the frames of one clip.
    """
    if not spec.strip():
        raise BadRequest("--spec is empty; write for example gain=0.97, or none for a plain copy.")
    injector = Injector.parse(spec)
    profile = _OUTPUTS.get(out.suffix.lower().lstrip("."))
    if profile is None:
        raise BadRequest(f"--out {out} has no known ending; use .{', .'.join(_OUTPUTS)}.")
    if out.exists() and video.exists() and out.samefile(video):
        raise BadRequest(f"--out {out} is the video itself; name another file.")
    check_folder(out.absolute().parent)
    reporter = Reporter(common)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        watch = Watch(reporter, cancel, (1 + clips.cuts) * probe_video(video).num_frames)
        footage = open_footage(video, **clips.given(), watch=watch)
        lengths = footage.clips.lengths
        if len(lengths) < 2:
            raise BadRequest(
                f"{video.name} is a single clip, and the first clip is never changed; "
                f"name --clip-frames below {footage.info.num_frames}."
            )
        with _writer(out, footage, spec, profile) as writer:
            for index, pieces in enumerate(footage.pieces(watch.next_pass())):
                writer.write(injector.apply(np.concatenate(list(pieces)), index))
    data = {"event": "result", "path": str(out), "spec": spec, "clips": list(lengths)}
    reporter.answer(data, f"{out}: {spec} in {len(lengths)} clips")


def _writer(
    out: Path, footage: Footage, spec: str, profile: str
) -> AbstractContextManager[VideoWriter]:
    """Open the file; its recipe says where the clips are, so that measuring it needs no option."""
    ends = np.cumsum(footage.clips.lengths).tolist()
    rows = [
        {"start": start, "stop": stop, "kind": kind}
        for start, stop, kind in zip([0, *ends], ends, footage.clips.kinds, strict=False)
    ]
    return VideoWriter(
        out,
        width=footage.info.width,
        height=footage.info.height,
        fps=Fraction(footage.fps).limit_denominator(1001),
        profile=profile,
        recipe=json.dumps({"injected": spec, "chain": {"clips": rows}}),
    )


@drift.command
@flowing
def selftest(
    *,
    only: Annotated[
        str | None, Parameter(help="Run the cases whose name holds this.", show_default=False)
    ] = None,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Test the meter on this machine: inject known drift into drawn footage and read it.

    Exit code 11 when a reading is not what it must be.
    """
    cases = [case for case in CASES if only is None or only in case.spec]
    if not cases:
        known = ", ".join(case.spec for case in CASES)
        raise BadRequest(f"--only {only} is in none of the cases: {known}.")
    reporter = Reporter(common)
    began = time.perf_counter()
    with ExitStack() as stack:
        cancel = stack.enter_context(stoppable(speak=reporter.for_people))
        stack.enter_context(reporter.working())

        def show(done: int, total: int, spec: str) -> None:
            cancel.check(f"after {done} of {total} cases")
            left = (time.perf_counter() - began) * (total - done) / max(done, 1)
            eta = f" · ETA {clock(left)}" if done else ""
            reporter.stage(f"case {done + 1}/{total} {spec}{eta}")

        checks = run_selftest(on=show, cases=cases)
    good = all(check.ok for check in checks)
    data = {
        "event": "result",
        "ok": good,
        "checks": [{**asdict(check), "ok": check.ok} for check in checks],
    }
    reporter.answer(finite(data), checks_text(checks))
    return exit_code("pass" if good else "fail", strict=False)
