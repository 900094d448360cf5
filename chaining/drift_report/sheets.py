"""Sheets of small pictures: the clips at a glance, and the worst seams frame by frame."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from chaining.drift.seams import Seam
from chaining.drift.thresholds import SEAM_LUMA, SEAM_RATIO
from chaining.drift.verdict import PASS, worst
from chaining.drift_report.measured import Measured
from chaining.drift_report.rows import seam_outcomes
from chaining.drift_report.stills import SIDE, Stills

if TYPE_CHECKING:
    from PIL import Image

_PAPER, _INK, _FAINT = (24, 24, 27), (244, 244, 245), (170, 170, 178)
_MARK: Final = {"warn": (224, 168, 40), "fail": (235, 90, 105), "inconclusive": _FAINT}
_GAP: Final = 8
_TEXT: Final = 15
_MOST_CLIPS: Final = 60
_MOST_SEAMS: Final = 6


def draw_sheet(measured: Measured) -> "Image.Image":
    """Draw the first, middle and last frame of each clip; of very many clips, of some, evenly."""
    from PIL import Image, ImageDraw, ImageFont

    rows = measured.drift.clips
    step = -(-len(rows) // _MOST_CLIPS)
    picked = [row for row in rows if row.index % step == 0 or row is rows[-1]]
    across = 2 if len(picked) <= 12 else 4
    width = 200 if across == 2 else 112
    clips = [
        [_small(_nearest(measured.stills[row.index], place), width)
         for place in (0, (row.end - row.start) // 2, row.end - row.start - 1)]
        for row in picked
    ]  # fmt: skip
    height = clips[0][0].height
    cell = (3 * width + 4 + 2 * _GAP, height + _TEXT + 2 * _GAP)
    down = -(-len(picked) // across)
    sheet = Image.new("RGB", (across * cell[0] + _GAP, down * cell[1] + _GAP), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_TEXT - 3)
    for number, (row, pictures) in enumerate(zip(picked, clips, strict=True)):
        left = _GAP + (number // down) * cell[0]
        top = _GAP + (number % down) * cell[1]
        text = f"clip {row.index}" + (f" ({row.kind})" if row.kind != "continue" else "")
        draw.text((left, top), text, font=font, fill=_INK)
        frames = f"frames {row.start} to {row.end - 1}"
        right = left + 3 * width + 4
        draw.text((right, top), frames, font=font, fill=_FAINT, anchor="ra")
        for place, picture in enumerate(pictures):
            sheet.paste(picture, (left + place * (width + 2), top + _TEXT + 2))
    return sheet


def draw_seam_strips(measured: Measured) -> "Image.Image | None":
    """Draw three frames before and three after each of the worst seams, None without seams."""
    from PIL import Image, ImageDraw, ImageFont

    seams = worst_seams(measured)
    if not seams:
        return None
    strips = [_strip(measured, seam) for seam in seams]
    height = strips[0][0].height
    width = max(sum(p.width + 2 for p in strip) for strip in strips) + 10 + 2 * _GAP
    sheet = Image.new("RGB", (width, len(seams) * (height + _TEXT + 2 * _GAP) + _GAP), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_TEXT - 2)
    top = _GAP
    for seam, pictures in zip(seams, strips, strict=True):
        judged = worst(seam_outcomes(seam))
        draw.text((_GAP, top), seam_text(seam), font=font, fill=_MARK.get(judged, _INK))
        left = _GAP
        for place, picture in enumerate(pictures):
            if place == len(_before(measured, seam)):
                line = (left + 4, top + _TEXT, left + 4, top + _TEXT + 4 + height)
                draw.line(line, fill=_MARK.get(judged, _FAINT), width=2)
                left += 10
            sheet.paste(picture, (left, top + _TEXT + 2))
            left += picture.width + 2
        top += height + _TEXT + 2 * _GAP
    return sheet


def seam_text(seam: Seam) -> str:
    """Say of a seam where it is and what it reads."""
    judged = worst(seam_outcomes(seam))
    said = f", {seam.kind}" if seam.kind != "continue" else "" if judged == PASS else f", {judged}"
    return (
        f"into clip {seam.clip} at frame {seam.frame}{said}: the picture changes "
        f"{seam.ratio:.1f} x the usual, luma steps by {seam.luma_step:+.4f}"
    )


def worst_seams(measured: Measured) -> list[Seam]:
    """Return up to six seams, those that are judged worst and are furthest from good first."""
    order = ("fail", "inconclusive", "warn", "pass")
    seams = [seam for seam in measured.drift.seams if seam.kind == "continue"]
    ranked = sorted(seams, key=lambda s: (order.index(worst(seam_outcomes(s))), -_size(s)))
    return ranked[:_MOST_SEAMS]


def _size(seam: Seam) -> float:
    """Return a seam's jump or step, whichever is more, in the unit of what is bad."""
    return max(seam.ratio / SEAM_RATIO.fails, abs(seam.luma_step) / SEAM_LUMA.fails)


def as_bytes(picture: "Image.Image", kind: str) -> bytes:
    """Encode a picture: kind is PNG or JPEG."""
    file = io.BytesIO()
    options = {"quality": 90, "subsampling": 0} if kind == "JPEG" else {"optimize": True}
    picture.save(file, kind, **options)
    return file.getvalue()


def _strip(measured: Measured, seam: Seam) -> "Sequence[Image.Image]":
    after = measured.stills[seam.clip]
    later = [after[place] for place in range(SIDE) if place in after]
    return [_small(data, 220) for data in (*_before(measured, seam), *later)]


def _before(measured: Measured, seam: Seam) -> list[bytes]:
    row, stills = measured.drift.clips[seam.clip - 1], measured.stills[seam.clip - 1]
    length = row.end - row.start
    return [stills[place] for place in range(max(length - SIDE, 0), length)]


def _nearest(stills: Stills, place: int) -> bytes:
    return stills[min(stills, key=lambda taken: abs(taken - place))]


def _small(data: bytes, width: int) -> "Image.Image":
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        size = (width, max(1, round(picture.height * width / picture.width)))
        return picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
