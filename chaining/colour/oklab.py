"""sRGB, linear light and Oklab, to and fro; the one home of these formulas in chains and drift.

Constants: IEC 61966-2-1 for sRGB; Ottosson, "A perceptual color space for image processing" (2020,
matrices of 2021-01-25) for Oklab. The curves are odd functions, so values a little outside 0..1
survive a trip and come back exact.
"""

# x any leading axes (frames, rows, columns)  c channel (red, green, blue or L, a, b)
# n pixels of one block, channels first: a plane in the cache is what makes this fast
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from vidgen.errors import BadRequest

Float = npt.NDArray[np.floating[Any]]  # float32 or float64; what goes in comes out
Pixels = TypeVar("Pixels", npt.NDArray[np.float32], npt.NDArray[np.float64])
Matrix = npt.NDArray[np.float64]

LMS_FROM_LINEAR = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LAB_FROM_ROOTS = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
# Inverted here rather than quoted: the published inverses are rounded on their own.
LINEAR_FROM_LMS = np.linalg.inv(LMS_FROM_LINEAR)
ROOTS_FROM_LAB = np.linalg.inv(LAB_FROM_ROOTS)

LUMA_C = np.array([0.2126, 0.7152, 0.0722], np.float32)  # BT.709's weights of red, green and blue

BLOCK_PIXELS = 8192  # three float32 planes and their temporaries stay in a 512 KiB cache


def srgb_to_linear(srgb_xc: Pixels) -> Pixels:
    """Undo the sRGB curve: code values 0..1 to linear light 0..1.

    float32 or float64 in, the same out; 3 channels last
    Raises BadRequest for another shape or dtype
    """
    return _by_blocks(_linear, srgb_xc)


def linear_to_srgb(linear_xc: Pixels) -> Pixels:
    """Apply the sRGB curve, linear light to code values: the inverse of srgb_to_linear."""
    return _by_blocks(_coded, linear_xc)


def srgb_to_oklab(srgb_xc: Pixels) -> Pixels:
    """Turn sRGB code values (0..1) into Oklab: L 0..1, a and b about -0.4..0.4.

    float32 or float64 in, the same out; 3 channels last
    Raises BadRequest for another shape or dtype
    """
    return _by_blocks(lambda srgb_cn: _matrix(LAB_FROM_ROOTS, _roots(_linear(srgb_cn))), srgb_xc)


def linear_to_oklab(linear_xc: Pixels) -> Pixels:
    """Turn linear light (0..1) into Oklab; see srgb_to_oklab."""
    return _by_blocks(lambda linear_cn: _matrix(LAB_FROM_ROOTS, _roots(linear_cn)), linear_xc)


def oklab_to_srgb(oklab_xc: Pixels) -> Pixels:
    """Turn Oklab into sRGB code values; the inverse of srgb_to_oklab.

    Colours that sRGB cannot show come out below 0 or above 1: whoever shows them clips.
    """
    return _by_blocks(lambda lab_cn: _srgb(_matrix(ROOTS_FROM_LAB, lab_cn)), oklab_xc)


def affine_in_oklab(srgb_xc: Pixels, scale_c: Matrix, offset_c: Matrix) -> Pixels:
    """Return srgb_xc with each Oklab channel x replaced by scale * x + offset, clipped to 0..1.

    scale_c, offset_c  one number each for L, a, b
    The two matrices around the affine are merged, so this costs less than the trip there and back.
    """
    merged = ROOTS_FROM_LAB @ np.diag(scale_c) @ LAB_FROM_ROOTS
    shift_c = ROOTS_FROM_LAB @ offset_c

    def recolour(srgb_cn: Float) -> Float:
        roots_cn = _matrix(merged, _roots(_linear(srgb_cn)))
        roots_cn += shift_c.astype(roots_cn.dtype)[:, None]
        return np.clip(_srgb(roots_cn), 0, 1)

    return _by_blocks(recolour, srgb_xc)


def _by_blocks(convert_cn: Callable[[Float], Float], array_xc: Pixels) -> Pixels:
    """Run convert_cn over the pixels of array_xc, a block at a time."""
    if array_xc.dtype not in (np.float32, np.float64):
        raise BadRequest(
            f"Pixels are {array_xc.dtype}, not float32 or float64; divide 8-bit values by 255."
        )
    if array_xc.ndim == 0 or array_xc.shape[-1] != 3:
        raise BadRequest(
            f"Pixels have the shape {array_xc.shape}; the last axis must be 3 colours."
        )
    pixels_nc = array_xc.reshape(-1, 3)
    out_xc = np.empty(array_xc.shape, array_xc.dtype)
    out_nc = out_xc.reshape(-1, 3)
    for start in range(0, len(pixels_nc), BLOCK_PIXELS):
        block = slice(start, start + BLOCK_PIXELS)
        converted_cn = convert_cn(np.ascontiguousarray(pixels_nc[block].T))
        for channel in range(3):  # one strided copy each: five times faster than copying the .T
            out_nc[block, channel] = converted_cn[channel]
    return out_xc


def _matrix(matrix: Matrix, planes_cn: Float) -> Float:
    product_cn: Float = matrix.astype(planes_cn.dtype) @ planes_cn
    return product_cn


def _linear(srgb_cn: Float) -> Float:
    size_cn = np.abs(srgb_cn)
    linear_cn = size_cn + 0.055
    linear_cn /= 1.055
    linear_cn **= 2.4
    np.copyto(linear_cn, size_cn / 12.92, where=size_cn <= 0.04045)
    return np.copysign(linear_cn, srgb_cn, out=linear_cn)


def _coded(linear_cn: Float) -> Float:
    size_cn = np.abs(linear_cn)
    srgb_cn = size_cn ** (1 / 2.4)
    srgb_cn *= 1.055
    srgb_cn -= 0.055
    np.copyto(srgb_cn, 12.92 * size_cn, where=size_cn <= 0.04045 / 12.92)
    return np.copysign(srgb_cn, linear_cn, out=srgb_cn)


def _roots(linear_cn: Float) -> Float:
    """Return the cube roots of the cone responses; a power is three times faster than cbrt."""
    lms_cn = _matrix(LMS_FROM_LINEAR, linear_cn)
    roots_cn = np.abs(lms_cn)
    roots_cn **= 1 / 3
    return np.copysign(roots_cn, lms_cn, out=roots_cn)


def _srgb(roots_cn: Float) -> Float:
    return _coded(_matrix(LINEAR_FROM_LMS, roots_cn * roots_cn * roots_cn))
