"""`vidgen chain`: a long video of many clips, from the flags to the file."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaining.advice import before_run
from chaining.assemble import check_output
from chaining.chain import Chain, Result
from chaining.cli.asked import Asked, check_pictures, gather, story_asked, story_begun
from chaining.cli.cost import chain_cost
from chaining.cli.report_page import check_report, write_report
from chaining.cli.story_options import (
    ClipFlags,
    ClipFlagsOf,
    Shots,
    ShotsOf,
    StoryFlags,
    StoryFlagsOf,
)
from chaining.cli.telling import (
    Teller,
    result_data,
    result_text,
    schedule_data,
    schedule_text,
    tell_advice,
    tell_schedule,
    tell_stopped,
)
from chaining.cli.work import (
    FOLDER_SUFFIX,
    Place,
    Work,
    check_start,
    exit_code,
    folder_beside,
    run,
    schedule_of,
    seed_held,
    with_report,
)
from chaining.engine_maker import EngineMaker, first_plan
from chaining.manifest import read_manifest
from chaining.story import Story
from vidgen.cli.naming import DEFAULT_TEMPLATE, check_template, clip_paths
from vidgen.cli.options import Common, CommonOf, Running, RunningOf, flowing
from vidgen.cli.place import find_device, home_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.events import CancelToken
from vidgen.media import PROFILES
from vidgen.plan import Plan

_SAME_AGAIN = (
    "nothing differs from the chain as it began, so the same clips come again; change something "
    "that they depend on, e.g. the seed of a shot in --storyboard"
)


@flowing
def chain(
    prompt: Annotated[str | None, Parameter(help="What a story of one shot shows.")] = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="The video's file.")] = None,
    folder: Annotated[
        Path | None, Parameter(help="Where clips are kept. [default: long.chain for long.mp4]")
    ] = None,
    resume: Annotated[
        bool, Parameter(help="Go on with the chain in the folder.", show_default=False)
    ] = False,
    from_clip: Annotated[
        int | None,
        Parameter(help="With --resume: make this clip, counted from 0, and all later ones anew."),
    ] = None,
    remake: Annotated[
        bool,
        Parameter(
            help="With --resume: make clips anew whose files are damaged.", show_default=False
        ),
    ] = False,
    report: Annotated[Path | None, Parameter(help="Write the drift report: .html.")] = None,
    dry_run: Annotated[
        bool,
        Parameter(help="Print every clip and the cost; needs no weights.", show_default=False),
    ] = False,
    shots: ShotsOf = Shots(),  # noqa: B008 - frozen
    told: StoryFlagsOf = StoryFlags(),  # noqa: B008 - frozen
    flags: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Make a long video of clips that continue each other.

    The story is one prompt with --seconds, shots (--shot "5s: a cat walks" --shot "5s: it sleeps"),
    or a file (--storyboard). --frames is the length of one clip. Clips hand over in memory, as
    --strategy says; colours are held together, and after each clip it is told where they drift.

    Every clip is kept in a folder. Ctrl-C stops after the step that runs, and makes the video of
    the clips that are finished; vidgen chain --resume --folder FOLDER goes on to the same video. A
    second Ctrl-C aborts. Exit code 11 when --drift-stop found that the video drifts; with --strict
    the verdict's: 10 for a warning, 11 when something is bad, 12 when it cannot be told.

    With --server URL, or VIDGEN_SERVER, a server makes it: vidgen chain --server URL --help.
    """
    asked = gather(prompt, flags, told, running, common)
    folder = _folder(out, folder, resume=resume)
    if (remake or from_clip is not None) and not resume:
        option = "--remake" if remake else "--from-clip"
        raise BadRequest(f"{option} is about a chain that exists; give --resume too.")
    again = resume and not _tells(asked, shots)
    story = story_begun(asked, _known(folder), out) if again else story_asked(asked, shots, out)
    check_pictures(story)
    if report is not None:
        check_report(report)
    reporter, home = Reporter(common), home_of(common)
    device = find_device(asked.settings, home, only_planning=dry_run)
    work = with_report(
        _decided(story, first_plan(story, device.profile), out, folder, asked, resume=resume),
        report,
    )
    check_chain_output(work)
    if dry_run:
        _answer(reporter, work)
        return 0
    check_start(work, resume=resume)
    if device.note:
        reporter.warn(device.note)
    if from_clip is not None and work.story == read_manifest(work.folder).parsed_story():
        reporter.warn(_SAME_AGAIN)
    tell_schedule(reporter, work.schedule, work.cost, work.first)
    tell_advice(reporter, before_run(work.story, work.schedule))

    def go(maker: EngineMaker, teller: Teller, cancel: CancelToken) -> Result:
        made = Chain(work.story, maker, work.folder)
        return made.run(
            work.output, on=teller, cancel=cancel, resume=resume, from_clip=from_clip,
            remake=remake,
        )  # fmt: skip

    place = Place(device, home, reporter, asked.settings.switch("offline"))
    return tell_result(run(work, place, go), work, reporter, report)


