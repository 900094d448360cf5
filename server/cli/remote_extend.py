"""`vidgen extend --server URL`: go on with a video, made by a server."""

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
from server.cli.desk import client_of
from server.cli.options import Remote, RemoteOf
from server.cli.remote_chain import run_one
from server.cli.remote_files import bring_file, bring_files, refuse_local
from server.cli.remote_generate import needed, remote_request
from server.cli.remote_options import JobFlags, JobFlagsOf, options_given
from server.cli.report import Reporter
from vidgen.cli.naming import DEFAULT_TEMPLATE, check_template
from vidgen.cli.options import Common, CommonOf, Running, flowing

_JOB = "video_"


@flowing
def extend(
    file: Annotated[
        str, Parameter(help="The video to go on with: a file, or a job of the server (video_..).")
    ],
    prompt: Annotated[str | None, Parameter(help="What a new part of one shot shows.")] = None,
    /,
    *,
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="The new file. [default: NAME-extended]")
    ] = None,
    remote: RemoteOf = Remote(),  # noqa: B008 - frozen
    job: JobFlagsOf = JobFlags(),  # noqa: B008 - made frozen
    shots: ShotsOf = Shots(),  # noqa: B008 - frozen
    told: StoryFlagsOf = StoryFlags(),  # noqa: B008 - frozen
    flags: ClipFlagsOf = ClipFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Have a server go on with a video: the old part and the new one come in one file.

    The new part is told by a prompt and --seconds, by shots, or by a storyboard, and continues the
    video's last frame. A job that is named goes on from the clips that the server has of it. Ctrl-C
    cancels the job; a second one leaves it and says how to come back.
    """
    asked = gather(prompt, flags, told, Running(), common)
    story = story_asked(asked, shots, out)
    request = remote_request({**story.request, "prompt": story.shots[0].prompt}, out)
    refuse_local(story.request)
    reporter, client = Reporter(common, here=False), needed(client_of(remote))
    payload: dict[str, Any] = {"story": story.model_dump(mode="json", exclude_unset=True)}
    bring_files(payload, client)
    named = file.startswith(_JOB) and not Path(file).exists()
    video = file if named else bring_file(file, "video", client)
    body = {**_flat(payload["story"]), "video": video, **options_given(job)}
    path = None if named and out is None else out or _beside(Path(file))
    template = asked.settings.own("name_template", DEFAULT_TEMPLATE)
    check_template(template)
    run_one(
        client, "/v1/videos/extensions", body, request, (path, template), reporter,
        detach=job.detach,
    )  # fmt: skip


def _flat(story: dict[str, Any]) -> dict[str, Any]:
    """Return a story as the API takes what follows a video: fields of the clips beside it."""
    return {**story.pop("request", {}), **story}


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.stem}-extended{file.suffix}")
