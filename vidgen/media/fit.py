"""Bringing a picture to the size a model wants: crop, letterbox or stretch, with Lanczos in
float.
"""

# h rows  w columns  c red, green, blue
from typing import Literal

import numpy as np
import numpy.typing as npt

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]
Fit = Literal["crop", "letterbox", "stretch"]


def fit_image(pixels_hwc: Float, width: int, height: int, fit: Fit) -> Float:
    """Resize a float picture to exactly (height, width, 3), values in 0..1; a picture of that size
    comes back as is.

    crop       fill the frame and cut off what hangs over, the same on both sides
    letterbox  show all of the picture and fill with black bars
    stretch    fill the frame, changing the aspect ratio
    """
    _check(width, height, fit)
    rows, columns, _ = pixels_hwc.shape
    if (columns, rows) == (width, height):
        return pixels_hwc
    if fit == "stretch":
        return _resize(pixels_hwc, width, height, (0, 0, columns, rows))
    if fit == "crop":
        return _resize(pixels_hwc, width, height, _crop_box(columns, rows, width, height))
    inner_w, inner_h = _inner_size(columns, rows, width, height)
    left, top = (width - inner_w) // 2, (height - inner_h) // 2
    framed = np.zeros((height, width, 3), np.float32)
    inner = _resize(pixels_hwc, inner_w, inner_h, (0, 0, columns, rows))
    framed[top : top + inner_h, left : left + inner_w] = inner
    return framed


def describe_fit(
    source_width: int, source_height: int, width: int, height: int, fit: Fit
) -> Adjustment | None:
    """Say what `fit_image` does beyond plain scaling: what is cut off, the bars, the distortion;
    None if nothing.
    """
    _check(width, height, fit)
    if source_width * height == source_height * width:
        return None
    asked, used = f"{source_width}x{source_height}", f"{width}x{height}"
    if fit == "crop":
        left, top, right, bottom = _crop_box(source_width, source_height, width, height)
        lost = 1 - (right - left) * (bottom - top) / (source_width * source_height)
        sides = "left and right" if left > 0 else "top and bottom"
        why = f"{100 * lost:.1f} % of the picture is cut off at {sides} to fill the frame"
    elif fit == "letterbox":
        inner_w, inner_h = _inner_size(source_width, source_height, width, height)
        if (inner_w, inner_h) == (width, height):
            return None
        bars = 1 - inner_w * inner_h / (width * height)
        sides = "left and right" if inner_w < width else "top and bottom"
        why = f"{100 * bars:.1f} % of the frame is black bars at {sides} so that all of it is seen"
    else:
        change = (width / height) / (source_width / source_height)
        why = f"the picture is made {change:.3f} times as wide in proportion to its height"
    return Adjustment("image", asked, f"{used} ({fit})", why)


def _check(width: int, height: int, fit: str) -> None:
    if width < 1 or height < 1:
        raise BadRequest(
            f"The size {width}x{height} holds no pixels; use at least 1x1.", field="width"
        )
    if fit not in ("crop", "letterbox", "stretch"):
        raise BadRequest(f"fit={fit!r} is unknown; use crop, letterbox or stretch.", field="fit")


def _crop_box(
    columns: int, rows: int, width: int, height: int
) -> tuple[float, float, float, float]:
    """The centred part of a picture, in its own pixels (fractions too), that has the wanted aspect
    ratio.
    """
    scale = max(width / columns, height / rows)
    kept_w, kept_h = min(columns, width / scale), min(rows, height / scale)
    left, top = (columns - kept_w) / 2, (rows - kept_h) / 2
    return left, top, left + kept_w, top + kept_h


def _inner_size(columns: int, rows: int, width: int, height: int) -> tuple[int, int]:
    scale = min(width / columns, height / rows)
    inner_w = min(width, max(1, round(columns * scale)))
    return inner_w, min(height, max(1, round(rows * scale)))


def _resize(
    pixels_hwc: Float, width: int, height: int, box: tuple[float, float, float, float]
) -> Float:
    from PIL import Image

    channels = [
        Image.fromarray(np.ascontiguousarray(pixels_hwc[..., i], np.float32)).resize(
            (width, height), Image.Resampling.LANCZOS, box=box
        )
        for i in range(3)
    ]
    resized = np.stack([np.asarray(channel) for channel in channels], axis=-1)
    clipped: Float = np.clip(resized, 0, 1)
    return clipped