def _tells(asked: Asked, shots: Shots) -> bool:
    """Whether a story is told anew."""
    return bool(shots.shot) or shots.storyboard is not None or "prompt" in asked.shots


def _folder(out: Path | None, folder: Path | None, *, resume: bool) -> Path | None:
    if folder is not None:
        return folder
    if out is not None:
        return folder_beside(out)
    if resume:
        raise BadRequest("--resume needs the chain: give its --folder, or its --out.")
    return None


def _known(folder: Path | None) -> Path:
    assert folder is not None
    return folder


def _decided(
    story: Story, first: Plan, out: Path | None, folder: Path | None, asked: Asked, *, resume: bool
) -> Work:
    """Settle seed, names and cost; the seed that was drawn is the story's from here on."""
    held = seed_held(folder) if resume and folder is not None else None
    schedule = schedule_of(story, first, held)
    story = story.model_copy(update={"seed": schedule.seed})
    output = _output(out, folder, first, schedule.seed, asked)
    folder = folder_beside(output) if folder is None else folder
    cost = chain_cost(story, schedule, first, first.device)
    again = ["vidgen", "chain", "--resume", "--folder", str(folder), "--out", str(output)]
    device = asked.settings.values.get("device")
    if device is not None and device.origin == "flag":
        again += ["--device", str(device.value)]
    return Work(story, first, schedule, cost, folder, output, tuple(again))


def _output(out: Path | None, folder: Path | None, first: Plan, seed: int, asked: Asked) -> Path:
    """Return the video's file: as asked, or beside a named folder, or by the template."""
    suffix = PROFILES[first.request.format].suffix
    if out is None and folder is not None:
        return folder.with_name(folder.name.removesuffix(FOLDER_SUFFIX) + suffix)
    template = asked.settings.own("name_template", DEFAULT_TEMPLATE)
    check_template(template)
    return clip_paths(out, template, replace(first, seeds=(seed,)), folder=Path())[0]


def check_chain_output(work: Work) -> None:
    """Refuse now a file that could not be written when all clips are made."""
    request, size = work.story.request, work.first.size
    check_output(
        work.output,
        size=(size.width, size.height),
        fps=work.first.fps,
        export_size=(size.export_width, size.export_height),
        profile=request.get("format", "mp4"),
        crf=request.get("crf"),
    )


def _answer(reporter: Reporter, work: Work) -> None:
    advice = before_run(work.story, work.schedule)
    data = {
        "event": "schedule",
        "dry_run": True,
        **schedule_data(work.schedule, work.cost, work.first),
        "advice": [item.text for item in advice],
        "path": str(work.output),
        "folder": str(work.folder),
    }
    reporter.answer(data, schedule_text(work.schedule, work.cost, work.first, advice))


def tell_result(result: Result, work: Work, reporter: Reporter, report: Path | None) -> int:
    """Tell what was made; return the exit code."""
    if report is not None and result.drift is not None:
        write_report(report, result)
        reporter.emit("report", path=str(report))
    size = work.first.size
    reporter.say(result_text(result, str(work.folder), (size.export_width, size.export_height)))
    tell_stopped(reporter, result)
    reporter.emit("result", **result_data(result, str(work.folder)))
    return exit_code(result, work.story)
