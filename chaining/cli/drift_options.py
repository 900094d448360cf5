"""The options that the drift commands share, and their progress."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Group, Parameter

from chaining.drift.signals import QUICK_WIDTH, WIDTH
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.events import CancelToken, Progress
from vidgen.media.disk import check_folder, check_target

EXIT: Final = {"pass": 0, "warn": 0, "fail": 11, "inconclusive": 12}
STRICT_WARN: Final = 10
_CLIPS = Group("Clips", sort_key=0)
_SPOKEN_SECONDS = 0.5


def _clips(text: str) -> Any:
    return Parameter(help=text, group=_CLIPS, show_default=False, negative=())


@dataclass(frozen=True, kw_only=True)
class ClipFlags:
    """Where the clips of a video begin, and how closely it is measured."""

    clip_frames: Annotated[float | None, _clips("Frames of each clip.")] = None
    clip_seconds: Annotated[float | None, _clips("Seconds of each clip.")] = None
    cuts: Annotated[bool, _clips("Look for hard cuts; each scene is a clip of its own.")] = False
    fps: Annotated[float | None, _clips("Frames per second, where the file's rate is wrong.")] = (
        None
    )
    quick: Annotated[
        bool, _clips(f"Measure at a width of {QUICK_WIDTH} pixels instead of {WIDTH}.")
    ] = False

    @property
    def width(self) -> int:
        """The analysis width in pixels."""
        return QUICK_WIDTH if self.quick else WIDTH

    def given(self) -> dict[str, Any]:
        """Return the arguments of `open_footage`.

        Raises  BadRequest (a part of a frame, which the option's own reader would round)
        """
        frames = self.clip_frames
        if frames is not None and not frames.is_integer():
            raise BadRequest(f"--clip-frames {frames:g} is no whole number; use e.g. 81.")
        return {
            "clip_frames": None if frames is None else int(frames),
            "clip_seconds": self.clip_seconds,
            "cuts": self.cuts,
            "fps": self.fps,
        }


ClipFlagsOf = Annotated[ClipFlags, Parameter(name="*")]


class Watch:
    """Tells how far the reading of frames is, and ends it when a stop is asked for."""

    def __init__(self, reporter: Reporter, cancel: CancelToken, total: int) -> None:
        """Start; `total` counts the frames of all passes."""
        self._reporter, self._cancel, self._total = reporter, cancel, total
        self._began = time.perf_counter()
        self._spoke = 0.0
        self._before = self._done = 0

    def next_pass(self) -> "Watch":
        """Begin another pass over frames, whose count starts at 0 again."""
        self._before = self._done
        return self

    def __call__(self, frames: int) -> None:
        """Take note of the frames of this pass that were read.

        Raises  Cancelled
        """
        self._done = self._before + frames
        self._cancel.check(f"after {self._done} of {self._total} frames")
        now = time.perf_counter()
        if now - self._spoke < _SPOKEN_SECONDS and self._done < self._total:
            return
        self._spoke = now
        elapsed = now - self._began
        eta = elapsed * (self._total - self._done) / max(self._done, 1)
        self._reporter.progress(Progress("decode", self._done, self._total, elapsed, eta), 1, 1)


def check_outputs(html: Path | None, png: Path | None) -> None:
    """Refuse now what could not be written after minutes of work.

    Raises  BadRequest, DoesNotFit, Unsupported (no matplotlib)
    """
    if html is not None:
        if html.suffix.lower() not in (".html", ".htm"):
            raise BadRequest(f"--html {html} is no page; name a file that ends in .html.")
        check_target(html)
        check_folder(html.absolute().parent)
    if png is not None:
        if png.exists() and not png.is_dir():
            raise BadRequest(f"--png {png} is a file; name a folder.")
        check_folder(png)
    if html is not None or png is not None:
        from chaining.drift_report.style import require_matplotlib

        require_matplotlib()


def exit_code(outcome: str, *, strict: bool) -> int:
    """Return the exit code of a verdict: 0, 10 (warn under --strict), 11 fail, 12 inconclusive."""
    return STRICT_WARN if outcome == "warn" and strict else EXIT[outcome]
