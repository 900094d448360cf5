"""Counting: what of a job's life is tallied."""

from collections.abc import Iterator

from server.queue.job import ClipRow, Job
from server.queue.tallies import Seen
from server.states import LEASED, TERMINAL, JobState


def of_change(old: Job, new: Job, now: float) -> Iterator[Seen]:
    """Yield what is counted of a change of state."""
    if new.state is JobState.RETRYING:
        yield Seen("collapse")
    if new.state is JobState.INTERRUPTED:
        yield Seen("interrupted")
    begins = old.started_at is None and new.started_at is not None
    if begins and new.run == 0:  # what resumes waited for a person too
        yield Seen("queue_wait_seconds", seconds=now - new.created_at)
    if new.state in TERMINAL:
        code = "" if new.error is None else str(new.error["code"])
        yield Seen("jobs", (new.state.value, code, new.model, new.kind))
    if new.state is JobState.COMPLETED and new.started_at is not None:
        yield Seen("run_seconds", (new.model, new.kind), now - new.started_at)
    stopped = new.state is JobState.CANCELLED and old.state in LEASED
    if stopped and new.stop_at is not None:
        yield Seen("cancel_latency_seconds", seconds=now - new.stop_at)


def of_clip(job: Job, clip: ClipRow) -> Iterator[Seen]:
    """Yield what is counted of a clip that was made; one taken over from another job took no time.

    Stages are of the attempt that was kept.
    """
    stages: dict[str, float] = clip.metrics.get("seconds", {})
    for stage, seconds in stages.items():
        if seconds > 0:
            yield Seen("stage_seconds", (stage, job.model), seconds)
    steps, denoise = int(job.decided.get("steps") or 0), stages.get("denoise", 0.0)
    if steps > 0 and denoise > 0:
        yield Seen("denoise_step_seconds", (job.model,), denoise, steps)
