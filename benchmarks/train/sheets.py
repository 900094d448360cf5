"""Contact sheets: clips as rows of evenly spaced frames under their prompts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.train.detector import Reading
from benchmarks.train.world import Scene, Video

HEAD = 15  # px of the line with the prompt
FOOT = 5  # px of the line that marks given frames
GAP = 2  # px between frames
GIVEN = (235, 120, 20)


def contact_sheet(
    rows: Iterable[tuple[str, Video]],
    path: Path,
    num_frames: int = 5,
    columns: int = 2,
    given: Collection[int] = (),
) -> None:
    """Write a picture with one clip per cell, cells filled row by row.

    given       indices of frames that the model was given; a bar under them says so
    """
    cells = [_cell(title, clip, num_frames, given) for title, clip in rows]
    if not cells:
        return
    cells += [np.full_like(cells[0], 255)] * (-len(cells) % columns)
    lines = [
        np.concatenate(cells[start : start + columns], axis=1)
        for start in range(0, len(cells), columns)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.ascontiguousarray(np.concatenate(lines)[..., ::-1]))


def titled(prompt: str, scene: Scene, reading: Reading) -> str:
    """The prompt, and what the detector read otherwise."""
    wrong = [
        f"{name} read {getattr(reading, name)}"
        for name, right in reading.verdict(scene).items()
        if not right
    ]
    return f"{prompt}  [{', '.join(wrong)}]" if wrong else prompt


def _cell(title: str, clip: Video, num_frames: int, given: Collection[int]) -> NDArray[np.uint8]:
    """One clip: title, frames, and the bar under those that were given."""
    picked = np.linspace(0, len(clip) - 1, num_frames).round().astype(int)
    frames = (clip[picked].clip(0, 1) * 255).round().astype(np.uint8)
    apart = np.pad(frames, ((0, 0), (0, 0), (0, GAP), (0, 0)), constant_values=255)
    strip = np.concatenate(list(apart), axis=1)
    size = 2 if strip.shape[1] > 1000 else 1
    head = np.full((size * HEAD, strip.shape[1], 3), 255, np.uint8)
    face, at = cv2.FONT_HERSHEY_SIMPLEX, (3, size * 11)
    cv2.putText(head, title, at, face, size * 0.36, (0, 0, 0), size, cv2.LINE_AA)
    foot = np.full((FOOT, strip.shape[1], 3), 255, np.uint8)
    width = apart.shape[2]
    for place, index in enumerate(picked):
        if index in given:
            foot[1:4, place * width : (place + 1) * width - GAP] = GIVEN
    cell = np.concatenate([head, strip, foot])
    return np.pad(cell, ((0, 2), (0, 4), (0, 0)), constant_values=255)
