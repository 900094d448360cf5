"""A contact sheet of arms: a row for each arm, a strip of frames for each prompt."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Frames = NDArray[np.float32]

SIDE = 128  # px of a frame
GAP, LINE = 4, 16  # px between frames, and of a line of text
NAMES = 150  # px of the column of names
TITLE_LINES = 3


@dataclass(frozen=True, slots=True)
class Strip:
    """First, middle and last frame of a clip, as pixels, and the line under them."""

    frames: tuple[Image.Image, ...]
    note: str


def strip_of(frames_frwc: Frames, note: str) -> Strip:
    """Return a clip's strip; frames of any size are shown in a square."""
    picked = frames_frwc[[0, len(frames_frwc) // 2, len(frames_frwc) - 1]]
    pixels = (picked.clip(0, 1) * 255).round().astype(np.uint8)
    shown = tuple(Image.fromarray(frame).resize((SIDE, SIDE)) for frame in pixels)
    return Strip(shown, note)


def write_sheet(path: Path, prompts: Sequence[str], rows: Mapping[str, Sequence[Strip]]) -> None:
    """Write a picture: prompts across, arms down.

    rows  by arm's name, a strip for each prompt
    """
    face = ImageFont.load_default(size=12)
    width = 3 * (SIDE + GAP) + 2 * GAP
    height = SIDE + LINE + GAP
    head = TITLE_LINES * LINE
    size = (NAMES + width * len(prompts), head + height * len(rows))
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for column, prompt in enumerate(prompts):
        text = "\n".join(textwrap.wrap(prompt, 58)[:TITLE_LINES])
        draw.multiline_text((NAMES + column * width, 2), text, "black", face)
    for row, (name, strips) in enumerate(rows.items()):
        top = head + row * height
        draw.multiline_text((4, top + SIDE // 2 - LINE), "\n".join(textwrap.wrap(name, 20)),
                            "black", face)  # fmt: skip
        for column, strip in enumerate(strips):
            left = NAMES + column * width
            for place, frame in enumerate(strip.frames):
                sheet.paste(frame, (left + place * (SIDE + GAP), top))
            draw.text((left, top + SIDE + 1), strip.note, "black", face)
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
