"""Session and Renderer: what a worker needs of whatever makes the clips of a job."""

# f frames  r rows  w columns  c channels
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from server.queue.job import Job
from vidgen.device import DeviceProfile
from vidgen.events import Callback, CancelToken

Frames = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a clip is made.

    number  0; 1.. after an unusable one: the seed follows from it
    dense   with full attention, whatever was asked
    lean    with less memory than was planned: it ran out
    """

    number: int = 0
    dense: bool = False
    lean: bool = False

    def seed(self, planned: int) -> int:
        """Return its seed, 0..2^63-1; the planned one for attempt 0."""
        if self.number == 0:
            return planned
        digest = hashlib.sha256(f"vidgen job {planned} attempt {self.number}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class ClipMade:
    """A clip that is on disk.

    num_frames  that it adds to the video, 0 for one that is not shown
    place       in the video, -1 for one that is not shown
    first       frame of the video that its first shown frame is
    sha256      of its latents
    seconds     by stage: encode, condition, denoise, decode
    metrics     what was measured of it, JSON-ready
    ends        a clause that says why the job ends with it before all clips are made, if it does
    """

    seed: int
    num_frames: int
    place: int
    first: int
    sha256: str
    seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    ends: str | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The files of a job whose clips are all made.

    files   by variant: video, master, latents, thumbnail, spritesheet, last_frame
    facts   of the video, JSON-ready: width, height, fps, num_frames, seed, adjustments, ..
    report  quality and drift, JSON-ready
    """

    files: dict[str, Path]
    facts: dict[str, Any]
    report: dict[str, Any]


class Session(Protocol):
    """One job in one folder. What is made stays there, so that another session goes on with it."""

    @property
    def num_clips(self) -> int:
        """Clips to be made, in the order of making."""

    @property
    def fps(self) -> Fraction:
        """Frames per second."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that are shown: the centre of the frames."""

    @property
    def costs(self) -> tuple[Mapping[str, float], ...]:
        """Predicted seconds of each clip by stage."""

    @property
    def attention(self) -> str:
        """What was planned: dense, topk, .."""

    def made(self) -> set[int]:
        """Return the clips that are on disk."""

    def make(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> ClipMade:
        """Make a clip, or return what is known of one that is on disk.

        Raises  Cancelled, BadOutput, DoesNotFit and other errors of vidgen
        """

    def frames(self, idx: int) -> Iterator[Frames]:
        """Yield a made clip as it is shown, float 0..1 (f, r, w, c), a few frames at a time."""

    def discard(self, idx: int) -> None:
        """Throw a clip away, also one that raised; the next attempt makes it anew."""

    def discarded(self, idx: int) -> int:
        """Return how often a clip was thrown away."""

    def leaner(self) -> bool:
        """Whether an attempt can be made with less memory than was planned."""

    def finish(self, told: Callable[[int, int], None], cancel: CancelToken) -> Finished:
        """Write the files of the whole.

        told    called with how many of how many are written
        Raises  Cancelled, DoesNotFit (disk full) and other errors of vidgen
        """

    def close(self) -> None:
        """Let go of the folder."""


class Renderer(Protocol):
    """Whatever makes clips on one device; made by a function (device, home) -> Renderer."""

    @property
    def profile(self) -> DeviceProfile:
        """The device, with the attention backends that work."""

    def open(self, job: Job, payload: dict[str, Any], folder: Path) -> Session:
        """Begin or go on with a job.

        payload  what is asked; the files that it names are on this machine
        folder   of the job, with all that earlier sessions left there
        Raises   errors of vidgen
        """

    def warm(self) -> dict[str, Any]:
        """Return what need not be loaded again: {"model": name or None, "loras": [names]}."""

    def free_bytes(self) -> int:
        """Return the device's memory that a job could use."""

    def rest(self) -> None:
        """Give back the memory that a job took; loaded weights stay."""

    def close(self) -> None:
        """Let go of the device."""
