"""Pictures with more than 8 bits per colour, which Pillow would cut to 8 without a word; and
HEIC.
"""

# h rows  w columns  c red, green, blue (alpha)
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from vidgen.adjustment import Adjustment
from vidgen.errors import BadMedia
from vidgen.extras import how_to_install
from vidgen.media.image import Decoded, check_pixels, note

if TYPE_CHECKING:
    from PIL import Image

_AV_NAMES = {"PNG": "png_pipe", "TIFF": "tiff_pipe", "PPM": "ppm_pipe"}


def decode_deep(image: "Image.Image", data: bytes) -> Decoded | None:
    """Decode a colour picture of more than 8 bits at its full depth; None if Pillow loses nothing.

    A colour profile is applied at 8 bits and a format that PyAV cannot read stays at 8 bits: both
    are noted.
    """
    bits = _colour_bits(image, data)
    if bits <= 8:
        return None
    from vidgen.media.image_modes import to_float, to_srgb

    deep = _decode_with_av(image.format, data)
    profile = image.info.get("icc_profile")
    if deep is None or (profile and to_srgb(image.convert("RGB"), profile)[1]):
        image.load()
        plain = to_float(image)
        why = (
            "its colour profile is applied at 8 bits"
            if deep is not None
            else "only 8 can be read from this format"
        )
        cut = note(f"{bits} bits per colour", "8 bits per colour", why)
        return Decoded(plain.rgb_hwc, plain.alpha_hw, (cut, *plain.notes))
    return deep


def read_heif(name: str, data: bytes, max_pixels: int) -> tuple[Decoded, int]:
    """Decode a HEIC picture, upright already, at its full depth; needs the extra `heif`."""
    try:
        import pillow_heif
    except ImportError as error:
        raise BadMedia(
            f"{name} is a HEIC picture; install what reads it with {how_to_install('heif')}."
        ) from error
    from vidgen.media.image_modes import to_float

    try:
        heif = pillow_heif.open_heif(io.BytesIO(data), convert_hdr_to_8bit=False)
        check_pixels(name, heif.size, max_pixels)
        if ";16" in heif.mode:
            return _from_deep_heif(heif), 1
        return to_float(heif.to_pillow()), 1
    except BadMedia:
        raise
    except Exception as error:
        raise BadMedia(f"{name} is damaged or cut off: {str(error).rstrip('.')}.") from error


def _from_deep_heif(heif: Any) -> Decoded:
    bits = int(heif.info.get("bit_depth", 16))
    # libheif's samples lie in the upper bits of 16: white is 1023 << 6 at 10 bits.
    samples = np.asarray(heif).astype(np.float32) / float((2**bits - 1) << (16 - bits))
    if samples.ndim == 2:
        samples = np.repeat(samples[..., None], 3, axis=2)
    alpha_hw = samples[..., 3] if samples.shape[2] == 4 else None
    notes: tuple[Adjustment, ...] = ()
    if heif.info.get("icc_profile") and b"sRGB" not in heif.info["icc_profile"]:
        notes = (note("colour profile", "ignored", "it cannot be applied at more than 8 bits"),)
    return Decoded(samples[..., :3], alpha_hw, notes)


def _colour_bits(image: "Image.Image", data: bytes) -> int:
    """Bits per colour sample as stored, read from the header (8 where the format has no more)."""
    kind, head = image.format, data[:65536]
    if kind == "PNG" and data[25] in (2, 4, 6):
        return data[24]
    if kind == "TIFF" and len(image.getbands()) > 1:
        return int(max(getattr(image, "tag_v2", {}).get(258, (8,))))
    if kind == "PPM" and image.mode == "RGB":
        gap = rb"(?:\s|#[^\n]*\n)+"
        found = re.match(rb"P6" + gap + rb"\d+" + gap + rb"\d+" + gap + rb"(\d+)", head)
        return int(found.group(1)).bit_length() if found else 8
    if kind == "AVIF":
        box = head.find(b"av1C")
        flags = head[box + 6] if box >= 0 else 0
        return 12 if flags & 0x60 == 0x60 else 10 if flags & 0x40 else 8
    if kind == "JPEG2000" and len(image.getbands()) > 1:
        marker = head.find(b"\xff\x51")
        return (head[marker + 40] & 0x7F) + 1 if marker >= 0 else 8
    return 8


def _decode_with_av(kind: str | None, data: bytes) -> Decoded | None:
    import av

    if kind not in _AV_NAMES:
        return None
    try:
        with av.open(io.BytesIO(data), "r", format=_AV_NAMES[kind]) as container:
            frame = next(container.decode(video=0))
    except (av.FFmpegError, StopIteration):
        return None
    has_alpha = any(part.is_alpha for part in frame.format.components)
    wanted = "rgba64le" if has_alpha else "rgb48le"
    samples = frame.reformat(format=wanted).to_ndarray().astype(np.float32) / np.float32(65535)
    return Decoded(samples[..., :3], samples[..., 3] if has_alpha else None)
