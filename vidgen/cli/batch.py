"""`vidgen batch`: many requests, each finished clip noted, so that a second run goes on."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.cli.batch_items import Item, Manifest, find_images, make_items, read_grid, read_prompts
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Maker, check_room, new_writer, plan_facts
from vidgen.cli.naming import check_template, clip_paths
from vidgen.cli.options import (
    Common,
    CommonOf,
    FlagsOf,
    RequestFlags,
    Running,
    RunningOf,
    flags_given,
    flowing,
)
from vidgen.cli.place import find_device, home_of, settings_of
from vidgen.cli.report import Reporter, table
from vidgen.cli.show import between, bytes_text, seconds_text
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.plan import Plan, plan
from vidgen.workload import Interval

TEMPLATE = "{prompt:.60}_{id}"


@dataclass(frozen=True, slots=True)
class Job:
    """One item with its plan; done is the file of an earlier run, if it is there."""

    item: Item
    plan: Plan
    done: Path | None


@flowing
def batch(
    file: Annotated[Path, Parameter(help=".txt: prompts, one a line; .jsonl, .csv: requests.")],
    /,
    *,
    images: Annotated[str | None, Parameter(help="First frames, e.g. 'photos/*.jpg'.")] = None,
    grid: Annotated[
        list[str] | None,
        Parameter(
            help="KEY=A,B or KEY=1..4; may be given several times.", metavar="KEY=A,B", negative=()
        ),
    ] = None,
    out: Annotated[
        Path, Parameter(name=["--out", "-o"], help="Folder of the clips and of batch.jsonl.")
    ] = Path("batch"),
    name_template: Annotated[
        str | None, Parameter(help=f"Name of a clip. [default: {TEMPLATE}]")
    ] = None,
    max_fail: Annotated[
        int | None, Parameter(help="Stop after this many failed items; go on to the end without.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(help="Print a table of what would be made.", show_default=False)
    ] = False,
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Make many clips: every prompt with every image and every cell of the grid.

    All requests are checked before the first clip. One seed is drawn for the whole batch, unless
    seeds are given, so that only what the grid says differs. Finished items are noted in
    batch.jsonl in the folder; a second run of the same command makes the missing ones only. A clip
    does not depend on its place in the list. Exit code 1 when an item failed.

    With --server URL, or VIDGEN_SERVER, a server makes them: vidgen batch --server URL --help.
    """
    if max_fail is not None and max_fail < 1:
        raise BadRequest(f"max_fail={max_fail} must be 1 or more.", field="max_fail")
    given = flags_given(flags) | running.given()
    if name_template is not None:
        given["name_template"] = name_template
    settings = settings_of(common, given)
    template = settings.own("name_template", TEMPLATE)
    check_template(template)
    home = home_of(common)
    device = find_device(settings, home, only_planning=dry_run)
    reporter = Reporter(common)
    manifest = Manifest(out)
    seed = manifest.seed()
    items = make_items(
        settings.request(), read_prompts(file), find_images(images), read_grid(grid or []), seed
    )
    jobs = _plan_all(items, manifest, device.profile, out, template, must_fit=not dry_run)
    todo = [job for job in jobs if job.done is None]
    check_room([job.plan for job in todo], out.absolute())
    if dry_run:
        _show(jobs, reporter)
        return 0
    manifest.keep_seed(seed)
    reporter.emit("batch", items=len(jobs), done=len(jobs) - len(todo), seed=seed)
    reporter.warn(f"{len(jobs)} items, {len(jobs) - len(todo)} finished before", "batch")
    if device.note:
        reporter.warn(device.note)
    failed = 0
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=settings.switch("offline"))
        # Items with one model follow one another; the sort is stable, and order changes no clip.
        ordered = sorted(todo, key=lambda job: (job.plan.model.name, job.plan.dtype,
                                                job.plan.offload))  # fmt: skip
        for number, job in enumerate(ordered, start=1):
            if not _make(job, out, template, number, len(ordered), maker, manifest, reporter):
                failed += 1
            if failed == max_fail:
                break
    made = sum(1 for job in jobs if manifest.file_of(job.item) is not None)
    reporter.emit("result", items=len(jobs), finished=made, failed=failed)
    reporter.say(f"{made} of {len(jobs)} clips in {out}, {failed} failed")
    return 1 if failed else 0


