"""From any mode of a loaded Pillow image to float sRGB and alpha, colour profile applied."""

# h rows  w columns  c red, green, blue
import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vidgen.adjustment import Adjustment
from vidgen.errors import BadMedia
from vidgen.media.image import Decoded, note

if TYPE_CHECKING:
    from PIL import Image

Float = npt.NDArray[np.float32]
_PREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}


def to_float(image: "Image.Image") -> Decoded:
    """Decode a loaded image of any Pillow mode.

    Integers of 16 bits are divided by 65535; 32-bit integers and floats outside their usual range
    are stretched from their least to their greatest value, which is noted.
    """
    if image.mode.startswith("I") or image.mode == "F":
        return _from_numbers(image)
    if image.mode in _PREMULTIPLIED:
        image = image.convert(_PREMULTIPLIED[image.mode])
    alpha_hw = _alpha(image)
    opaque, notes = to_srgb(_without_alpha(image), image.info.get("icc_profile"))
    return Decoded(_scaled(opaque), alpha_hw, notes)


def to_srgb(
    image: "Image.Image", profile: bytes | None
) -> tuple["Image.Image", tuple[Adjustment, ...]]:
    """Convert an opaque 8-bit image (L, RGB, CMYK or another mode) to sRGB, by its ICC profile if
    there is one.
    """
    from PIL import ImageCms

    if not profile:
        return _without_profile(image)
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        description = ImageCms.getProfileDescription(source).strip()
        if image.mode == "RGB" and "srgb" in description.lower():
            return image, ()
        converted = ImageCms.profileToProfile(
            image, source, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except (ImageCms.PyCMSError, OSError, ValueError) as error:
        plain, notes = _without_profile(image)
        reason = (str(error).splitlines() or ["unknown reason"])[0]
        broken = note("embedded colour profile", "ignored", f"it cannot be applied: {reason}")
        return plain, (broken, *notes)
    assert converted is not None
    used = note(
        f"colour profile {description!r}", "converted to sRGB", "models are trained on sRGB"
    )
    return converted, (used,)


def _scaled(image: "Image.Image") -> Float:
    return np.asarray(image, np.float32) / np.float32(255)


def _without_profile(image: "Image.Image") -> tuple["Image.Image", tuple[Adjustment, ...]]:
    if image.mode != "CMYK":
        return image.convert("RGB"), ()
    why = "the file carries no colour profile, so printed colours can only be estimated"
    return image.convert("RGB"), (note("CMYK", "plain conversion to RGB", why),)


def _alpha(image: "Image.Image") -> Float | None:
    if not image.has_transparency_data:
        return None
    return _scaled(image.convert("RGBA").getchannel("A"))


def _without_alpha(image: "Image.Image") -> "Image.Image":
    if image.mode == "LA":
        return image.getchannel("L")
    if image.mode in ("P", "PA") or image.has_transparency_data:
        return image.convert("RGBA").convert("RGB")
    return image.convert("L") if image.mode == "1" else image


def _from_numbers(image: "Image.Image") -> Decoded:
    """Greyscale of 16-bit integers (I;16), 32-bit integers (I) or floats (F)."""
    grey = np.asarray(image).astype(np.float64)
    if not np.isfinite(grey).all():
        raise BadMedia(
            "The image holds values that are not finite; save it as ordinary 8-bit or 16-bit."
        )
    alpha_hw = None
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        alpha_hw = (grey != transparent).astype(np.float32)
    low, high = float(grey.min()), float(grey.max())
    usual = 1.0 if image.mode == "F" else 65535.0
    notes: tuple[Adjustment, ...] = ()
    if low >= 0 and high <= usual:
        grey /= usual
    else:
        grey = (grey - low) / ((high - low) or 1.0)
        why = f"values outside 0..{usual:g} have no agreed brightness"
        notes = (note(f"values {low:g}..{high:g}", "stretched to black..white", why),)
    rgb_hwc = np.repeat(grey.astype(np.float32)[..., None], 3, axis=2)
    return Decoded(rgb_hwc, alpha_hw, notes)
