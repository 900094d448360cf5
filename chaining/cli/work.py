"""One chain at work for a command: checks before the weights are loaded, the run, how it ends."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from chaining.capabilities import capabilities_of
from chaining.chain import NOT_ASSEMBLED, Result
from chaining.cli.cost import Cost
from chaining.cli.telling import Teller
from chaining.engine_maker import EngineMaker
from chaining.files import locked
from chaining.lengths import Lengths
from chaining.manifest import NAME, read_manifest
from chaining.schedule import Schedule, make_schedule
from chaining.story import Story
from vidgen.adjustment import Adjustment
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Maker
from vidgen.cli.place import Device
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken
from vidgen.home import Home
from vidgen.media.disk import check_folder
from vidgen.plan import Plan

FOLDER_SUFFIX = ".chain"
CODES = {"pass": 0, "warn": 10, "fail": 11, "inconclusive": 12}

Go = Callable[[EngineMaker, Teller, CancelToken], Result]


@dataclass(frozen=True, slots=True)
class Work:
    """What one run is about, all decided.

    again  the words of the command that goes on with it
    given  clips at the start that are there already
    """

    story: Story
    first: Plan
    schedule: Schedule
    cost: Cost
    folder: Path
    output: Path
    again: tuple[str, ...]
    given: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command works, and how it speaks."""

    device: Device
    home: Home
    reporter: Reporter
    offline: bool


def with_report(work: Work, report: Path | None) -> Work:
    """Return a copy whose going on writes the report too."""
    if report is None:
        return work
    return replace(work, again=(*work.again, "--report", str(report)))


def folder_beside(output: Path) -> Path:
    """Return the folder of a chain that nobody named: long.mp4 has long.chain."""
    return output.with_name(output.stem + FOLDER_SUFFIX)


def seed_held(folder: Path) -> int | None:
    """Return the seed of the chain that a folder holds, None where it holds none."""
    return read_manifest(folder).seed if (folder / NAME).is_file() else None


def schedule_of(story: Story, first: Plan, seed: int | None) -> Schedule:
    """Decide every clip without an engine.

    seed    of the chain that is gone on with, None of a new one; used when the story has none
    Raises  BadRequest, Unsupported; with strict, for lengths that had to differ
    """
    family = first.model.family
    lengths = Lengths.of(family, first.num_frames)
    able, begun = capabilities_of(family), seed is not None
    made = make_schedule(story, lengths, first.fps, able, seed, begun=begun)
    refuse_strict(story, made.adjustments)
    return made


def refuse_strict(story: Story, items: tuple[Adjustment, ...]) -> None:
    """Raise BadRequest for adjustments where the story wants none."""
    if items and story.request.get("strict"):
        raise BadRequest(
            f"strict allows no adjustment: {'; '.join(str(item) for item in items)}.",
            code="strict",
            field=items[0].field,
        )


def check_start(work: Work, *, resume: bool) -> None:
    """Refuse now what would fail only when the weights are loaded.

    Raises  BadRequest, Busy, DoesNotFit
    """
    work.cost.largest.check_fits()
    work.cost.check_room(work.folder, work.output)
    if (work.folder / NAME).is_file() and not resume:
        raise BadRequest(
            f"{work.folder} holds a chain already; go on with --resume, or name another --folder.",
            field="folder",
        )
    check_folder(work.output.absolute().parent)
    with locked(work.folder):
        pass


def run(work: Work, place: Place, go: Go) -> Result:
    """Load the engine and make the chain; what stops or fails says what is kept and what next."""
    reporter = place.reporter
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        engine = Maker(place.device, place.home, reporter, cancel, offline=place.offline).engine(
            work.first
        )
        cancel.check("before the first clip")
        maker = EngineMaker(work.story, place.device.profile, engine)
        before = _written_at(work.output)
        chosen = _chosen(work.folder)
        try:
            return go(maker, Teller(reporter, work.schedule.fps, work.given), cancel)
        except VidgenError as error:
            refused = isinstance(error, BadRequest) and _chosen(work.folder) == chosen
            if not refused:  # what was refused is not to be gone on with
                error.message = f"{error.message} {_what_is_kept(work, error, before)}".rstrip()
            raise
        except Exception as error:
            kept = _what_is_kept(work, error, before)
            if kept:
                reporter.warn(kept, "kept")
            raise


def _chosen(folder: Path) -> dict[str, str]:
    """Return the takes that count in a chain's folder; none where there is no chain."""
    return read_manifest(folder).chosen if (folder / NAME).is_file() else {}


def _written_at(path: Path) -> int | None:
    """Return when a file was written, in nanoseconds; None when there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _what_is_kept(work: Work, error: Exception, before: int | None) -> str:
    """Say what is on disk; before is when the video was last written, before this run."""
    if not (work.folder / NAME).is_file():
        return ""
    chosen = read_manifest(work.folder).chosen
    here = sum(str(clip.index) in chosen for clip in work.schedule.clips)
    done = max(0, here - work.given)
    if not done and not isinstance(error, Cancelled):
        return ""
    shown = work.schedule.shown
    whole = next((i for i, clip in enumerate(shown) if str(clip.index) not in chosen), len(shown))
    lost = [note for note in getattr(error, "__notes__", ()) if note.startswith(NOT_ASSEMBLED)]
    video = ""
    if whole > work.given and not lost and _written_at(work.output) not in (None, before):
        video = f", the first {whole - work.given} of the video are in {work.output}"
    kept = (
        f"{done} of {len(work.schedule.clips) - work.given} clips are finished{video}; go on with "
        f"`{shlex.join(work.again)}`."
    )
    return " ".join([kept, *lost])


def exit_code(result: Result, story: Story) -> int:
    """Return 0, or the verdict's code where strict or drift_stop asks for it."""
    if result.drift is None:
        return 0
    code = CODES[result.drift.verdict.overall]
    if story.request.get("strict"):
        return code
    return code if story.controls.drift_stop and code == CODES["fail"] else 0
