"""Waiting jobs in a file: a zip of what each asks, and of the uploads that they name."""

import json
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from server.cli.client import UPLOAD, Client
from server.inputs.fields import slots
from server.states import WAITING, JobState
from vidgen.errors import BadMedia, BadRequest

_JOBS = "jobs.jsonl"
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


def read_queue(file: Path, client: Client) -> Iterator[tuple[str, str]]:
    """Hand in the jobs of a file; yield the old and the new id of each.

    Raises  BadMedia when it is no such file, and what the server refuses with
    """
    with _opened(file) as archive:
        try:
            text = archive.read(_JOBS).decode("utf-8")
            jobs = [json.loads(line) for line in text.splitlines()]
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise _no_export(file, error) from None
        brought = _Brought(archive, client)
        for job in jobs:
            for slot in slots(job):
                slot.put(brought.name_of(slot.value))
            asked = job["request"] if "request" in job else {"story": job["story"]}
            yield job["id"], client.create("/v1/videos", {**asked, **job["options"]})["id"]


def _opened(file: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise _no_export(file, error) from None


def _no_export(file: Path, error: Exception) -> BadMedia:
    return BadMedia(f"{file} is no export of a queue ({error}).", field="file")


class _Brought:
    """The uploads of an archive, each sent once when it is first named."""

    def __init__(self, archive: zipfile.ZipFile, client: Client) -> None:
        self._archive = archive
        self._client = client
        self._sent: dict[str, str] = {}

    def name_of(self, reference: str) -> str:
        """Return what the new server calls an upload of the old one."""
        if reference not in self._sent:
            folder = f"uploads/{reference.removeprefix(UPLOAD)}/"
            name = next(name for name in self._archive.namelist() if name.startswith(folder))
            with tempfile.TemporaryDirectory(prefix="vidgen-import-") as place:
                path = Path(place, Path(name).name)
                path.write_bytes(self._archive.read(name))
                self._sent[reference] = self._client.upload(path)
        return self._sent[reference]
