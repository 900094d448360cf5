"""The pictures beside a clip: its contact sheet, and the preview redrawn while it is made."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vidgen.errors import BadRequest
from vidgen.events import Preview
from vidgen.media.disk import check_folder, check_target, part_of, remove
from vidgen.recipe import recipe_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREVIEW_WIDTH = 192
PREVIEW_SUFFIXES = (".webp", ".gif", ".png")
SHEET_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")


class Writer(Protocol):
    """Takes frames (f, rows, columns, 3)."""

    def write(self, frames: Any) -> None:
        """Take the next frames."""

    def abort(self) -> None:
        """Throw away what was written."""


class SheetFrames:
    """Passes frames on to a writer and keeps the few that a contact sheet shows."""

    def __init__(self, writer: Writer, num_frames: int, crop: tuple[int, int]) -> None:
        self._writer = writer
        self.stride = _stride(num_frames)
        self._crop = crop
        self._seen = 0
        self._kept: list[NDArray[np.float32]] = []

    def write(self, frames: "NDArray[np.float32]") -> None:
        """Pass frames on."""
        self._writer.write(frames)
        for frame in frames:
            if self._seen % self.stride == 0:
                width, height = self._crop
                top, left = (frame.shape[0] - height) // 2, (frame.shape[1] - width) // 2
                self._kept.append(frame[top : top + height, left : left + width].copy())
            self._seen += 1

    def abort(self) -> None:
        """Throw away what was written: the decode begins again."""
        self._writer.abort()
        self._kept.clear()
        self._seen = 0

    @property
    def frames(self) -> "NDArray[np.float32]":
        """The frames that were kept."""
        import numpy as np

        return np.stack(self._kept)


def _stride(num_frames: int) -> int:
    """Return the step between shown frames: at most nine, the last frame among them if possible."""
    for count in (8, 7, 6, 5, 4):
        if num_frames > count and (num_frames - 1) % count == 0:
            return (num_frames - 1) // count
    return -(-num_frames // 9)


def check_stills(clips: list[Path], sheet: Path | None, preview: Path | None = None) -> None:
    """Refuse names that cannot be written, before the work begins.

    clips   the files of the clips, whose names the stills must not take
    Raises  BadRequest, DoesNotFit
    """
    taken = {path.absolute() for path in clips}
    for name, path, known in (
        ("sheet", sheet, SHEET_SUFFIXES),
        ("preview_file", preview, PREVIEW_SUFFIXES),
    ):
        if path is None:
            continue
        if path.suffix.lower() not in known:
            raise BadRequest(f"{name}={path} must end in {', '.join(known)}.", field=name)
        if path.absolute() in taken:
            raise BadRequest(f"{name}={path} is another file's name too; give its own.", field=name)
        taken.add(path.absolute())
        check_target(path)
        check_folder(path.absolute().parent)


def save_sheet(
    path: Path, clips: list[SheetFrames], recipes: list[dict[str, Any]], fps: Fraction
) -> None:
    """Write one row of frames for each clip; a PNG of one clip carries its recipe."""
    from vidgen.media import contact_sheet, save_image

    kept = [clip.frames for clip in clips]
    columns = max(len(frames) for frames in kept)
    rate = fps / clips[0].stride
    labels = [f"{r['request']['prompt']}  (seed {r['plan']['seed']})" for r in recipes]
    sheet = contact_sheet(kept, columns=columns, labels=labels, fps=rate)
    carries = len(recipes) == 1 and path.suffix.lower() == ".png"
    save_image(path, sheet, recipe=recipe_text(recipes[0]) if carries else None)


def save_preview(path: Path, preview: Preview, fps: Fraction) -> None:
    """Write the preview: a moving .webp or .gif, or a .png with its frames beside one another.

    fps  latent frames per second
    """
    from PIL import Image

    factor = max(1, PREVIEW_WIDTH // preview.frames.shape[2])
    frames = [
        Image.fromarray(frame).resize(
            (frame.shape[1] * factor, frame.shape[0] * factor), Image.Resampling.BICUBIC
        )
        for frame in preview.frames
    ]
    part = part_of(path)
    kind = path.suffix.lower()[1:].upper()
    try:
        if kind == "PNG":
            width, height = frames[0].size
            strip = Image.new("RGB", (width * len(frames), height))
            for index, frame in enumerate(frames):
                strip.paste(frame, (index * width, 0))
            strip.save(part, "PNG")
        else:
            milliseconds = round(1000 / fps)
            frames[0].save(
                part, kind, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0
            )
        part.replace(path)
    except BaseException:
        remove(part)
        raise
