"""`vidgen generate --server URL`: the same command, done by a server."""

import secrets
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from server.cli.client import Client
from server.cli.desk import client_of
from server.cli.options import Remote, RemoteOf
from server.cli.remote_files import bring_files, refuse_local
from server.cli.remote_job import RemoteJob
from server.cli.remote_options import JobFlags, JobFlagsOf, options_given
from server.cli.remote_text import estimate_text, made_data, made_text
from server.cli.report import Reporter
from vidgen.adjustment import Adjustment
from vidgen.cli.generate import add_prompt
from vidgen.cli.interrupt import stoppable
from vidgen.cli.naming import DEFAULT_TEMPLATE, check_template, format_of, name_for
from vidgen.cli.options import Common, CommonOf, FlagsOf, RequestFlags, flags_given, flowing
from vidgen.cli.place import settings_of
from vidgen.errors import BadRequest
from vidgen.events import CancelToken
from vidgen.media import PROFILES
from vidgen.media.disk import check_folder, check_name, check_target
from vidgen.request import VideoRequest, parse_request


@flowing
def generate(
    prompt: Annotated[str | None, Parameter(help="What the clip shows.")] = None,
    /,
    *,
    prompt_file: Annotated[Path | None, Parameter(help="Read the prompt from a file.")] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="The clip's file.")] = None,
    name_template: Annotated[
        str | None,
        Parameter(help=f"Name without --out, in this folder. [default: {DEFAULT_TEMPLATE}]"),
    ] = None,
    dry_run: Annotated[
        bool,
        Parameter(help="Ask the server what it would make and cost.", show_default=False),
    ] = False,
    remote: RemoteOf = Remote(),  # noqa: B008 - frozen
    job: JobFlagsOf = JobFlags(),  # noqa: B008 - made frozen
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Have a server make a clip from a prompt, with or without pictures, and bring it here.

    Files that the request names are sent; models and LoRAs are the server's. The job is the
    server's too: it goes on when this command is killed. Ctrl-C cancels it; a second one leaves it
    and says how to come back.
    """
    given = flags_given(flags)
    add_prompt(given, prompt, prompt_file)
    if name_template is not None:
        given["name_template"] = name_template
    settings = settings_of(common, given)
    template = settings.own("name_template", DEFAULT_TEMPLATE)
    check_template(template)
    request = remote_request(settings.request(), out)
    reporter = Reporter(common, here=False)
    client = needed(client_of(remote))
    bodies = bodies_of(request, options_given(job), client)
    if dry_run:
        found = client.post("/v1/videos/estimate", bodies[0])
        reporter.answer({"event": "plan", "dry_run": True, "plan": found}, estimate_text(found))
        return
    for number in range(len(bodies)):
        check_out(out, number, len(bodies))
    jobs = [RemoteJob(client, client.create("/v1/videos", body), reporter) for body in bodies]
    for item in jobs:
        tell_accepted(item.video, reporter)
    if not job.detach:
        _bring(jobs, out, template, request, reporter)


def _bring(
    jobs: list[RemoteJob],
    out: Path | None,
    template: str,
    request: VideoRequest,
    reporter: Reporter,
) -> None:
    """Follow all jobs to their ends and bring the clips."""
    made = []
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        for number, item in enumerate(jobs):
            path = out_path(out, template, request, item.video, number, len(jobs))
            made.append(finished(item, path, cancel, reporter, number + 1, len(jobs), jobs))
    reporter.emit("result", clips=made)


def needed(client: Client | None) -> Client:
    """Return the server that was named."""
    if client is None:
        raise BadRequest("server='' is no address; name one, or leave the option out.",
                         field="server")  # fmt: skip
    return client


def remote_request(data: dict[str, Any], out: Path | None) -> VideoRequest:
    """Make a request that a server can meet; without a format, the file's suffix decides.

    Raises  BadRequest
    """
    meant = None if out is None else format_of(out)
    if "format" not in data and meant is not None:
        data["format"] = meant
    request = parse_request(data)
    refuse_local(request.given())
    if not PROFILES[request.format].suffix:
        raise BadRequest(
            f"format={request.format} is a folder of files, which a server does not make; take "
            "master for a file without loss.",
            field="format",
        )
    return request


def bodies_of(request: VideoRequest, options: dict[str, Any], client: Client) -> list[Any]:
    """Return the body of each job: one for each clip, with seeds that count up."""
    fields = request.given()
    count = fields.pop("n", 1)
    if count > 1:
        fields.setdefault("seed", secrets.randbelow(2**31))
    bring_files({"request": fields}, client)
    seeds = [{"seed": fields["seed"] + i} for i in range(count)] if "seed" in fields else [{}]
    return [{**fields, **seed, **options} for seed in seeds]


def tell_accepted(video: dict[str, Any], reporter: Reporter) -> None:
    """Say what the server has taken on."""
    reporter.emit("accepted", job=video["id"], video=video)
    reporter.adjustments(Adjustment(**item) for item in video["adjustments"])
    for note in video["warnings"] if reporter.for_people else ():
        reporter.warn(note)
    reporter.say(f"{video['id']}  {video['state']}")


def check_out(out: Path | None, index: int = 0, count: int = 1) -> None:
    """Refuse, before anything is made, a file that could not be written in the end.

    Raises  BadRequest, DoesNotFit
    """
    if out is not None:
        check_name(out)
        check_target(_numbered(out, index, count))
    check_folder((out or Path("-")).absolute().parent)


def _numbered(out: Path, index: int, count: int) -> Path:
    return out if count == 1 else out.with_name(f"{out.stem}-{index + 1}{out.suffix}")


def out_path(
    out: Path | None,
    template: str,
    request: VideoRequest,
    video: dict[str, Any],
    index: int,
    count: int,
) -> Path:
    """Return the file of one clip; without --out no existing one is replaced."""
    if out is not None:
        return _numbered(out, index, count)
    size = video["width"], video["height"]
    stem = name_for(template, request.given(), seed=video["seed"], index=index,
                    model=video["model"], size=size)  # fmt: skip
    suffix = PROFILES[request.format].suffix
    path, number = Path(f"{stem}{suffix}"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}_{number}{suffix}")
    return path


def finished(
    item: RemoteJob,
    path: Path,
    cancel: CancelToken,
    reporter: Reporter,
    clip: int,
    clips: int,
    together: list[RemoteJob],
) -> dict[str, Any]:
    """Follow a job to its end and bring its video; return what a program wants to know.

    together  jobs that are cancelled with it
    """
    try:
        video = item.follow(cancel, clip, clips)
    except BaseException:
        if cancel.cancelled:
            for other in together:
                if other is not item and not other.ended:
                    other.cancel()
        raise
    item.download(path)
    data = made_data(video, path)
    reporter.emit("clip", clip=clip, clips=clips, **data)
    reporter.say(made_text(video, path))
    return data
