"""Ledger: what a job has used, added up over its clips and the workers that made them."""

from collections.abc import Iterable, Mapping
from typing import Any

from server.queue.job import Job
from server.worker.progress import STAGES


class Ledger:
    """One job's, for the part of it that runs here and the clips that are known."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._clips: list[Mapping[str, Any]] = []
        self.beside = 0.0  # seconds for a clip that was not finished
        self._unbilled = float(job.usage.get("retries_unbilled", {}).get("gpu_seconds", 0.0))
        self._retries = int(job.usage.get("retries_unbilled", {}).get("attempts", 0))

    def clip(self, metrics: Mapping[str, Any]) -> None:
        """Count a finished clip, by the metrics that its row holds."""
        self._clips.append(metrics)

    def retry(self, seconds: float) -> None:
        """Count an attempt that was thrown away: ours, not the tenant's."""
        self._unbilled += seconds
        self._retries += 1

    def as_dict(self) -> dict[str, Any]:
        """Return the usage of the job, JSON-ready."""
        stages = {
            name: round(sum(clip["seconds"].get(name, 0.0) for clip in self._clips), 4)
            for name in STAGES
        }
        clips = sum(_seconds(clip) for clip in self._clips)
        # Clips that were taken over from another job took no time here.
        made = [clip for clip in self._clips if _seconds(clip) > 0]
        predicted = sum(float(clip["predicted_seconds"]) for clip in made)
        found: dict[str, Any] = {
            "gpu_seconds": round(clips + self.beside, 4),
            "stages": stages,
            "tokens": self._job.tokens,
            "steps": self._job.decided.get("steps"),
            "clips": len(self._clips),
            "frames": sum(int(clip["shown_frames"]) for clip in self._clips),
            "peak_bytes": max((int(clip["peak_bytes"]) for clip in self._clips), default=0),
            "retries_unbilled": {
                "attempts": self._retries,
                "gpu_seconds": round(self._unbilled, 4),
            },
        }
        if self._clips and predicted > 0:
            found["predicted_vs_actual"] = {
                "predicted_seconds": round(predicted, 4),
                "actual_seconds": round(clips, 4),
                "ratio": round(clips / predicted, 4),
            }
        return found


def _seconds(clip: Mapping[str, Any]) -> float:
    return float(sum(clip["seconds"].values()))


def moved(clips: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the finished clips moved."""
    return any(bool(clip["moved"]) for clip in clips)
