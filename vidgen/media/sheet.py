"""Contact sheets and stills: what a clip looks like at a glance, with times and labels."""

# f frames  h rows  w columns  c red, green, blue
import struct
import zlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vidgen.errors import BadRequest
from vidgen.media.disk import check_target, part_of, publish, remove, sync_file
from vidgen.media.recipe import make_tags
from vidgen.media.sinks import Frame, packed_frame, to_integers

if TYPE_CHECKING:
    from PIL import Image, ImageFont

Pixels = npt.NDArray[Any]
_GAP = 6
_PAPER, _INK, _FAINT = (24, 24, 27), (244, 244, 245), (161, 161, 170)
_PNG_HEADER = 33  # signature and IHDR
_MAX_PNG_TEXT = 1_000_000  # Pillow reads no more


def contact_sheet(
    clips: Frame | Sequence[Frame],
    *,
    columns: int = 4,
    rows: int = 1,
    labels: Sequence[str] | None = None,
    fps: Fraction | None = None,
    cell_width: int | None = None,
) -> "Image.Image":
    """Draw evenly spaced frames of one clip or of several below one another.

    clips       (f, h, w, 3), float 0..1 or uint8 or uint16, or a list of such
    columns     frames beside one another; each clip takes `rows` such rows
    labels      one text above each clip, shortened to two lines
    fps         stamps each frame with its time; without it with its number
    cell_width  of one frame; by default small frames are enlarged to at least 192 by a whole factor
    """
    if isinstance(clips, np.ndarray):
        clips = [clips]
    if not len(clips) or columns < 1 or rows < 1:
        raise BadRequest("A contact sheet needs at least one clip, one column and one row.")
    if labels is not None and len(labels) != len(clips):
        raise BadRequest(f"{len(labels)} labels for {len(clips)} clips; give one each.")
    strips = []
    for index, frames in enumerate(clips):
        label = labels[index] if labels is not None else None
        strips.append(_draw_clip(frames, columns, rows, label, fps, cell_width))
    from PIL import Image

    width = max(strip.width for strip in strips)
    sheet = Image.new("RGB", (width, sum(strip.height for strip in strips)), _PAPER)
    top = 0
    for strip in strips:
        sheet.paste(strip, (0, top))
        top += strip.height
    return sheet


