"""The row of a finished clip, made of what is known of it."""

import time
from collections.abc import Mapping
from typing import Any

from server.queue.held import Held
from server.queue.job import ClipRow
from server.worker.ladder import Usable


def clip_row(
    held: Held, idx: int, usable: Usable, artifacts: dict[str, Any], cost: Mapping[str, float]
) -> ClipRow:
    """Return a clip's row.

    cost     predicted seconds by stage
    metrics  of the row: place and first (frame of the video), shown_frames, seconds by stage,
             peak_bytes, predicted_seconds, quality, moved, dense and lean (how it was made), ends
             (why the job ends with it, if it does), and what was measured of it
    """
    made = usable.made
    seconds = {name: round(value, 4) for name, value in made.seconds.items()}
    metrics = {
        **made.metrics,
        "place": made.place,
        "first": made.first,
        "shown_frames": made.num_frames,
        "seconds": seconds,
        "peak_bytes": made.peak_bytes,
        "predicted_seconds": round(sum(cost.values()), 4),
        "quality": usable.verdict.as_dict(),
        "moved": usable.verdict.moved,
        "dense": usable.attempt.dense,
        "lean": usable.attempt.lean,
        "ends": made.ends,
    }
    return ClipRow(
        job_id=held.claimed.id,
        idx=idx,
        attempt=usable.attempt.number,
        seed=made.seed,
        num_frames=made.num_frames,
        sha256=made.sha256,
        worker=held.owner,
        epoch=held.epoch,
        seconds=sum(seconds.values()),
        artifacts=artifacts,
        metrics=metrics,
        finished_at=time.time(),
    )
