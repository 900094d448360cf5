"""Running the bundled ffmpeg program: progress, cancel, and its last words when it fails."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from vidgen.errors import Cancelled, DoesNotFit, VidgenError

_STALL_SECONDS = 600.0


class CancelToken(Protocol):
    """Something that can be asked whether to stop."""

    @property
    def cancelled(self) -> bool:
        """True once the work is to be given up."""


def ffmpeg_program() -> str:
    """Path of the ffmpeg program that imageio-ffmpeg brings (or that its own setting names)."""
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def run_ffmpeg(
    arguments: Sequence[str],
    *,
    name: str,
    num_frames: int,
    on_progress: Callable[[float], None] | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Run a complete ffmpeg command line and wait for it.

    name         of the result, for messages
    num_frames   expected, to tell the share that is done
    on_progress  called with 0..1, ending with 1
    Raises       Cancelled, VidgenError (with ffmpeg's last line); nothing goes on running
    """
    with tempfile.TemporaryDirectory(prefix="vidgen-ffmpeg-") as folder:
        progress, errors = Path(folder, "progress"), Path(folder, "errors")
        extra = ["-nostdin", "-v", "error", "-nostats", "-stats_period", "0.1"]
        command = [arguments[0], *extra, "-progress", f"file:{progress}", *arguments[1:]]
        with errors.open("wb") as sink:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=sink
            )
            try:
                _follow(process, progress, name, num_frames, on_progress, cancel)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        if process.returncode != 0:
            raise _explain(name, errors.read_text(errors="replace"))
    if on_progress is not None:
        on_progress(1.0)


def _explain(name: str, said: str) -> VidgenError:
    """The first and the last line that ffmpeg said: the cause and what came of it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no reason given"]
    if any("No space left on device" in line for line in lines):
        return DoesNotFit(f"The disk is full while making {name}; free space and try again.")
    reason = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1]}"
    return VidgenError(f"ffmpeg could not make {name}: {reason}", code="ffmpeg_failed")


def _follow(
    process: "subprocess.Popen[bytes]",
    progress: Path,
    name: str,
    num_frames: int,
    on_progress: Callable[[float], None] | None,
    cancel: CancelToken | None,
) -> None:
    done, moved = 0, time.monotonic()
    while True:
        try:
            process.wait(timeout=0.05)
            return
        except subprocess.TimeoutExpired:
            pass
        if cancel is not None and cancel.cancelled:
            raise Cancelled(f"{name} was cancelled; nothing was written.")
        frames = _frames_done(progress)
        if frames > done:
            done, moved = frames, time.monotonic()
            if on_progress is not None:
                on_progress(min(0.999, done / max(1, num_frames)))
        if time.monotonic() - moved > _STALL_SECONDS:
            raise VidgenError(f"ffmpeg made no progress on {name} for {_STALL_SECONDS:.0f} s.")


def _frames_done(progress: Path) -> int:
    if not progress.exists():
        return 0
    found = re.findall(rb"^frame=\s*(\d+)", progress.read_bytes()[-2000:], re.MULTILINE)
    return int(found[-1]) if found else 0
