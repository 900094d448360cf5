"""Waiting jobs in a file: a zip of what each asks, and of the uploads that they name."""

import hashlib
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.cli.client import UPLOAD, Client
from server.cli.report import visible
from server.ids import pattern_of
from server.inputs.fields import slots
from server.states import WAITING, JobState
from vidgen.errors import BadMedia, BadRequest

_JOBS = "jobs.jsonl"
_ID = re.compile(pattern_of("video"))
_FILE = re.compile(rf"uploads/({pattern_of('upload')})/(?!\.\.?$)[^/]+")
# What an archive raises that is damaged, encrypted, or packed in a way that is not known here.
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError, RuntimeError)
_STATES = tuple(state.value for state in (*WAITING, JobState.PAUSED))


@dataclass(slots=True)
class Written:
    """How many jobs a file has, and those that it lacks, each with the reason."""

    jobs: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def write_queue(file: Path, client: Client) -> Written:
    """Write the waiting jobs of the key's tenant, in the order in which they were made."""
    if file.suffix.lower() != ".zip":
        raise BadRequest(f"{file} must end in .zip.", field="file")
    written = Written()
    part = file.with_name(file.name + ".part")
    with zipfile.ZipFile(part, "w") as archive:
        lines, uploads = [], set()
        for job in client.pages("/v1/videos", {"state": list(_STATES), "order": "asc"}):
            why = _why_not(job)
            if why is not None:
                written.skipped.append((job["id"], why))
                continue
            lines.append(json.dumps(_line(job), ensure_ascii=False))
            uploads |= {slot.value for slot in slots(_payload(job))}
        for reference in sorted(uploads):
            _add_upload(archive, client, reference)
        archive.writestr(_JOBS, "".join(f"{line}\n" for line in lines), zipfile.ZIP_DEFLATED)
        written.jobs = len(lines)
    part.replace(file)
    return written


def _why_not(job: dict[str, Any]) -> str | None:
    if job["request"] is None:
        return "what it asks is sealed (zero retention)"
    if job["lineage"]["kind"] in ("extension", "fork", "storyboard"):
        return f"it goes on from {job['lineage']['parent']}, which stays"
    if any(not slot.value.startswith(UPLOAD) for slot in slots(_payload(job))):
        return "it names another video of the server"
    return None


def _payload(job: dict[str, Any]) -> dict[str, Any]:
    return {"story" if job["kind"] == "chain" else "request": job["request"]}


def _line(job: dict[str, Any]) -> dict[str, Any]:
    more = {name: job[name] for name in ("title", "tags", "priority", "pool") if job[name]}
    return {"id": job["id"], **_payload(job), "options": {**job["options"], **more}}


def _add_upload(archive: zipfile.ZipFile, client: Client, reference: str) -> None:
    upload = reference.removeprefix(UPLOAD)
    facts = client.get(f"/v1/uploads/{upload}")
    with tempfile.TemporaryDirectory(prefix="vidgen-export-") as folder:
        path = Path(folder, "file")
        client.download(f"/v1/uploads/{upload}/content", path)
        archive.write(path, f"uploads/{upload}/{Path(facts['filename']).name}")


@dataclass(frozen=True, slots=True)
class Imported:
    """A job of a file: what it was called, what it is called now, and whether it was there."""

    was: str
    now: str
    there: bool


def read_queue(file: Path, client: Client) -> Iterator[Imported]:
    """Hand in the jobs of a file, all of which are looked at before the first one.

    Each has a key that follows from what the file says of it, so that within a day the same file
    makes no second job.
    Raises  BadMedia when it is no such file, and what the server refuses with
    """
    with _opened(file) as archive:
        try:
            damaged = archive.testzip()
            text = archive.read(_JOBS).decode("utf-8")
        except _UNREADABLE as error:
            raise _no_export(file, error) from None
        if damaged is not None:
            raise _no_export(file, f"{damaged!r} in it is damaged")
        brought = _Brought(archive, client)
        lines = text.removesuffix("\n").split("\n") if text else []  # a prompt may hold U+2028
        jobs = [_checked(file, brought, *item) for item in enumerate(lines, start=1)]
        for job in jobs:
            key = f"import-{job['id']}-{_digest(job)}"
            for slot in slots(job):
                slot.put(brought.name_of(slot.value))
            asked = job["request"] if "request" in job else {"story": job["story"]}
            body = {**asked, **job["options"]}
            made, there = client.create_once("/v1/videos", body, key)
            yield Imported(job["id"], str(made["id"]), there)


def _checked(file: Path, brought: "_Brought", number: int, line: str) -> dict[str, Any]:
    """Read a line, or refuse it."""
    try:
        job = json.loads(line)
    except (ValueError, RecursionError):
        job = None
    why = _what_is_wrong(job, brought)
    if why is not None:
        raise _no_export(file, f"line {number} of {_JOBS} {why}")
    return dict(job)


def _what_is_wrong(job: Any, brought: "_Brought") -> str | None:
    if not isinstance(job, dict):
        return "is no JSON object"
    if not _ID.fullmatch(str(job.get("id"))):
        return "has no id of a job"
    if ("request" in job) == ("story" in job):
        return "has not one of request and story"
    for name in ("request" if "request" in job else "story", "options"):
        if not isinstance(job.get(name), dict):
            return f"has no object {name}"
    missing = [slot.value for slot in slots(job) if not brought.has(slot.value)]
    return f"names {missing[0][:80]!r}, which is not in the file" if missing else None


def _digest(job: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()[:32]


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise _no_export(file, error) from None


def _no_export(file: Path, why: object) -> BadMedia:
    return BadMedia(
        f"{file} is no export of a queue ({visible(str(why))}), so nothing was imported; make one "
        "with vidgen queue export.",
        field="file",
    )


class _Brought:
    """The uploads of an archive, each sent once when it is first named, unless it is there."""

    def __init__(self, archive: zipfile.ZipFile, client: Client) -> None:
        self._archive = archive
        self._client = client
        found = ((_FILE.fullmatch(name), name) for name in archive.namelist())
        self._names = {UPLOAD + match[1]: name for match, name in found if match is not None}
        self._sent: dict[str, str] = {}
        self._there: dict[str, str] | None = None

    def has(self, reference: str) -> bool:
        """Whether the archive holds an upload."""
        return reference in self._names

    def name_of(self, reference: str) -> str:
        """Return what the new server calls an upload of the old one."""
        if reference not in self._sent:
            name = self._names[reference]
            self._sent[reference] = self._known(name) or self._upload(name)
        return self._sent[reference]

    def _known(self, name: str) -> str | None:
        """Return the oldest upload of the same bytes: an earlier import has named that one."""
        if self._there is None:
            pages = self._client.pages("/v1/uploads", {})  # the newest first
            self._there = {item["sha256"]: f"{UPLOAD}{item['id']}" for item in pages}
        with self._archive.open(name) as file:
            digest = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
        return self._there.get(digest.hexdigest())

    def _upload(self, name: str) -> str:
        with tempfile.TemporaryDirectory(prefix="vidgen-import-") as place:
            path = Path(place, name.rpartition("/")[2])
            with self._archive.open(name) as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
            return self._client.upload(path)
