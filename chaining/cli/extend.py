"""`vidgen extend`: go on with a video that exists."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaining.chain import Chain, Result
from chaining.cli.asked import Asked, gather, story_asked, story_begun
from chaining.cli.branch import answer_branch, branch_story, decide_branch, run_branch
from chaining.cli.chain import check_chain_output, tell_result
from chaining.cli.extension import (
    Extension,
    check_file,
    decide,
    encoding_of,
    file_beside,
    refuse_itself,
    refuse_set,
)
from chaining.cli.extension_text import extension_data, extension_text, tell_extension
from chaining.cli.report_page import check_report, write_report
from chaining.cli.story_options import (
    ClipFlags,
    ClipFlagsOf,
    Shots,
    ShotsOf,
    StoryFlags,
    StoryFlagsOf,
)
from chaining.cli.telling import Teller, result_data, result_text, tell_stopped
from chaining.cli.work import Place, check_start, exit_code, folder_beside, run, with_report
from chaining.engine_maker import EngineMaker
from chaining.extend import Continuing, Extended, Original, extended_recipe, open_original
from chaining.extend_write import write_extended
from chaining.held import Held, find_held
from chaining.manifest import NAME, read_manifest
from chaining.recipe import chain_recipe
from chaining.story import Story
from vidgen.cli.options import Common, CommonOf, Running, RunningOf, flowing
from vidgen.cli.place import Device, find_device, home_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.events import CancelToken


@flowing
def extend(
    file: Annotated[Path, Parameter(help="The video to go on with.")],
    prompt: Annotated[str | None, Parameter(help="What a new part of one shot shows.")] = None,
    /,
    *,
    from_frame: Annotated[
        int | None, Parameter(help="Frame to go on from, from 0; what comes after is cut off.")
    ] = None,
    from_time: Annotated[
        str | None, Parameter(name="--from", help="Time to go on from, e.g. 3.2s.", metavar="TEXT")
    ] = None,
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="The new file. [default: NAME-extended]")
    ] = None,
    folder: Annotated[
        Path | None, Parameter(help="Where new clips are kept. [default: beside the new file]")
    ] = None,
    branch: Annotated[
        bool,
        Parameter(
            help="Go on from the clips in the folder of the chain that made the file, or fail. "
            "Without it that is done where it can be and no --folder is named.",
            show_default=False,
        ),
    ] = False,
    resume: Annotated[
        bool, Parameter(help="Go on with the clips in the folder.", show_default=False)
    ] = False,
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
    """Go on with a video: the old part and the new one in one file, at the old one's size and rate.

    The new part is told by a prompt and --seconds, by shots, or by a storyboard. Its first clip
    continues the video's last frame, or the one that --from-frame or --from names, as --strategy
    says: last_frame hands one frame over, overlap several, which say where things move. Frames go
    to the model at its own size and new ones come back at the file's. The old part is encoded once
    more, the same frames; its sound stays where it is, and silence follows.

    A file that vidgen chain made goes on in the chain's folder, where that still lies beside it and
    the frame ends a shot: then nothing is read back from the file, and all of it is one chain.

    Ctrl-C stops after the step that runs, and makes the file with the clips that are finished; the
    same command with --resume, or the one that is told, goes on to the same file. A second Ctrl-C
    aborts. Exit code 11 when --drift-stop found that the video drifts; with --strict the verdict's:
    10 for a warning, 11 when something is bad, 12 when it cannot be told.

    With --server URL, or VIDGEN_SERVER, a server makes it: vidgen extend --server URL --help.
    """
    asked = gather(prompt, flags, told, running, common)
    refuse_set(asked)
    original = open_original(file, from_frame, None if from_time is None else _seconds(from_time))
    if report is not None:
        check_report(report)
    if remake and not resume:
        raise BadRequest("--remake is about clips that exist; give --resume too.")
    if resume and out is None:
        raise BadRequest("--resume needs the file that was begun: give its --out.", field="out")
    reporter, home = Reporter(common), home_of(common)
    device = find_device(asked.settings, home, only_planning=dry_run)
    place = Place(device, home, reporter, asked.settings.switch("offline"))
    if resume and out is not None and folder is None:
        _refuse_held(original, out)
    held = _held(original, folder, branch=branch, resume=resume)
    if held is not None:
        story = branch_story(held, story_asked(asked, shots, None), asked)
        output = _beside(original, story.request.get("format", "mp4"), out)
        refuse_itself(original, output)
        return _in_its_chain(held, story, output, place, report, dry_run=dry_run)
    extension = _decided(
        asked, shots, original, out, folder, device, resume=resume, dry_run=dry_run
    )
    if dry_run:
        reporter.answer(extension_data(extension, dry_run=True), extension_text(extension))
        return 0
    return _from_the_file(extension, place, report, resume=resume, remake=remake)


def _in_its_chain(
    held: Held, story: Story, output: Path, place: Place, report: Path | None, *, dry_run: bool
) -> int:
    """Go on in the folder of the chain that made the file; return the exit code."""
    work, from_clip = decide_branch(held, story, output, place)
    work = with_report(work, report)
    check_chain_output(work)
    if dry_run:
        answer_branch(work, from_clip, place)
        return 0
    return tell_result(run_branch(work, from_clip, place), work, place.reporter, report)


def _from_the_file(
    extension: Extension, place: Place, report: Path | None, *, resume: bool, remake: bool
) -> int:
    """Make a chain whose first clip is the file's end; return the exit code."""
    extension = replace(extension, work=with_report(extension.work, report))
    work, reporter = extension.work, place.reporter
    check_start(work, resume=resume)
    if place.device.note:
        reporter.warn(place.device.note)
    tell_extension(reporter, extension)

    def go(maker: EngineMaker, teller: Teller, cancel: CancelToken) -> Result:
        made = Chain(work.story, Continuing(maker, extension.original), work.folder)
        return made.run(
            on=teller, cancel=cancel, resume=resume, remake=remake,
            write=lambda result: _write(extension, result, reporter),
        )  # fmt: skip

    return _told(extension, run(work, place, go), reporter, report)


