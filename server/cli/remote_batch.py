"""`vidgen batch --server URL`: many requests, done by a server, each finished clip noted here."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from chaining.files import Busy
from server.cli.client import Client
from server.cli.desk import client_of
from server.cli.options import Remote, RemoteOf
from server.cli.remote_files import bring_files, refuse_local
from server.cli.remote_generate import needed
from server.cli.remote_job import RemoteJob
from server.cli.remote_options import JobFlags, JobFlagsOf, options_given
from server.cli.remote_text import made_data, made_text
from server.inputs.fields import references
from vidgen.cli.batch import TEMPLATE
from vidgen.cli.batch_items import Item, Manifest, find_images, make_items, read_grid, read_prompts
from vidgen.cli.interrupt import stoppable
from vidgen.cli.naming import check_template, name_for
from vidgen.cli.options import Common, CommonOf, FlagsOf, RequestFlags, flags_given, flowing
from vidgen.cli.place import settings_of
from vidgen.cli.report import Reporter, table
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken
from vidgen.media import PROFILES


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
        bool, Parameter(help="Ask the server what each would cost.", show_default=False)
    ] = False,
    remote: RemoteOf = Remote(),  # noqa: B008 - frozen
    job: JobFlagsOf = JobFlags(),  # noqa: B008 - made frozen
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Have a server make many clips: every prompt with every image and every cell of the grid.

    All are handed in at once, as far as the server's queue has room, and brought into the folder as
    they are finished. A second run of the same command asks for the missing ones only. Exit code 1
    when an item failed.
    """
    if max_fail is not None and max_fail < 1:
        raise BadRequest(f"max_fail={max_fail} must be 1 or more.", field="max_fail")
    if job.detach:
        raise BadRequest("A batch waits for its clips: leave --detach out.", field="detach")
    given = flags_given(flags)
    if name_template is not None:
        given["name_template"] = name_template
    settings = settings_of(common, given)
    template = settings.own("name_template", TEMPLATE)
    check_template(template)
    reporter, client = Reporter(common, here=False), needed(client_of(remote))
    manifest = Manifest(out)
    seed = manifest.seed()
    items = make_items(
        settings.request(), read_prompts(file), find_images(images), read_grid(grid or []), seed
    )
    for item in items:
        refuse_local(item.request.given())
    todo = [item for item in items if manifest.file_of(item) is None]
    if dry_run:
        _show(todo, client, reporter)
        return 0
    manifest.keep_seed(seed)
    reporter.emit("batch", items=len(items), done=len(items) - len(todo), seed=seed)
    reporter.warn(f"{len(items)} items, {len(items) - len(todo)} finished before", "batch")
    line = _Line(client, options_given(job), todo, reporter)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        failed = _bring(line, cancel, out, template, manifest, reporter, max_fail)
    made = sum(1 for item in items if manifest.file_of(item) is not None)
    reporter.emit("result", items=len(items), finished=made, failed=failed)
    reporter.say(f"{made} of {len(items)} clips in {out}, {failed} failed")
    return 1 if failed else 0


class _Line:
    """Items that are handed in as far as the server has room, and come back in their order."""

    def __init__(
        self, client: Client, options: dict[str, Any], items: list[Item], reporter: Reporter
    ) -> None:
        self.total = len(items)
        self._client = client
        self._options = options
        self._waiting = deque(items)
        self._reporter = reporter
        self.handed_in: deque[tuple[Item, RemoteJob]] = deque()

    def __iter__(self) -> Iterator[tuple[Item, RemoteJob]]:
        """Yield each item with its job.

        Raises  Busy when the server has no room for the first one
        """
        while self._waiting or self.handed_in:
            self._hand_in()
            yield self.handed_in[0]
            self.handed_in.popleft()

    def cancel(self) -> None:
        """Cancel all that is handed in and was not yielded to its end."""
        for _, job in self.handed_in:
            if not job.ended:
                job.cancel()

    def _hand_in(self) -> None:
        while self._waiting:
            item = self._waiting[0]
            try:
                self.handed_in.append((item, self._job(item)))
            except Busy:
                if not self.handed_in:
                    raise
                return
            self._waiting.popleft()

    def _job(self, item: Item) -> RemoteJob:
        fields = item.request.given()
        fields.pop("n", None)
        payload = {"request": fields}
        # An upload gets a new name each time, so such a request is another one for the server.
        key = "" if references(payload) else f"batch-{item.id}"
        bring_files(payload, self._client)
        body = {**fields, **self._options}
        video = self._client.create("/v1/videos", body, key)
        if video["status"] == "failed":  # in an earlier run
            video = self._client.create("/v1/videos", body)
        self._reporter.emit("accepted", item=item.id, job=video["id"])
        return RemoteJob(self._client, video, self._reporter)


def _bring(
    line: _Line,
    cancel: CancelToken,
    folder: Path,
    template: str,
    manifest: Manifest,
    reporter: Reporter,
    max_fail: int | None,
) -> int:
    """Follow all items to their ends; return how many failed."""
    failed = 0
    folder.mkdir(parents=True, exist_ok=True)
    for number, (item, job) in enumerate(line, start=1):
        try:
            video = job.follow(cancel, number, line.total)
        except Cancelled as error:
            line.cancel()
            error.message += " Finished clips are kept; the same command goes on with the rest."
            raise
        except VidgenError as error:
            failed += 1
            reporter.emit("failed", item=item.id, where=item.where, error=error.as_dict())
            if not reporter.json:
                reporter.warn(f"{item.where}: {error.message}", "failed")
            if failed == max_fail:
                line.cancel()
                break
            continue
        path = _path(folder, template, item, video)
        job.download(path)
        manifest.add(item, path)
        data = made_data(video, path)
        reporter.emit("clip", item=item.id, clip=number, clips=line.total, **data)
        reporter.say(made_text(video, path))
    return failed


def _path(folder: Path, template: str, item: Item, video: dict[str, Any]) -> Path:
    size = video["width"], video["height"]
    stem = name_for(template, item.request.given(), seed=video["seed"], index=0,
                    model=video["model"], size=size)  # fmt: skip
    suffix = PROFILES[item.request.format].suffix
    path, number = folder / f"{stem}{suffix}", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}_{number}{suffix}"
    return path


def _show(items: list[Item], client: Client, reporter: Reporter) -> None:
    """Print what each item would become and cost."""
    rows, data = [], []
    for item in items:
        fields = item.request.given()
        fields.pop("n", None)
        bring_files({"request": fields}, client)
        found = client.post("/v1/videos/estimate", fields)
        seconds = found["estimate"]["seconds"]
        data.append({"item": item.id, "where": item.where, "plan": found})
        rows.append((
            item.where, f"{found['tokens']:,}", f"{seconds['low']:.1f} to {seconds['high']:.1f} s",
            str(found["seed"]), item.request.prompt[:60],
        ))  # fmt: skip
    reporter.answer(
        {"event": "plan", "dry_run": True, "items": data},
        table(("LINE", "TOKENS", "TIME", "SEED", "PROMPT"), rows),
    )