def _plan_all(
    items: Sequence[Item],
    manifest: Manifest,
    device: DeviceProfile,
    folder: Path,
    template: str,
    *,
    must_fit: bool,
) -> list[Job]:
    """Plan every item, so that a mistake in the last line is told before the first clip."""
    jobs = []
    for item in items:
        try:
            made = plan(item.request, device)
            new_writer(clip_paths(None, template, made, folder=folder)[0], plan_facts(made))
            if must_fit:
                made.check_fits()
        except VidgenError as error:
            error.message = f"{item.where}: {error.message}"
            raise
        jobs.append(Job(item, made, manifest.file_of(item)))
    return jobs


def _make(
    job: Job,
    folder: Path,
    template: str,
    number: int,
    count: int,
    maker: Maker,
    manifest: Manifest,
    reporter: Reporter,
) -> bool:
    """Make one item and note it; return whether it was made."""
    path = clip_paths(None, template, job.plan, folder=folder)[0]
    try:
        made = maker.make(job.plan, path, clip=number, clips=count)
    except Cancelled as error:
        error.message += " Finished clips are kept; the same command goes on with the rest."
        raise
    except VidgenError as error:
        reporter.emit("failed", item=job.item.id, where=job.item.where, error=error.as_dict())
        if not reporter.json:
            reporter.warn(f"{job.item.where}: {error.message}", "failed")
        return False
    manifest.add(job.item, path)
    reporter.emit("clip", item=job.item.id, clip=number, clips=count, **made.as_dict())
    reporter.say(str(made))
    return True


def _show(jobs: Sequence[Job], reporter: Reporter) -> None:
    """Print what would be made, with tokens, time and disk of each and of all."""
    rows: list[dict[str, Any]] = [
        {
            "item": job.item.id,
            "where": job.item.where,
            "done": None if job.done is None else str(job.done),
            "tokens": job.plan.grid.tokens,
            "seconds": dataclasses.asdict(job.plan.estimate.seconds["total"]),
            "disk_bytes": dataclasses.asdict(job.plan.estimate.disk_bytes),
            "request": job.item.request.given(),
            "adjustments": [item.as_dict() for item in job.plan.adjustments],
        }
        for job in jobs
    ]
    todo = [job for job in jobs if job.done is None]
    seconds = _sum([job.plan.estimate.seconds["total"] for job in todo])
    disk = _sum([job.plan.estimate.disk_bytes for job in todo])
    cells = [
        (
            job.item.where,
            "done" if job.done is not None else "to do",
            f"{job.plan.grid.tokens:,}",
            seconds_text(job.plan.estimate.seconds["total"]),
            between(job.plan.estimate.disk_bytes, bytes_text),
            str(job.plan.seeds[0]),
            job.item.request.prompt[:60],
        )
        for job in jobs
    ]
    text = table(("LINE", "STATE", "TOKENS", "TIME", "DISK", "SEED", "PROMPT"), cells)
    lines = [f"adjusted  {job.item.where}: {item}" for job in jobs for item in job.plan.adjustments]
    cost = f"{seconds_text(seconds)}, {between(disk, bytes_text)}"
    total = f"{len(todo)} of {len(jobs)} to do: {cost}"
    reporter.answer(
        {
            "event": "plan",
            "dry_run": True,
            "items": rows,
            "to_do": len(todo),
            "seconds": dataclasses.asdict(seconds),
            "disk_bytes": dataclasses.asdict(disk),
        },
        "\n".join([text, *dict.fromkeys(lines), total]),
    )


def _sum(intervals: Sequence[Interval]) -> Interval:
    return Interval(sum(item.low for item in intervals), sum(item.high for item in intervals))
