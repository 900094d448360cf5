"""Run: clock, trace and voice of one run of the engine."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from vidgen.clip import Trace
from vidgen.events import Callback, Preview, Progress, Stage
from vidgen.plan import Plan


class Run:
    """Clock, trace and voice of one run."""

    def __init__(self, on: Callback | None, device: torch.device) -> None:
        self.on = on
        self.trace = Trace()
        self.latents_kept = False
        self._device = device
        self._began = time.perf_counter()
        self._stage_began = self._began

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Time a stage and read its peak memory."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        self._stage_began = time.perf_counter()
        try:
            yield
        finally:
            self.trace.seconds[name] = time.perf_counter() - self._stage_began
            self.trace.peak_bytes[name] = (
                torch.cuda.max_memory_allocated(self._device)
                if self._device.type == "cuda"
                else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            )

    def report(self, stage: Stage, done: int, total: int, plan: Plan | None) -> None:
        """Say that a step is done; the rest of the stage is judged by its own pace."""
        if self.on is None:
            return
        now = time.perf_counter()
        pace = (now - self._stage_began) / done
        after = plan.estimate.seconds["decode"].middle if plan and stage == "denoise" else 0.0
        eta = pace * (total - done) + after
        if plan is not None and stage == "encode":
            eta = plan.estimate.seconds["total"].middle
        event = Progress(stage, done, total, now - self._began, eta)
        if stage == "denoise":
            event = replace(
                event,
                density=self.trace.density,
                attention_backend=self.trace.attention_backend,
                attention_reason=self.trace.attention_reason,
            )
        self.on(event)

    def emit_preview(self, preview: Preview) -> None:
        """Pass a preview on."""
        assert self.on is not None
        self.on(preview)
