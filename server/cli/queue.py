"""`vidgen queue`: see and change what waits and runs."""

import itertools
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from server.cli.desk import client_of, desk_of
from server.cli.options import Reach, ReachOf
from server.cli.queue_file import read_queue, write_queue
from server.cli.queue_text import event_text, job_rows, job_text, worker_rows
from server.cli.report import Reporter, table
from server.states import TERMINAL, JobState
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.errors import BadRequest
from vidgen.media.disk import check_folder, check_target

queue = App(name="queue", help="See and change what waits and runs: here, or on a server.")
_ID = Parameter(help="A job, e.g. video_0mq2x1c8f4n0d3kq81x0z9y.")
_IDS = Parameter(help="Jobs.", negative=())
MOST_LISTED = 10_000
UNENDED = tuple(state.value for state in JobState if state not in TERMINAL)


@queue.command(name="ls")
@flowing
def list_jobs(
    *,
    all_: Annotated[
        bool, Parameter(name="--all", help="Ended ones too, newest first.", show_default=False)
    ] = False,
    state: Annotated[
        list[str] | None,
        Parameter(help=f"Only in this state: {', '.join(JobState)}.", negative=()),
    ] = None,
    limit: Annotated[int, Parameter(help=f"At most so many, 1 to {MOST_LISTED}.")] = 50,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """List the jobs that wait and run, with their place and when they are expected to end."""
    unknown = [name for name in state or () if name not in set(JobState)]
    if unknown:
        raise BadRequest(f"state={unknown[0]!r} is none of {', '.join(JobState)}.", field="state")
    if not 1 <= limit <= MOST_LISTED:
        raise BadRequest(f"limit={limit} must be 1 to {MOST_LISTED}.", field="limit")
    desk = desk_of(reach, common)
    states = tuple(state or (() if all_ else UNENDED))
    found = list(itertools.islice(desk.jobs(states, newest=all_), limit))
    found = [job if job["state"] in TERMINAL else desk.show(job["id"]) for job in found]
    Reporter(common).answer({"jobs": found}, _listed(found, limit))


def _listed(found: list[dict[str, Any]], limit: int) -> str:
    if not found:
        return "Nothing waits or runs."
    text = table(*job_rows(found))
    return text if len(found) < limit else f"{text}\nThe first {limit}; --limit shows more."


@queue.command
@flowing
def show(
    job: Annotated[str, _ID],
    /,
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Show a job: what it makes, where it is, what it has used, why it failed."""
    found = desk_of(reach, common).show(job)
    Reporter(common).answer(found, job_text(found))


@queue.command
@flowing
def watch(
    job: Annotated[str | None, _ID] = None,
    /,
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Follow a job until it ends, or with none named everything that happens.

    Leaving does not touch any job. Exit code 1 when the job that was followed failed.
    """
    desk, reporter = desk_of(reach, common), Reporter(common)
    for kind, data in desk.events(job):
        reporter.emit(kind, **data)
        reporter.say(event_text(kind, data))
        sys.stdout.flush()
    if job is None:
        return 0
    return 0 if desk.show(job)["status"] == "completed" else 1


def _act(jobs: list[str], action: str, reach: Reach, common: Common, **data: Any) -> None:
    if not jobs:
        raise BadRequest(f"Name the jobs to {action}; vidgen queue ls lists them.")
    desk, reporter = desk_of(reach, common), Reporter(common)
    for job in jobs:
        found = desk.act(job, action, data)
        reporter.answer(found, f"{found['id']}  {found['state']}")


@queue.command
@flowing
def cancel(
    *jobs: Annotated[str, _IDS],
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Stop jobs; one that runs stops after its step. Finished clips are kept."""
    _act(list(jobs), "cancel", reach, common)


@queue.command
@flowing
def pause(
    *jobs: Annotated[str, _IDS],
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Stop jobs for a while; resume goes on at the first unfinished clip."""
    _act(list(jobs), "pause", reach, common)


@queue.command
@flowing
def resume(
    *jobs: Annotated[str, _IDS],
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Go on with jobs that are paused, failed or cancelled."""
    _act(list(jobs), "resume", reach, common)


@queue.command
@flowing
def retry(
    *jobs: Annotated[str, _IDS],
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Run jobs again that ended without a video; their finished clips stay."""
    _act(list(jobs), "retry", reach, common)


@queue.command
@flowing
def hold(
    *jobs: Annotated[str, _IDS],
    reason: Annotated[str, Parameter(help="Shown to whoever looks.")] = "held by a person",
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Keep waiting jobs from being started until they are released."""
    _act(list(jobs), "hold", reach, common, reason=reason)


@queue.command
@flowing
def release(
    *jobs: Annotated[str, _IDS],
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Let held jobs wait for a worker again."""
    _act(list(jobs), "release", reach, common)


@queue.command
@flowing
def move(
    job: Annotated[str, _ID],
    /,
    *,
    to: Annotated[Literal["first", "last"] | None, Parameter(help="To an end.")] = None,
    before: Annotated[str | None, Parameter(help="Before this job.")] = None,
    after: Annotated[str | None, Parameter(help="After this job.")] = None,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Move a waiting job among those of its tenant."""
    given = {"to": to, "before": before, "after": after}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise BadRequest("Say where: one of --to first, --to last, --before JOB, --after JOB.")
    _act([job], "move", reach, common, **named)


@queue.command
@flowing
def fetch(
    job: Annotated[str, _ID],
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"], help="The file to write.")],
    variant: Annotated[
        str,
        Parameter(help="video, thumbnail, spritesheet, latents, master, last_frame, report."),
    ] = "video",
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Bring a file of a job here."""
    check_target(out)
    check_folder(out.absolute().parent)
    desk_of(reach, common).fetch(job, variant, out)
    Reporter(common).answer({"job": job, "variant": variant, "path": str(out)}, str(out))


@queue.command
@flowing
def workers(
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """List the workers: what they run on, what they do, when they were last heard of."""
    found = desk_of(reach, common).workers()
    text = table(*worker_rows(found)) if found else "No worker; start one with vidgen worker."
    Reporter(common).answer({"workers": found}, text)


@queue.command(name="export")
@flowing
def export_queue(
    file: Annotated[Path, Parameter(help="The file to write: .zip.")],
    /,
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Write your waiting jobs, with the files that they name, to be imported elsewhere.

    The jobs stay where they are. Jobs that go on from other videos of the server, and those with
    zero retention, cannot leave it and are named.
    """
    client = client_of(reach)
    if client is None:
        raise BadRequest("An export speaks to a server; name it with --server URL.", field="server")
    left = write_queue(file, client)
    reporter = Reporter(common)
    for job, why in left.skipped:
        reporter.warn(f"{job}: {why}", "left out")
    data = {"path": str(file), "jobs": left.jobs, "left_out": [job for job, _ in left.skipped]}
    reporter.answer(data, f"{file}  {left.jobs} jobs")


@queue.command(name="import")
@flowing
def import_queue(
    file: Annotated[Path, Parameter(help="A file that export wrote.")],
    /,
    *,
    reach: ReachOf = Reach(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Hand in the jobs of an export, in their order; they get new ids.

    A second import of the same file within a day makes nothing twice: it names the jobs that the
    first one made.
    """
    client = client_of(reach)
    if client is None:
        raise BadRequest("An import speaks to a server; name it with --server URL.", field="server")
    reporter = Reporter(common)
    made: list[dict[str, Any]] = []
    for item in read_queue(file, client):
        made.append({"was": item.was, "is": item.now, "there": item.there})
        reporter.say(f"{item.was}  ->  {item.now}{'  was there' if item.there else ''}")
    there = sum(item["there"] for item in made)
    reporter.emit("result", jobs=made, there=there)
    reporter.say(f"{len(made)} jobs, {there} of which were there already")
