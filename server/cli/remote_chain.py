"""`vidgen chain --server URL`: a long video, made by a server."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from chaining.cli.asked import gather, story_asked
from chaining.cli.story_options import (
    ClipFlags,
    ClipFlagsOf,
    Shots,
    ShotsOf,
    StoryFlags,
    StoryFlagsOf,
)
from server.cli.client import Client
from server.cli.desk import client_of
from server.cli.options import Remote, RemoteOf
from server.cli.remote_files import bring_files, refuse_local
from server.cli.remote_generate import (
    check_out,
    finished,
    needed,
    out_path,
    remote_request,
    tell_accepted,
)
from server.cli.remote_job import RemoteJob
from server.cli.remote_options import JobFlags, JobFlagsOf, options_given
from server.cli.remote_text import estimate_text
from server.cli.report import Reporter
from vidgen.cli.interrupt import stoppable
from vidgen.cli.naming import DEFAULT_TEMPLATE, check_template
from vidgen.cli.options import Common, CommonOf, Running, flowing
from vidgen.request import VideoRequest


@flowing
def chain(
    prompt: Annotated[str | None, Parameter(help="What a story of one shot shows.")] = None,
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="The video's file.")] = None,
    dry_run: Annotated[
        bool,
        Parameter(help="Ask the server what it would make and cost.", show_default=False),
    ] = False,
    remote: RemoteOf = Remote(),  # noqa: B008 - frozen
    job: JobFlagsOf = JobFlags(),  # noqa: B008 - made frozen
    shots: ShotsOf = Shots(),  # noqa: B008 - frozen
    told: StoryFlagsOf = StoryFlags(),  # noqa: B008 - frozen
    flags: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Have a server make a long video of clips that continue each other, and bring it here.

    The server keeps the clips: what is stopped or fails goes on with vidgen queue resume, and
    vidgen queue fetch --variant report brings how the video drifts. Ctrl-C cancels the job; a
    second one leaves it and says how to come back.
    """
    asked = gather(prompt, flags, told, Running(), common)
    story = story_asked(asked, shots, out)
    request = remote_request({**story.request, "prompt": story.shots[0].prompt}, out)
    refuse_local(story.request)
    reporter, client = Reporter(common, here=False), needed(client_of(remote))
    payload: dict[str, Any] = {"story": story.model_dump(mode="json", exclude_unset=True)}
    bring_files(payload, client)
    body = {**payload, **options_given(job)}
    if dry_run:
        found = client.post("/v1/videos/estimate", body)
        reporter.answer({"event": "schedule", "dry_run": True, **found}, estimate_text(found))
        return
    template = asked.settings.own("name_template", DEFAULT_TEMPLATE)
    check_template(template)
    run_one(client, "/v1/videos", body, request, (out, template), reporter, detach=job.detach)


def run_one(
    client: Client,
    path: str,
    body: dict[str, Any],
    request: VideoRequest,
    names: tuple[Path | None, str],
    reporter: Reporter,
    *,
    detach: bool,
) -> None:
    """Hand in one job, and unless it is left to the server, follow it and bring its video.

    names  the file that was asked for, and the template without one
    """
    out, template = names
    check_out(out)
    item = RemoteJob(client, client.create(path, body), reporter)
    tell_accepted(item.video, reporter)
    if detach:
        return
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        file = out_path(out, template, request, item.video, 0, 1)
        data = finished(item, file, cancel, reporter, 1, 1, [item])
    reporter.emit("result", state="completed", **data)
