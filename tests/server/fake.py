"""A renderer without a model, for tests of everything around it: `tests.server.fake:make`.

What it does is said by words in the prompt, e.g. "a ball; steps=6 step=0.2 black@1=2":
  frames=8  step=0.0  steps=4     frames and steps of a clip, seconds of a step
  load=0.5                        seconds before the first step
  gate=N                          from when there is a file `gate-N` in the home, steps take no time
  black@K=N, frozen@K=N, noise@K=N, nan@K=N, oom@K=N, error@K=N
                                  clip K comes out so in its first N attempts
  drift@K=1                       the job ends after clip K, for it has drifted
  hang@K=1                        clip K stops in its first step and hears nothing
Each call is a line of JSON in the file that VIDGEN_FAKE_CALLS names, if it names one.
"""

import hashlib
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

from server.queue.job import Job
from server.worker.segments import Segment, write_whole
from server.worker.session import Attempt, ClipMade, Finished, Frames
from server.worker.stills import write_stills
from vidgen.device import DeviceProfile, cpu_profile
from vidgen.errors import BadOutput, DoesNotFit
from vidgen.events import Callback, CancelToken, Preview, Progress

SIDE = 32
FPS = Fraction(8)
_WORD = re.compile(r"([a-z]+)(?:@(\d+))?=([\d.]+)")


def make(device: str, home: Path) -> "FakeRenderer":
    """Return a renderer, as the worker asks for it."""
    assert device == "cpu"
    assert isinstance(home, Path)
    return FakeRenderer(home)


class FakeRenderer:
    """Makes plain pictures with sleeps for steps."""

    def __init__(self, home: Path = Path()) -> None:
        self._home = home
        self._model: str | None = None

    @property
    def profile(self) -> DeviceProfile:
        """A small CPU."""
        return cpu_profile(2, 8 << 30, "fake")

    def open(self, job: Job, payload: dict[str, Any], folder: Path) -> "FakeSession":
        """Begin or go on with a job."""
        self._model = job.model
        return FakeSession(job, _prompt(payload), folder, self._home)

    def warm(self) -> dict[str, Any]:
        """Return the model of the last job."""
        return {"model": self._model, "loras": []}

    def free_bytes(self) -> int:
        """Return a figure."""
        return 8 << 30

    def rest(self) -> None:
        """There is nothing to give back."""

    def close(self) -> None:
        """There is nothing to let go of."""


