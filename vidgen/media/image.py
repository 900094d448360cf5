"""Reading one still image of any common kind into float sRGB, with everything that was changed on
the way.
"""

# h rows  w columns  c red, green, blue
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vidgen.adjustment import Adjustment
from vidgen.errors import BadMedia
from vidgen.media.source import load_bytes

if TYPE_CHECKING:
    from PIL import Image

Float = npt.NDArray[np.float32]
Rgb = tuple[int, int, int]

# EPS, PDF, WMF and the like run other programs or draw vectors, so they are not in the list.
FORMATS = (
    "PNG",
    "JPEG",
    "WEBP",
    "GIF",
    "TIFF",
    "BMP",
    "DIB",
    "PPM",
    "AVIF",
    "JPEG2000",
    "ICO",
    "TGA",
)
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


@dataclass(frozen=True, slots=True, eq=False)
class ImageInput:
    """One picture, upright, opaque, in sRGB.

    pixels_hwc   float32 0..1
    adjustments  what had to be changed (transparency, animation, colour profile, depth), field
                 "image"
    """

    pixels_hwc: Float
    adjustments: tuple[Adjustment, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """A picture as decoded: float RGB, alpha where the file has any, and the notes of the
    decoder.
    """

    rgb_hwc: Float
    alpha_hw: Float | None = None
    notes: tuple[Adjustment, ...] = ()


def read_image(
    source: str | Path | bytes,
    *,
    background: Rgb = (255, 255, 255),
    max_pixels: int = 64_000_000,
    max_bytes: int = 64 * 2**20,
) -> ImageInput:
    """Read an image from a path, bytes or a data URL; its content decides the format, not its name.

    background  colour (0..255) that shows through transparent pixels
    max_pixels  bound on width * height, checked in the header before anything is decoded
    max_bytes   bound on the file
    Raises      NotFound, BadMedia: one sentence
    """
    name, data = load_bytes(source, max_bytes)
    if data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS:
        from vidgen.media.image_deep import read_heif

        decoded, orientation = read_heif(name, data, max_pixels)
    else:
        decoded, orientation = _read_with_pillow(name, data, max_pixels)
    pixels_hwc, notes = _composite(decoded, background)
    upright = np.ascontiguousarray(orient(pixels_hwc, orientation))
    return ImageInput(upright, decoded.notes + notes)


def check_pixels(name: str, size: tuple[int, int], max_pixels: int) -> None:
    """Refuse a picture whose header announces more pixels than allowed."""
    width, height = size
    if width < 1 or height < 1:
        raise BadMedia(f"{name} has the size {width}x{height}, which holds no pixels.")
    if width * height > max_pixels:
        raise BadMedia(
            f"{name} is {width}x{height}, {width * height / 1e6:.1f} million pixels; at most "
            f"{max_pixels / 1e6:.1f} million are read, so save a smaller one."
        )


def orient(pixels_hwc: Float, orientation: int) -> Float:
    """Turn and mirror a picture as EXIF orientation 1..8 demands (other values mean upright)."""
    if orientation in (5, 6, 7, 8):
        pixels_hwc = pixels_hwc.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels_hwc = pixels_hwc[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels_hwc = pixels_hwc[::-1]
    return pixels_hwc


def note(asked: str, used: str, why: str) -> Adjustment:
    """An adjustment of the field "image"."""
    return Adjustment("image", asked, used, why)


def _read_with_pillow(name: str, data: bytes, max_pixels: int) -> tuple[Decoded, int]:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Pillow warns of large pictures and of odd metadata; the cap below is ours and is an
            # error.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                check_pixels(name, image.size, max_pixels)
                return _decode(image, data)
    except BadMedia:
        raise
    except UnidentifiedImageError as error:
        raise BadMedia(
            f"{name} is not an image that can be read; use {_friendly_formats()}."
        ) from error
    except Image.DecompressionBombError as error:
        raise BadMedia(
            f"{name} announces far over the {max_pixels / 1e6:.1f} million pixels that are read."
        ) from error
    except Exception as error:
        raise BadMedia(f"{name} is damaged or cut off: {_first_line(error)}.") from error


def _decode(image: "Image.Image", data: bytes) -> tuple[Decoded, int]:
    from vidgen.media.image_deep import decode_deep
    from vidgen.media.image_modes import to_float

    notes = _note_frames(image)
    before_load = image.getexif().get(0x0112, 1)
    deep = decode_deep(image, data)
    image.load()  # also for deep pictures: Pillow notices a truncated file, PyAV conceals it
    if deep is not None:
        return Decoded(deep.rgb_hwc, deep.alpha_hw, notes + deep.notes), before_load
    plain = to_float(image)
    # Loading a TIFF already turns it and drops the tag, so the orientation is read again.
    return Decoded(plain.rgb_hwc, plain.alpha_hw, notes + plain.notes), image.getexif().get(
        0x0112, 1
    )


def _note_frames(image: "Image.Image") -> tuple[Adjustment, ...]:
    count = getattr(image, "n_frames", 1)
    if count < 2 or image.format in ("MPO", "ICO"):
        return ()
    what = "page" if image.format == "TIFF" else "frame"
    return (
        note(
            f"{count} {what}s",
            f"first {what}",
            f"a still image is needed and the file holds {count}",
        ),
    )


def _composite(decoded: Decoded, background: Rgb) -> tuple[Float, tuple[Adjustment, ...]]:
    alpha = decoded.alpha_hw
    if alpha is None or bool((alpha >= 1).all()):
        return decoded.rgb_hwc, ()
    behind = np.asarray(background, np.float32) / 255
    alpha_hw1 = alpha[..., None]
    rgb_hwc = (decoded.rgb_hwc * alpha_hw1 + behind * (1 - alpha_hw1)).astype(np.float32)
    used = "on rgb({}, {}, {})".format(*background)
    return rgb_hwc, (note("transparent pixels", used, "models take opaque pictures"),)


def _known_formats() -> list[str]:
    """Those of FORMATS that this build of Pillow has (AVIF and WebP are options of its build)."""
    from PIL import Image

    Image.init()
    return [kind for kind in FORMATS if kind in Image.OPEN]


def _friendly_formats() -> str:
    return "PNG, JPEG, WebP, AVIF, GIF, TIFF, BMP, JPEG 2000, or HEIC with the extra heif"


def _first_line(error: Exception) -> str:
    text: Any = str(error).strip() or type(error).__name__
    return str(text).splitlines()[0].rstrip(".")
