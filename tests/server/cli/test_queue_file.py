"""`vidgen queue import`: a file is looked at whole before anything is made, and made once."""

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.cli.queue_file import read_queue
from vidgen.errors import BadMedia

UPLOAD = "upload_old1"
JOB = {"id": "video_old1", "request": {"prompt": "a\u2028ball"}, "options": {"title": "kept"}}
PICTURED = {
    "id": "video_old2",
    "request": {"prompt": "a ball", "image": f"upload:{UPLOAD}"},
    "options": {},
}


class FakeServer:
    """A client of a server that keeps jobs by their key, and uploads by their bytes."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.uploads: list[dict[str, Any]] = []

    def create_once(
        self, path: str, data: Mapping[str, Any], key: str
    ) -> tuple[dict[str, Any], bool]:
        """Make a job, or find it."""
        assert path == "/v1/videos"
        there = key in self.jobs
        made = self.jobs.setdefault(key, {"id": f"video_new{len(self.jobs)}", "body": data})
        assert made["body"] == data, "idempotency_mismatch"
        return made, there

    def create(self, path: str, data: Mapping[str, Any], key: str = "") -> dict[str, Any]:
        """Make a job."""
        return self.create_once(path, data, key or f"drawn-{len(self.jobs)}")[0]

    def upload(self, path: Path) -> str:
        """Keep a file."""
        made = {"id": f"upload_new{len(self.uploads)}", "name": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}  # fmt: skip
        self.uploads.insert(0, made)
        return f"upload:{made['id']}"

    def pages(self, path: str, _query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """List the uploads."""
        assert path == "/v1/uploads"
        yield from self.uploads


def written(path: Path, *lines: Any, files: Mapping[str, bytes] | None = None) -> Path:
    """Write an export."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (files or {}).items():
            archive.writestr(f"uploads/{name}", data)
        text = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)
                for line in lines]  # fmt: skip
        archive.writestr("jobs.jsonl", "".join(f"{line}\n" for line in text))
    return path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({}, "has no id of a job"),
        ([], "is no JSON object"),
        ("{", "is no JSON object"),
        ({**JOB, "id": "\x1b[2J"}, "has no id of a job"),
        ({"id": "video_1", "options": {}}, "has not one of request and story"),
        ({"id": "video_1", "request": [], "options": {}}, "has no object request"),
        ({"id": "video_1", "request": {}}, "has no object options"),
        (PICTURED, f"names 'upload:{UPLOAD}', which is not in the file"),
    ],
)
def test_a_line_that_is_no_job_is_told_before_anything_is_made(
    tmp_path: Path, line: Any, said: str
) -> None:
    server: Any = FakeServer()
    file = written(tmp_path / "jobs.zip", JOB, line)
    with pytest.raises(BadMedia) as caught:
        list(read_queue(file, server))
    assert f"{file} is no export of a queue (line 2 of jobs.jsonl {said})" in caught.value.message
    assert not server.jobs


def test_a_file_that_is_damaged_is_told(tmp_path: Path) -> None:
    server: Any = FakeServer()
    file = written(tmp_path / "jobs.zip", JOB, PICTURED, files={f"{UPLOAD}/a.png": b"picture"})
    data = file.read_bytes()
    file.write_bytes(data.replace(b"picture", b"pictura", 1))
    with pytest.raises(BadMedia, match=r"a\.png' in it is damaged"):
        list(read_queue(file, server))
    assert not server.jobs


def test_a_second_import_makes_nothing_twice(tmp_path: Path) -> None:
    server: Any = FakeServer()
    file = written(tmp_path / "jobs.zip", JOB, PICTURED, files={f"{UPLOAD}/a.png": b"picture"})
    first, second = list(read_queue(file, server)), list(read_queue(file, server))
    assert [(item.was, item.now) for item in first] == [(item.was, item.now) for item in second]
    assert [item.there for item in first + second] == [False, False, True, True]
    assert len(server.jobs) == 2
    assert [item["name"] for item in server.uploads] == ["a.png"]
    prompt = next(iter(server.jobs.values()))["body"]["prompt"]
    assert prompt == JOB["request"]["prompt"]  # type: ignore[index]


def test_a_job_that_was_changed_before_another_export_is_another_one(tmp_path: Path) -> None:
    server: Any = FakeServer()
    changed = {**JOB, "options": {"title": "other"}}
    for line in (JOB, changed):
        list(read_queue(written(tmp_path / "jobs.zip", line), server))
    assert len(server.jobs) == 2
