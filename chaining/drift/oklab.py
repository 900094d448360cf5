"""sRGB to Oklab and back, after Ottosson 2020; the colour space of the meter."""

# ... any axes before the last one, which is c: red, green, blue or L, a, b
import numpy as np

from chaining.drift.arrays import Float

_RGB_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    np.float32,
)
_LMS_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ],
    np.float32,
)
_LMS_TO_RGB = np.linalg.inv(_RGB_TO_LMS.astype(np.float64)).astype(np.float32)
_LAB_TO_LMS = np.linalg.inv(_LMS_TO_LAB.astype(np.float64)).astype(np.float32)


def linear_from_srgb(values: Float) -> Float:
    """Turn sRGB code values 0..1 into linear light 0..1; any shape."""
    import cv2

    curved = cv2.pow(np.maximum(values, 0.04045).reshape(-1) / 1.055 + 0.055 / 1.055, 2.4)
    linear: Float = np.where(
        values <= 0.04045, values / np.float32(12.92), curved.reshape(values.shape)
    )
    return linear


def srgb_from_linear(values: Float) -> Float:
    """Turn linear light into sRGB code values, clipped to 0..1; any shape."""
    bounded = np.clip(values, 0, 1)
    curved = 1.055 * np.power(np.maximum(bounded, 0.0031308), np.float32(1 / 2.4)) - 0.055
    return np.where(bounded <= 0.0031308, bounded * np.float32(12.92), curved).astype(np.float32)


def oklab_from_linear(linear_c: Float) -> Float:
    """Turn linear RGB (..., 3) into Oklab (..., 3); white is L = 1."""
    import cv2

    lms = np.maximum(linear_c.reshape(-1, 3) @ _RGB_TO_LMS.T, 0)
    roots = cv2.pow(lms, 1 / 3)
    lab: Float = (roots @ _LMS_TO_LAB.T).reshape(linear_c.shape)
    return lab


def oklab_from_srgb(rgb_c: Float) -> Float:
    """Turn sRGB 0..1 (..., 3) into Oklab (..., 3)."""
    return oklab_from_linear(linear_from_srgb(rgb_c))


def srgb_from_oklab(lab_c: Float) -> Float:
    """Turn Oklab (..., 3) into sRGB (..., 3), clipped to 0..1."""
    roots = lab_c.reshape(-1, 3) @ _LAB_TO_LMS.T
    cubes: Float = roots * roots * roots
    linear: Float = (cubes @ _LMS_TO_RGB.T).reshape(lab_c.shape)
    return srgb_from_linear(linear)
