"""Playing: a video while it is made, as fragmented MP4 clip by clip and as an HLS playlist.

A clip's row names its piece ("segment") and the beginning that all pieces share ("init").
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from fractions import Fraction

from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Send

from server.api.serving import Stored
from server.api.watch import Watch, follow
from server.database import Database
from server.problems import Problem
from server.queue.job import ClipRow, Job
from server.queue.jobs import Jobs
from server.states import TERMINAL
from server.store import Store


def shown(rows: list[ClipRow], job: Job) -> list[ClipRow]:
    """Return the clips that can be played now, in the order of the video, without a gap.

    Clips are made in another order where keyframes come first; a plan names each one's place.
    """
    places = {clip["index"]: clip["place"] for clip in job.decided["clips"]}
    there = {
        places[row.idx]: row
        for row in rows
        if places.get(row.idx, -1) >= 0 and "segment" in row.artifacts
    }
    found = []
    for place in sorted(place for place in places.values() if place >= 0):
        if place not in there:
            break
        found.append(there[place])
    return found


def opening(rows: list[ClipRow], job: Job) -> Stored:
    """Return the beginning that all pieces share.

    Raises  Problem conflict while no clip is made
    """
    for row in rows:
        if "init" in row.artifacts:
            return Stored.of(row.artifacts["init"])
    if job.state in TERMINAL:
        raise Problem("conflict", f"{job.id} is {job.state}, and no clip of it was made.")
    raise Problem("conflict", f"No clip of {job.id} is made yet.", headers={"Retry-After": "1"})


def segment(rows: list[ClipRow], number: int, job: Job) -> Stored:
    """Return a clip's piece.

    Raises  Problem not_found while it is not made
    """
    for row in rows:
        if row.idx == number and "segment" in row.artifacts:
            return Stored.of(row.artifacts["segment"])
    raise Problem("not_found", f"Clip {number} of {job.id} is not made, or is not shown.")


def playlist(job: Job, rows: list[ClipRow]) -> str:
    """Return the HLS playlist of the clips that are made so far.

    Raises  Problem conflict while there is none
    """
    opening(rows, job)
    found = shown(rows, job)
    fps = Fraction(job.decided["fps"])
    lengths = [float(row.num_frames / fps) for row in found]
    planned = [(clip["stop"] - clip["start"]) / fps for clip in job.decided["clips"]]
    longest = max([*lengths, *(float(item) for item in planned)], default=1.0)
    lines = [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        f"#EXT-X-TARGETDURATION:{max(1, round(longest + 0.499))}",
        "#EXT-X-PLAYLIST-TYPE:EVENT",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-INDEPENDENT-SEGMENTS",
        '#EXT-X-MAP:URI="stream/init.mp4"',
    ]
    for row, length in zip(found, lengths, strict=True):
        lines += [f"#EXTINF:{length:.6f},", f"stream/{row.idx}.m4s"]
    if job.state in TERMINAL:
        lines.append("#EXT-X-ENDLIST")
    return "\n".join(lines) + "\n"


class BrokenOff(Exception):
    """A stream ends before what it shows does."""


class WhileMade(StreamingResponse):
    """A stream that, when it breaks off, is left without an end, so that clients see it."""

    async def stream_response(self, send: Send) -> None:
        """Send what comes."""
        with contextlib.suppress(BrokenOff):
            await super().stream_response(send)


async def partial(
    database: Database, store: Store, watch: Watch, jobs: Jobs, job: Job, may: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield the video's bytes clip by clip as they are made, until the job ends.

    may     whether who watches still may
    Raises  BrokenOff when it is cut off before: the job is deleted, or the process ends
    """
    sent = 0
    async for event in follow(database, watch, job.id, 0, may):
        if event is not None and event.type != "clip.completed":
            continue
        rows = await run_in_threadpool(jobs.clips, job.id)
        for row in shown(rows, job)[sent:]:
            parts = [opening(rows, job)] if sent == 0 else []
            for part in (*parts, Stored.of(row.artifacts["segment"])):
                async for piece in iterate_in_threadpool(store.get_range(part.key)):
                    yield piece
            sent += 1
    try:
        ended = (await run_in_threadpool(jobs.get, job.id, job.tenant)).state in TERMINAL
    except Problem:
        ended = False
    if not ended:
        raise BrokenOff
