"""A training run's bookkeeping: time budget, learning-rate schedule, checkpoints, the CSV log."""

from __future__ import annotations

import csv
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

CHECKPOINT_SECONDS = 300.0


@dataclass(slots=True)
class Run:
    """One session of a run that may span many sessions.

    budget_seconds  wall-clock length of this session
    decay_share     last share of the session over which the learning rate falls to zero, 0..1
    """

    folder: Path
    name: str
    budget_seconds: float
    decay_share: float = 0.0
    warmup_steps: int = 40
    step: int = 0
    clips: int = 0
    cpu_before: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)
    _cpu_began: float = field(default_factory=time.process_time)
    _session_step: int = 0

    @property
    def cpu_seconds(self) -> float:
        """Process time spent over all sessions."""
        return self.cpu_before + time.process_time() - self._cpu_began

    @property
    def progress(self) -> float:
        """Share of this session's budget that is spent, 0..1."""
        return min(1.0, (time.monotonic() - self._began) / self.budget_seconds)

    @property
    def finished(self) -> bool:
        """True when the budget is spent; no session ends without a step."""
        return self.progress >= 1.0 and self._session_step > 0

    @property
    def checkpoint(self) -> Path:
        """Where the newest checkpoint lies."""
        return self.folder / f"{self.name}.pt"

    def advance(self, clips: int) -> None:
        """Count one optimiser step."""
        self.step += 1
        self._session_step += 1
        self.clips += clips

    def rate(self) -> float:
        """Factor on the learning rate: a short rise after every start, flat, then the decay."""
        rise = min(1.0, (self._session_step + 1) / self.warmup_steps)
        left = 1.0 - self.progress
        return rise * (min(1.0, left / self.decay_share) if self.decay_share > 0 else 1.0)

    def decaying(self) -> bool:
        """True once the learning rate has begun to fall."""
        return self.decay_share > 0 and 1.0 - self.progress < self.decay_share

    def due(self) -> bool:
        """True when a checkpoint should be written."""
        return time.monotonic() - self._saved > CHECKPOINT_SECONDS

    def save(self, state: dict[str, Any], path: Path | None = None) -> None:
        """Write a checkpoint whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = path or self.checkpoint
        partial = path.with_suffix(".part")
        counts = {"step": self.step, "clips": self.clips, "cpu_seconds": self.cpu_seconds}
        torch.save({**state, "counts": counts}, partial)
        partial.replace(path)
        self._saved = time.monotonic()

    def resume(self) -> dict[str, Any] | None:
        """Read the newest checkpoint and take over its counts; None if there is none."""
        if not self.checkpoint.exists():
            return None
        state: dict[str, Any] = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        counts = state["counts"]
        self.step, self.clips = counts["step"], counts["clips"]
        self.cpu_before = counts["cpu_seconds"]
        return state

    def log(self, row: dict[str, float]) -> None:
        """Append a row to the run's CSV and print it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.name}.csv"
        full = {
            "step": self.step,
            "clips": self.clips,
            "cpu_seconds": round(self.cpu_seconds, 1),
            **{key: round(value, 5) for key, value in row.items()},
        }
        fresh = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(full))
            if fresh:
                writer.writeheader()
            writer.writerow(full)
        print(" ".join(f"{key}={value}" for key, value in full.items()), flush=True)


def be_modest(num_threads: int = 1) -> None:
    """One thread per process: two OpenMP teams on a shared machine burn four times the time."""
    torch.set_num_threads(num_threads)
    os.environ["OMP_NUM_THREADS"] = str(num_threads)
