"""Together: files of clips measured against one another, and shown side by side."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vidgen.errors import VidgenError
from vidgen.media import (
    VideoInfo,
    comparison_grid,
    contact_sheet,
    finish_video,
    probe_video,
    read_frame,
    save_image,
)

_SECONDS = 900.0
_COLUMNS = 8  # of a sheet
_SMALLEST, _CELL = (
    256,
    320,
)  # pixels: narrower clips are enlarged, wider ones made smaller in sheets


def fidelity(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return PSNR and SSIM of each file but the first against the first, as `vidgen compare` says.

    A process of its own does it, so that what it loads and holds goes with it.
    Raises  VidgenError, in its words
    """
    command = [sys.executable, "-m", "vidgen.cli", "compare", *map(str, files), "--json"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise VidgenError(f"Comparing took more than {_SECONDS:.0f} s and was stopped.") from None
    last = json.loads((done.stdout.splitlines() or ["{}"])[-1])
    if done.returncode != 0 or "clips" not in last:
        raise VidgenError(last.get("error", {}).get("message", "Comparing ended without a word."))
    return [{name: value for name, value in clip.items() if name != "path"}
            for clip in last["clips"]]  # fmt: skip


def film(files: Sequence[Path], labels: Sequence[str], target: Path) -> None:
    """Write the clips beside one another, in step, each under its label.

    Raises  VidgenError
    """
    infos = [probe_video(file) for file in files]
    factor = -(-_SMALLEST // max(info.width for info in infos))
    shown = list(files)
    if factor > 1:
        shown = [target.with_name(f"large-{number}.mkv") for number in range(len(files))]
        for file, info, large in zip(files, infos, shown, strict=True):
            size = (info.width * factor, info.height * factor)
            finish_video(file, large, size=size, profile="master", audio="drop")
    comparison_grid(shown, target, labels=labels, columns=len(files))


def sheet(files: Sequence[Path], labels: Sequence[str], target: Path) -> None:
    """Write a picture of frames of the clips at the same times, one clip a row under its label.

    Raises  VidgenError
    """
    infos = [probe_video(file) for file in files]
    longest = max(infos, key=lambda info: info.duration_seconds)
    stride = -(-longest.num_frames // _COLUMNS)
    steps = -(-longest.num_frames // stride)
    rows = [_picked(file, info, longest, stride) for file, info in zip(files, infos, strict=True)]
    cell = _CELL if max(info.width for info in infos) > _CELL else None
    drawn = contact_sheet(
        rows, columns=steps, labels=labels, fps=longest.fps / stride, cell_width=cell
    )
    save_image(target, drawn)


def _picked(file: Path, info: VideoInfo, longest: VideoInfo, stride: int) -> Any:
    """Return the frames of a clip (f, h, w, 3) at every stride-th frame's time of the longest."""
    times = [number / longest.fps for number in range(0, longest.num_frames, stride)]
    numbers = [round(time * info.fps) for time in times]
    return np.stack([read_frame(file, number) for number in numbers if number < info.num_frames])


def one_frame(file: Path, number: int, target: Path) -> None:
    """Write one frame of a clip, counted from 0, as a PNG.

    Raises  BadRequest when there is no such frame
    """
    save_image(target, read_frame(file, number))
