"""What is looked for after chaos is found where it is planted."""

import hashlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from benchmarks.chaos_check import check
from benchmarks.chaos_jobs import Accepted
from benchmarks.fake_renderer import clip_sha256
from benchmarks.fleet import Fleet

JOB = "video_1"


class Server:
    """One job of two clips that was completed, as a fleet shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = "completed"
        self.jobs = [JOB]
        self.kinds = ["job.queued", "job.assigned", "job.interrupted", "job.assigned",
                      "clip.completed", "clip.completed", "video.completed"]  # fmt: skip
        self.progress = [0, 0, 0, 0, 50, 99, 100]
        self.clips = [0, 1]
        self.video = [clip_sha256(JOB, idx) for idx in (0, 1)]
        self.sha256 = hashlib.sha256(self.content(JOB)).hexdigest()
        self.begun = [(0, 1.0), (1, 5.0)]
        self.store("f1")

    def store(self, claim: str) -> None:
        """Put a video into the store."""
        path = self.folder / "server" / "store" / "jobs" / JOB / claim / "video.mp4"
        path.parent.mkdir(parents=True)
        path.touch()

    def content(self, _job: str) -> bytes:
        return json.dumps({"job": JOB, "clips": self.video}).encode()

    def pages(self, _path: str) -> list[dict[str, Any]]:
        facts = {"state": self.state, "error": None}
        return [{"id": job, **facts, "variants": {"video": {"sha256": self.sha256}}}
                for job in self.jobs]  # fmt: skip

    def events(self, _job: str) -> list[tuple[str, dict[str, Any]]]:
        clips = iter(self.clips)
        found = []
        for at, (kind, progress) in enumerate(zip(self.kinds, self.progress, strict=True)):
            data: dict[str, Any] = {"ts": float(at), "progress": progress}
            if kind == "clip.completed":
                data["clip"] = next(clips)
            found.append((kind, data))
        return found

    def checked(self) -> list[str]:
        """Return what is found to be wrong."""
        lines = [json.dumps({"job": JOB, "clip": clip, "at": at}) for clip, at in self.begun]
        (self.folder / "begun.jsonl").write_text("\n".join(lines))
        found = check(cast(Fleet, self), {JOB: Accepted(2, ("completed",))})
        assert found.takeovers == 1 or found.ends.get(JOB) != "completed"
        return found.wrong


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_nothing_is_wrong_with_what_is_right(server: Server) -> None:
    assert server.checked() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jobs": []}, "was accepted and is lost"),
        ({"jobs": [JOB, "video_2"]}, "was made though no answer named it"),
        ({"state": "running"}, "is running, not completed"),
        ({"kinds": ["job.queued", "job.assigned", "video.completed", "job.assigned",
                    "clip.completed", "clip.completed", "video.completed"]}, "its ends are"),
        ({"progress": [0, 0, 50, 0, 50, 99, 100]}, "went back"),
        ({"clips": [0, 0]}, "finished clips more than once"),
        ({"video": ["a", "b"]}, "holds other clips"),
        ({"sha256": "0"}, "is not the one that was stored"),
        ({"begun": [(0, 1.0), (0, 4.5), (1, 5.0)]}, "clip 0 of video_1 was made again"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found(server: Server, changes: dict[str, Any], said: str) -> None:
    for name, value in changes.items():
        setattr(server, name, value)
    assert any(said in sentence for sentence in server.checked())


def test_a_second_video_in_the_store_is_found(server: Server) -> None:
    server.store("f2")
    assert any("has 2 videos in the store" in sentence for sentence in server.checked())
