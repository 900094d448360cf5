"""A renderer without a model, for measuring a server: `benchmarks.fake_renderer:make`.

A worker loads it by name. Words in the prompt say what it does: steps=4 step=0.02 (seconds of a
step), broken=1 (every attempt comes out without finite numbers). The video of a job is a text that
lists its clips, so that whoever downloads it can tell whether each is there once.
"""

import hashlib
import importlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vidgen.device import DeviceProfile, cpu_profile
from vidgen.errors import BadOutput
from vidgen.events import CancelToken, Event, Progress

# f frames  r rows  w columns  c channels
SIDE, FRAMES, FPS = 32, 8, Fraction(8)
LOG = "VIDGEN_FAKE_LOG"  # names a file that gets a line for each clip that is begun
_WORD = re.compile(r"([a-z]+)=([\d.]+)")
_MEMORY = 8 << 30


def make(device: str, home: Path) -> "FakeRenderer":  # noqa: ARG001 - as workers call it
    """Return a renderer."""
    return FakeRenderer()


class FakeRenderer:
    """Makes plain pictures, with sleeps for steps."""

    def __init__(self) -> None:
        self._model: str | None = None

    @property
    def profile(self) -> DeviceProfile:
        """A small CPU."""
        return cpu_profile(2, _MEMORY, "fake")

    def open(self, job: Any, payload: dict[str, Any], folder: Path) -> "FakeSession":
        """Begin or go on with a job."""
        self._model = job.model
        return FakeSession(job, _prompt(payload), folder)

    def warm(self) -> dict[str, Any]:
        """Return the model of the last job."""
        return {"model": self._model, "loras": []}

    def free_bytes(self) -> int:
        """Return a figure."""
        return _MEMORY

    def rest(self) -> None:
        """There is nothing to give back."""

    def close(self) -> None:
        """There is nothing to let go of."""


class FakeSession:
    """One job: a file for each clip."""

    fps = FPS
    size = (SIDE, SIDE)
    attention = "dense"

    def __init__(self, job: Any, prompt: str, folder: Path) -> None:
        self.num_clips = int(job.clips)
        self._job_id = str(job.id)
        self._folder = folder
        words = {name: float(value) for name, value in _WORD.findall(prompt)}
        self._steps = int(words.get("steps", 2))
        self._step_seconds = words.get("step", 0.0)
        self._broken = "broken" in words
        self._discarded: dict[int, int] = {}

    @property
    def costs(self) -> tuple[Mapping[str, float], ...]:
        """Predicted seconds of each clip."""
        return ({"denoise": max(0.001, self._steps * self._step_seconds)},) * self.num_clips

    def made(self) -> set[int]:
        """Return the clips that are on disk."""
        return {int(path.stem) for path in self._folder.glob("*.clip")}

    def make(self, idx: int, attempt: Any, on: Callable[[Event], None], cancel: CancelToken) -> Any:
        """Make a clip, or return what is known of one that is on disk."""
        if idx not in self.made():
            self._note(idx)
            for step in range(self._steps):
                cancel.check(f"before step {step + 1} of {self._steps}")
                time.sleep(self._step_seconds)
                on(Progress("denoise", step + 1, self._steps, 0.0, 0.0))
            if self._broken:
                raise BadOutput("The latents are not finite.", code="nan_latents")
            self._write(self._folder / f"{idx}.clip", self._sha256(idx))
        # The server's package is beside this one, not below it: it is imported by name.
        made = importlib.import_module("server.worker.session").ClipMade
        return made(
            seed=attempt.seed(idx),
            num_frames=FRAMES,
            place=idx,
            first=idx * FRAMES,
            sha256=self._sha256(idx),
            seconds={"denoise": self._steps * self._step_seconds},
        )

    def frames(self, idx: int) -> Iterator[npt.NDArray[np.float32]]:
        """Yield a clip: a bright square that moves over a slope."""
        rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
        slope_rwc = np.stack([rows, columns, np.full_like(rows, (idx + 1) / 16 % 1)], -1) * 0.6
        frames_frwc = np.repeat(slope_rwc[None].astype(np.float32), FRAMES, 0)
        for k in range(FRAMES):
            frames_frwc[k, 8:16, 2 * k : 2 * k + 8] = 0.9
        yield frames_frwc

    def discard(self, idx: int) -> None:
        """Throw a clip away."""
        (self._folder / f"{idx}.clip").unlink(missing_ok=True)
        self._discarded[idx] = self.discarded(idx) + 1

    def discarded(self, idx: int) -> int:
        """Return how often a clip was thrown away."""
        return self._discarded.get(idx, 0)

    def leaner(self) -> bool:
        """There is no way to take less memory."""
        return False

    def finish(self, told: Callable[[int, int], None], cancel: CancelToken) -> Any:
        """Write the file of the whole."""
        cancel.check("before writing")
        clips = [(self._folder / f"{idx}.clip").read_text() for idx in range(self.num_clips)]
        path = self._folder / "results" / "video.mp4"
        path.parent.mkdir(exist_ok=True)
        self._write(path, json.dumps({"job": self._job_id, "clips": clips}))
        told(1, 1)
        finished = importlib.import_module("server.worker.session").Finished
        facts = {"width": SIDE, "height": SIDE, "fps": str(FPS), "num_frames": FRAMES * len(clips)}
        return finished({"video": path}, facts, {})

    def close(self) -> None:
        """There is nothing to let go of."""

    def _sha256(self, idx: int) -> str:
        return clip_sha256(self._job_id, idx)

    def _note(self, idx: int) -> None:
        place = os.environ.get(LOG)
        if place:
            line = {"job": self._job_id, "clip": idx, "at": time.time(), "pid": os.getpid()}
            with open(place, "a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")

    def _write(self, path: Path, text: str) -> None:
        part = path.with_suffix(".part")
        part.write_text(text)
        part.rename(path)


def clip_sha256(job_id: str, idx: int) -> str:
    """Return what stands for the latents of a clip."""
    return hashlib.sha256(f"{job_id} {idx}".encode()).hexdigest()


def _prompt(payload: dict[str, Any]) -> str:
    if "request" in payload:
        return str(payload["request"]["prompt"])
    return str(payload["story"]["shots"][0]["prompt"])