def _refuse_held(original: Original, out: Path) -> None:
    """Say how to resume where the file went on in the folder of the chain that made it."""
    own = folder_beside(original.path)
    if not (folder_beside(out) / NAME).is_file() and isinstance(find_held(original, own), Held):
        words = ["vidgen", "chain", "--resume", "--folder", str(own), "--out", str(out)]
        raise BadRequest(
            f"{original.path.name} goes on in {own}, the folder of its chain; resume with "
            f"`{shlex.join(words)}`.",
            field="resume",
        )


def _held(original: Original, folder: Path | None, *, branch: bool, resume: bool) -> Held | None:
    """Return the chain that made the file, where it is to be gone on with."""
    if resume or (folder is not None and not branch):
        return None
    found = find_held(original, folder_beside(original.path) if folder is None else folder)
    if isinstance(found, Held):
        return found
    if branch:
        raise BadRequest(f"--branch is not possible: {found}", field="branch")
    return None


def _beside(original: Original, profile: str, out: Path | None) -> Path:
    return file_beside(original.path, profile) if out is None else out


def _decided(
    asked: Asked,
    shots: Shots,
    original: Original,
    out: Path | None,
    folder: Path | None,
    device: Device,
    *,
    resume: bool,
    dry_run: bool,
) -> Extension:
    """Settle names and format, take the story from the flags or the folder, and decide."""
    encoding, changes = encoding_of(original, out, asked)
    output = _beside(original, encoding.profile, out)
    folder = folder_beside(output) if folder is None else folder
    told_anew = shots.shot or shots.storyboard is not None or "prompt" in asked.shots
    if resume and not told_anew:
        story = story_begun(asked, folder, None)
    else:
        story = story_asked(asked, shots, None)
    again = ("vidgen", "extend", str(original.path), "--from-frame", str(original.kept - 1),
             "--resume", "--folder", str(folder), "--out", str(output))  # fmt: skip
    check_file(original, encoding, output)
    return decide(
        story, original, encoding, changes, device.profile, (output, folder), again,
        resume=resume, dry_run=dry_run,
    )  # fmt: skip


def _seconds(text: str) -> float:
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        raise BadRequest(f"--from {text!r} is no time; write e.g. 3.2s.", field="from") from None


def _extended(extension: Extension, result: Result) -> Extended | None:
    """Return what the file shows; None where no new clip is finished."""
    return Extended(extension.original, result.takes) if len(result.takes) > 1 else None


def _write(extension: Extension, result: Result, reporter: Reporter) -> None:
    """Write the file if there is a new clip to show, and say where its sound ends."""
    work, extended = extension.work, _extended(extension, result)
    if extended is None:
        return
    recipe = extended_recipe(chain_recipe(read_manifest(work.folder), result.takes), extended)
    title = work.story.shots[1].prompt[:80]
    silent = write_extended(
        extended, work.output, extension.encoding, join=work.story.handover.join, recipe=recipe,
        title=title,
    )  # fmt: skip
    if silent is not None:
        text = f"the old part's stays where it was; silence from {float(silent):.3f} s on"
        reporter.warn(text, "sound")


def _told(extension: Extension, result: Result, reporter: Reporter, report: Path | None) -> int:
    """Tell what was made; return the exit code."""
    work, info = extension.work, extension.original.info
    extended = _extended(extension, result)
    if report is not None and result.drift is not None:
        write_report(report, result)
        reporter.emit("report", path=str(report))
    if extended is None:
        raise BadRequest(f"No new clip is finished in {work.folder}; go on with --resume.")
    folder, size = str(work.folder), (info.width, info.height)
    whole = (work.output, extended.num_frames)
    reporter.say(result_text(result, folder, size, whole))
    tell_stopped(reporter, result)
    reporter.emit("result", **result_data(result, folder, whole), kept=extended.kept)
    return exit_code(result, work.story)