class FakeSession:
    """One job: a file of frames for each clip."""

    def __init__(self, job: Job, prompt: str, folder: Path, home: Path = Path()) -> None:
        self.fps = FPS
        self.size = (SIDE, SIDE)
        self.num_clips = job.clips
        self.attention = "dense"
        self._job = job
        self._folder = folder
        self._words = {
            name if clip == "" else f"{name}@{clip}": float(value)
            for name, clip, value in _WORD.findall(prompt)
        }
        self._seed = int(job.decided.get("seed", 0))
        self._frames = int(self._words.get("frames", 8))
        self._steps = int(self._words.get("steps", 4))
        self._gate = home / f"gate-{self._words.get('gate', 0.0):.0f}"

    @property
    def costs(self) -> tuple[Mapping[str, float], ...]:
        """Predicted seconds of each clip."""
        step = max(0.001, self._words.get("step", 0.0))
        return ({"encode": 0.001, "denoise": self._steps * step, "decode": 0.001},) * self.num_clips

    def made(self) -> set[int]:
        """Return the clips that are on disk."""
        return {int(path.stem) for path in self._folder.glob("*.npy")}

    def make(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> ClipMade:
        """Make a clip, or return what is known of one that is on disk."""
        facts = self._folder / f"{idx}.json"
        if idx not in self.made():
            self._call("begin", idx, attempt)
            began = time.perf_counter()
            self._run(idx, attempt, on, cancel)
            frames_frwc = self._picture(idx, attempt)
            self._fail(idx, attempt)
            seconds = time.perf_counter() - began
            write_whole(facts, json.dumps({"seed": self._clip_seed(idx, attempt),
                                           "seconds": seconds}).encode())  # fmt: skip
            part = self._folder / f"{idx}.part"
            with part.open("wb") as file:
                np.save(file, frames_frwc)
            part.rename(self._folder / f"{idx}.npy")
            self._call("end", idx, attempt)
        known = json.loads(facts.read_text())
        return ClipMade(
            seed=known["seed"],
            num_frames=self._frames,
            place=idx,
            first=idx * self._frames,
            sha256=hashlib.sha256(self._load(idx).tobytes()).hexdigest(),
            seconds={"encode": 0.0, "condition": 0.0, "denoise": known["seconds"], "decode": 0.0},
            peak_bytes=1 << 20,
            metrics={},
            ends="drift_stop: the fake drifts" if f"drift@{idx}" in self._words else None,
        )

    def frames(self, idx: int) -> Iterator[Frames]:
        """Yield a clip in two pieces."""
        frames_frwc = self._load(idx)
        half = len(frames_frwc) // 2
        yield frames_frwc[:half]
        yield frames_frwc[half:]

    def discard(self, idx: int) -> None:
        """Throw a clip away."""
        (self._folder / f"{idx}.npy").unlink(missing_ok=True)
        write_whole(self._folder / f"{idx}.discarded", str(self.discarded(idx) + 1).encode())

    def discarded(self, idx: int) -> int:
        """Return how often a clip was thrown away."""
        count = self._folder / f"{idx}.discarded"
        return int(count.read_text()) if count.is_file() else 0

    def leaner(self) -> bool:
        """There is a way."""
        return True

    def finish(self, told: Callable[[int, int], None], cancel: CancelToken) -> Finished:
        """Write the files of the whole."""
        folder = self._folder / "results"
        frames_frwc = np.concatenate([self._load(idx) for idx in range(self.num_clips)])
        segment = Segment(self.size, self.fps, 0)
        segment.write(frames_frwc)
        write_whole(folder / "video.mp4", *segment.close())
        told(1, 3)
        cancel.check("while writing")
        files = {"video": folder / "video.mp4"}
        files |= write_stills(folder, lambda k: frames_frwc[k], len(frames_frwc), self.fps)
        told(2, 3)
        for variant, suffix in (("master", ".mkv"), ("latents", ".safetensors")):
            files[variant] = folder / f"{variant}{suffix}"
            write_whole(files[variant], f"{variant} of {self._job.id}".encode())
        self._call("finish", -1, Attempt())
        facts = {
            "width": SIDE,
            "height": SIDE,
            "fps": str(self.fps),
            "num_frames": len(frames_frwc),
        }
        return Finished(files, facts, {})

    def close(self) -> None:
        """There is nothing to let go of."""

    def _run(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> None:
        cancel.check("before denoising")
        time.sleep(self._words.get("load", 0.0))
        on(Progress("encode", 1, 1, 0.0, 1.0))
        for step in range(self._steps):
            if f"hang@{idx}" in self._words and attempt.number == 0 and step == 0:
                time.sleep(600)
            cancel.check(f"before step {step + 1} of {self._steps}")
            if not self._gate.exists():
                time.sleep(self._words.get("step", 0.0))
            on(Progress("denoise", step + 1, self._steps, 0.0, 1.0))
            on(Preview(np.full((2, 4, 4, 3), 40 * step % 256, np.uint8), step + 1, self._steps))
        on(Progress("decode", 1, 1, 0.0, 0.0))

    def _fails(self, name: str, idx: int, attempt: Attempt) -> bool:
        return attempt.number < self._words.get(f"{name}@{idx}", 0)

    def _fail(self, idx: int, attempt: Attempt) -> None:
        if self._fails("nan", idx, attempt):
            raise BadOutput("The latents are not finite.", code="nan_latents")
        if self._words.get(f"oom@{idx}", 0) > attempt.lean:
            raise DoesNotFit("Decoding ran out of memory.")
        if self._fails("error", idx, attempt):
            raise RuntimeError("a fault of the fake")

    def _picture(self, idx: int, attempt: Attempt) -> npt.NDArray[np.float32]:
        """Return frames in which a bright square moves over a slope."""
        rows, columns = np.mgrid[0:SIDE, 0:SIDE] / SIDE
        slope_rwc = np.stack([rows, columns, np.full_like(rows, (idx + 1) / 16 % 1)], -1) * 0.6
        frames_frwc = np.repeat(slope_rwc[None].astype(np.float32), self._frames, 0)
        if self._fails("frozen", idx, attempt):
            return frames_frwc
        shift = self._clip_seed(idx, attempt) % SIDE
        for k in range(self._frames):
            at = (2 * k + shift) % (SIDE - 8)
            frames_frwc[k, 8:16, at : at + 8] = 0.9
        if self._fails("black", idx, attempt):
            frames_frwc *= 0.01
        if self._fails("noise", idx, attempt):
            frames_frwc[:] = np.random.default_rng(0).random(frames_frwc.shape, np.float32)
        return frames_frwc

    def _clip_seed(self, idx: int, attempt: Attempt) -> int:
        return attempt.seed(self._seed + idx)

    def _load(self, idx: int) -> npt.NDArray[np.float32]:
        frames_frwc: npt.NDArray[np.float32] = np.load(self._folder / f"{idx}.npy")
        return frames_frwc

    def _call(self, what: str, idx: int, attempt: Attempt) -> None:
        """Note a call where tests of several processes can count it."""
        place = os.environ.get("VIDGEN_FAKE_CALLS")
        if place is None:
            return
        line = {"what": what, "job": self._job.id, "clip": idx, "attempt": attempt.number,
                "dense": attempt.dense, "lean": attempt.lean, "epoch": self._job.lease_epoch,
                "pid": os.getpid(), "at": time.time()}  # fmt: skip
        with open(place, "a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def _prompt(payload: dict[str, Any]) -> str:
    if "request" in payload:
        return str(payload["request"]["prompt"])
    return " ".join(str(shot["prompt"]) for shot in payload["story"]["shots"])