def save_image(
    path: str | Path,
    image: "Image.Image | Pixels",
    *,
    recipe: str | None = None,
    deep: bool = False,
) -> None:
    """Write a still (.png, .jpg or .webp); it appears whole at its name or not at all.

    image   a Pillow picture, or pixels (h, w, 3) as float 0..1, uint8 or uint16
    recipe  a JSON object as text, for PNG only
    deep    16 bits per colour, for PNG only
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".png", ".jpg", ".jpeg", ".webp"):
        raise BadRequest(f"{path.name} must end in .png, .jpg or .webp.")
    if suffix != ".png" and (deep or recipe is not None):
        raise BadRequest(f"{path.name}: 16 bits and a recipe are for PNG only; use .png.")
    tags = make_tags(recipe, None)
    pixels = np.asarray(image.convert("RGB") if hasattr(image, "convert") else image)
    check_target(path)
    part = part_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        part.write_bytes(_encode(pixels, suffix, deep, tags.get("vidgen")))
        sync_file(part)
        publish(part, path)
    except BaseException:
        remove(part)
        raise


def text_strip(text: str, width: int, size: int, max_lines: int = 2) -> "Image.Image":
    """Draw a text on a strip of paper of the given width, shortened with an ellipsis."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size)
    lines = _wrap(" ".join(text.split()), width - 2 * _GAP, font, max_lines)
    line_height = round(size * 1.35)
    strip = Image.new("RGB", (width, line_height * len(lines) + _GAP), _PAPER)
    draw = ImageDraw.Draw(strip)
    for index, line in enumerate(lines):
        draw.text((_GAP, _GAP // 2 + index * line_height), line, font=font, fill=_INK)
    return strip


def _draw_clip(
    frames: Frame,
    columns: int,
    rows: int,
    label: str | None,
    fps: Fraction | None,
    cell_width: int | None,
) -> "Image.Image":
    from PIL import Image, ImageDraw, ImageFont

    if frames.ndim != 4 or frames.shape[0] < 1 or frames.shape[3] != 3:
        raise BadRequest(f"A clip has the shape {frames.shape}, not (frames, height, width, 3).")
    picks = np.unique(np.linspace(0, len(frames) - 1, columns * rows).round().astype(int)).tolist()
    cells = [_cell(frames[pick], cell_width) for pick in picks]
    cell_w, cell_h = cells[0].size
    size = min(28, max(13, cell_w // 14))
    stamp_h = round(size * 1.5)
    width = _GAP + columns * (cell_w + _GAP)
    head = None if label is None else text_strip(label, width, size + 3)
    top = head.height if head is not None else _GAP
    used_rows = -(-len(cells) // columns)
    strip = Image.new("RGB", (width, top + used_rows * (cell_h + stamp_h)), _PAPER)
    if head is not None:
        strip.paste(head, (0, 0))
    draw, font = ImageDraw.Draw(strip), ImageFont.load_default(size)
    for index, (pick, cell) in enumerate(zip(picks, cells, strict=True)):
        left = _GAP + (index % columns) * (cell_w + _GAP)
        upper = top + (index // columns) * (cell_h + stamp_h)
        strip.paste(cell, (left, upper))
        stamp = f"#{pick}" if fps is None else f"{float(pick / fps):.2f} s"
        draw.text((left, upper + cell_h + 1), stamp, font=font, fill=_FAINT)
    return strip


def _cell(frame: Frame, cell_width: int | None) -> "Image.Image":
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(to_integers(frame, 8)))
    if cell_width is None:
        factor = -(-192 // picture.width)
        size = (picture.width * factor, picture.height * factor)
        return picture.resize(size, Image.Resampling.NEAREST) if factor > 1 else picture
    size = (cell_width, max(1, round(picture.height * cell_width / picture.width)))
    return picture.resize(size, Image.Resampling.LANCZOS)


def _wrap(
    text: str, width: int, font: "ImageFont.ImageFont | ImageFont.FreeTypeFont", max_lines: int
) -> list[str]:
    """Break a text into lines; a word that is too long is cut, and so is what does not fit."""
    lines: list[str] = []
    rest = text
    while rest and len(lines) < max_lines:
        fits = len(rest)
        while fits > 1 and font.getlength(rest[:fits]) > width:
            fits = min(fits - 1, int(fits * max(0.5, width / font.getlength(rest[:fits]))))
        while fits < len(rest) and font.getlength(rest[: fits + 1]) <= width:
            fits += 1
        space = rest.rfind(" ", 0, fits + 1)
        if fits < len(rest) and space > 0 and len(lines) < max_lines - 1:
            fits = space
        lines.append(rest[:fits].strip())
        rest = rest[fits:].strip()
    if rest and lines:
        lines[-1] = lines[-1][:-1].rstrip() + "…"
    return lines or [""]


def _encode(pixels: Pixels, suffix: str, deep: bool, recipe: str | None) -> bytes:
    import imageio.v3 as iio

    if suffix != ".png":
        options: dict[str, Any] = {"quality": 92} | (
            {} if suffix == ".webp" else {"subsampling": 0}
        )
        extension = ".webp" if suffix == ".webp" else ".jpg"
        data = iio.imwrite("<bytes>", to_integers(pixels, 8), extension=extension, **options)
        return bytes(data)
    if deep:
        data = _deep_png(to_integers(pixels, 16))
    else:
        data = iio.imwrite("<bytes>", to_integers(pixels, 8), extension=".png", plugin="pillow")
    return bytes(data) if recipe is None else _with_text(bytes(data), recipe)


def _deep_png(pixels_hwc: Pixels) -> bytes:
    import av

    encoder: Any = av.CodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt = (
        pixels_hwc.shape[1],
        pixels_hwc.shape[0],
        "rgb48be",
    )
    encoder.time_base = Fraction(1, 1)
    return b"".join(bytes(packet) for packet in encoder.encode(packed_frame(pixels_hwc)))


def _with_text(png: bytes, recipe: str) -> bytes:
    """Put a UTF-8 text chunk named `vidgen` behind the header of a PNG."""
    body = b"iTXtvidgen\x00\x00\x00\x00\x00" + recipe.encode()
    if len(body) > _MAX_PNG_TEXT:
        raise BadRequest(f"The recipe has {len(body)} bytes; a PNG carries up to {_MAX_PNG_TEXT}.")
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:_PNG_HEADER] + chunk + png[_PNG_HEADER:]
