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
from server.cli.report import Reporter, table
from server.inputs.fields import references
from vidgen.cli.batch import TEMPLATE
from vidgen.cli.batch_items import Item, Manifest, find_images, make_items, read_grid, read_prompts
from vidgen.cli.interrupt import stoppable
from vidgen.cli.naming import check_template, name_for
from vidgen.cli.options import Common, CommonOf, FlagsOf, RequestFlags, flags_given, flowing
from vidgen.cli.place import settings_of
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken
from vidgen.media import PROFILES
from vidgen.settings import Settings


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
    settings = _settings(common, flags, name_template, job, max_fail)
    folder = _Folder(out, settings.own("name_template", TEMPLATE), Reporter(common, here=False))
    check_template(folder.template)
    client, seed = needed(client_of(remote)), folder.manifest.seed()
    sources = read_prompts(file), find_images(images), read_grid(grid or [])
    items = make_items(settings.request(), *sources, seed)
    if dry_run:
        _show(folder.missing(items), client, folder.reporter)
        return 0
    return folder.make(items, client, options_given(job), seed, max_fail)


def _settings(
    common: Common,
    flags: RequestFlags,
    name_template: str | None,
    job: JobFlags,
    max_fail: int | None,
) -> Settings:
    """Return the settings of the command; refuse options that do not go with it."""
    if max_fail is not None and max_fail < 1:
        raise BadRequest(f"max_fail={max_fail} must be 1 or more.", field="max_fail")
    if job.detach:
        raise BadRequest("A batch waits for its clips: leave --detach out.", field="detach")
    named = {} if name_template is None else {"name_template": name_template}
    return settings_of(common, flags_given(flags) | named)


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


class _Folder:
    """Where the clips go, by which names, and what is noted of them."""

    def __init__(self, path: Path, template: str, reporter: Reporter) -> None:
        self.path = path
        self.template = template
        self.reporter = reporter
        self.manifest = Manifest(path)

    def missing(self, items: list[Item]) -> list[Item]:
        """Return the items whose clips are not here.

        Raises  BadRequest for an item that names what is on this machine only
        """
        for item in items:
            refuse_local(item.request.given())
        return [item for item in items if self.manifest.file_of(item) is None]

    def make(
        self,
        items: list[Item],
        client: Client,
        options: dict[str, Any],
        seed: int,
        max_fail: int | None,
    ) -> int:
        """Have what is missing made and bring it; return the exit code."""
        reporter, todo = self.reporter, self.missing(items)
        self.manifest.keep_seed(seed)
        reporter.emit("batch", items=len(items), done=len(items) - len(todo), seed=seed)
        reporter.warn(f"{len(items)} items, {len(items) - len(todo)} finished before", "batch")
        failed = self._bring(_Line(client, options, todo, reporter), max_fail)
        made = len(items) - len(self.missing(items))
        reporter.emit("result", items=len(items), finished=made, failed=failed)
        reporter.say(f"{made} of {len(items)} clips in {self.path}, {failed} failed")
        return 1 if failed else 0

    def _bring(self, line: _Line, max_fail: int | None) -> int:
        """Follow all items to their ends; return how many failed."""
        failed = 0
        self.path.mkdir(parents=True, exist_ok=True)
        with stoppable(speak=self.reporter.for_people) as cancel, self.reporter.working():
            for number, (item, job) in enumerate(line, start=1):
                failed += not self._item(line, number, item, job, cancel)
                if failed == max_fail:
                    line.cancel()
                    break
        return failed

    def _item(
        self, line: _Line, number: int, item: Item, job: RemoteJob, cancel: CancelToken
    ) -> bool:
        """Follow one item to its end; return whether its clip is here."""
        reporter = self.reporter
        try:
            video = job.follow(cancel, number, line.total)
        except Cancelled as error:
            line.cancel()
            error.message += " Finished clips are kept; the same command goes on with the rest."
            raise
        except VidgenError as error:
            reporter.emit("failed", item=item.id, where=item.where, error=error.as_dict())
            if not reporter.json:
                reporter.warn(f"{item.where}: {error.message}", "failed")
            return False
        path = self._free_path(item, video)
        job.download(path)
        self.manifest.add(item, path)
        data = made_data(video, path)
        reporter.emit("clip", item=item.id, clip=number, clips=line.total, **data)
        reporter.say(made_text(video, path))
        return True

    def _free_path(self, item: Item, video: dict[str, Any]) -> Path:
        size = video["width"], video["height"]
        stem = name_for(self.template, item.request.given(), seed=video["seed"], index=0,
                        model=video["model"], size=size)  # fmt: skip
        suffix = PROFILES[item.request.format].suffix
        path, number = self.path / f"{stem}{suffix}", 1
        while path.exists():
            number += 1
            path = self.path / f"{stem}_{number}{suffix}"
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
