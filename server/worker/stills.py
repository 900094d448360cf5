"""Stills: the pictures that stand for a video; thumbnail, sheet and last frame."""

# f frames  r rows  w columns  c channels
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vidgen.media import contact_sheet, save_image

Frame = npt.NDArray[np.float32]
COLUMNS, ROWS = 4, 3
THUMBNAIL_SIDE = 512


def write_stills(
    folder: Path, frame_at: Callable[[int], Frame], num_frames: int, fps: Fraction
) -> dict[str, Path]:
    """Write the pictures of a video into a folder; return them by variant.

    frame_at  gives frame k of the video, float 0..1 (r, w, c), as it is shown
    """
    files = {
        "thumbnail": folder / "thumbnail.jpg",
        "spritesheet": folder / "spritesheet.jpg",
        "last_frame": folder / "last_frame.png",
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_image(files["thumbnail"], _small(frame_at(num_frames // 3)))
    picks = np.unique(np.linspace(0, num_frames - 1, COLUMNS * ROWS).round().astype(int)).tolist()
    shown_frwc = np.stack([frame_at(pick) for pick in picks])
    rate = fps * max(1, len(picks) - 1) / max(1, num_frames - 1)
    sheet = contact_sheet(shown_frwc, columns=COLUMNS, rows=ROWS, fps=rate)
    save_image(files["spritesheet"], sheet)
    save_image(files["last_frame"], frame_at(num_frames - 1))
    return files


def _small(frame_rwc: Frame) -> npt.NDArray[np.uint8]:
    """Return a frame whose longer side is at most 512 pixels."""
    from PIL import Image

    picture = Image.fromarray(np.round(np.clip(frame_rwc, 0, 1) * 255).astype(np.uint8))
    picture.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE), Image.Resampling.LANCZOS)
    return np.asarray(picture)
