"""What is left after chaos: each job, its events, its video and its clips, looked at one by one."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.chaos_jobs import Accepted
from benchmarks.fake_renderer import clip_sha256
from benchmarks.fleet import Fleet

_ENDS = {"video.completed", "video.failed", "video.cancelled"}
_SHOWN = 20  # of what is wrong


@dataclass(slots=True)
class Found:
    """What was found; wrong holds a sentence for each thing that should not be."""

    ends: dict[str, str] = field(default_factory=dict)
    takeovers: int = 0
    begun: int = 0
    again: int = 0
    wrong: list[str] = field(default_factory=list)


def check(fleet: Fleet, accepted: Mapping[str, Accepted]) -> Found:
    """Look at everything that the server has, against what it has accepted."""
    found = Found()
    videos = {video["id"]: video for video in fleet.pages("/v1/videos")}
    lost, more = accepted.keys() - videos.keys(), videos.keys() - accepted.keys()
    found.wrong += [f"{job} was accepted and is lost" for job in sorted(lost)]
    found.wrong += [f"{job} was made though no answer named it" for job in sorted(more)]
    finished: dict[tuple[str, int], float] = {}
    for job_id in sorted(accepted.keys() & videos.keys()):
        _job(fleet, videos[job_id], accepted[job_id], found, finished)
    _begun(fleet, finished, found)
    if len(found.wrong) > _SHOWN:
        found.wrong[_SHOWN:] = [f".. and {len(found.wrong) - _SHOWN} more"]
    return found


def _job(
    fleet: Fleet,
    video: dict[str, Any],
    job: Accepted,
    found: Found,
    finished: dict[tuple[str, int], float],
) -> None:
    job_id, state = video["id"], video["state"]
    found.ends[job_id] = state
    if state not in job.may_end:
        error = (video["error"] or {}).get("message", "")
        found.wrong.append(f"{job_id} is {state}, not {' or '.join(job.may_end)} {error}".rstrip())
        return
    events = fleet.events(job_id)
    kinds = Counter(kind for kind, _ in events)
    ends = [kind for kind, _ in events if kind in _ENDS]
    if ends != [f"video.{state}"] or events[-1][0] not in _ENDS:
        found.wrong.append(f"{job_id} is {state} and its ends are {ends}, its last {events[-1][0]}")
    found.takeovers += max(0, kinds["job.assigned"] - 1)
    done = [data for kind, data in events if kind == "clip.completed"]
    clips = [int(data["clip"]) for data in done]
    if len(set(clips)) != len(clips):
        found.wrong.append(f"{job_id} finished clips more than once: {clips}")
    finished.update({(job_id, int(data["clip"])): float(data["ts"]) for data in done})
    progress = [data["progress"] for _, data in events if "progress" in data]
    if state == "completed":
        if progress != sorted(progress):
            found.wrong.append(f"{job_id} went back: {progress}")
        _video(fleet, video, job, clips, found)


def _video(
    fleet: Fleet, video: dict[str, Any], job: Accepted, clips: list[int], found: Found
) -> None:
    """Download a video: it must be the one that was stored, with each clip once."""
    job_id = video["id"]
    if sorted(clips) != list(range(job.clips)):
        found.wrong.append(f"{job_id} has {job.clips} clips and finished {sorted(clips)}")
    content = fleet.content(job_id)
    if hashlib.sha256(content).hexdigest() != video["variants"]["video"]["sha256"]:
        found.wrong.append(f"the video of {job_id} is not the one that was stored")
    want = {"job": job_id, "clips": [clip_sha256(job_id, idx) for idx in range(job.clips)]}
    if json.loads(content) != want:
        found.wrong.append(f"the video of {job_id} holds other clips: {content[:200]!r}")
    stored = sorted(fleet.folder.glob(f"server/store/jobs/{job_id}/f*/video.mp4"))
    if len(stored) != 1:
        found.wrong.append(f"{job_id} has {len(stored)} videos in the store")


def _begun(fleet: Fleet, finished: Mapping[tuple[str, int], float], found: Found) -> None:
    """Count how often clips were begun, and how often one that was finished before."""
    for line in (fleet.folder / "begun.jsonl").read_text("ascii").splitlines():
        begun = json.loads(line)
        found.begun += 1
        at = finished.get((begun["job"], begun["clip"]))
        if at is not None and begun["at"] > at:
            found.again += 1
            found.wrong.append(f"clip {begun['clip']} of {begun['job']} was made again")
