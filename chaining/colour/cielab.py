"""sRGB and CIELAB (D65), to and fro: the space in which other tools match colours.

Constants: CIE 15 for the curve, IEC 61966-2-1 for the primaries.
"""

# x any leading axes  c channels
import numpy as np
import numpy.typing as npt

from chaining.colour.oklab import linear_to_srgb, srgb_to_linear

Float = npt.NDArray[np.float32]

XYZ_FROM_LINEAR = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
# Scaled so that white is 1, 1, 1; then no white point appears below.
CONES_FROM_LINEAR = XYZ_FROM_LINEAR / XYZ_FROM_LINEAR.sum(axis=1, keepdims=True)
LINEAR_FROM_CONES = np.linalg.inv(CONES_FROM_LINEAR)
LAB_FROM_CURVED = np.array([[0.0, 116.0, 0.0], [500.0, -500.0, 0.0], [0.0, 200.0, -200.0]])
CURVED_FROM_LAB = np.linalg.inv(LAB_FROM_CURVED)
LIGHTNESS_SHIFT = np.array([-16.0, 0.0, 0.0])
KNEE = 6 / 29  # of the curved value: below it the cube root is replaced by its tangent


def srgb_to_lab(srgb_xc: Float) -> Float:
    """Turn sRGB 0..1 into CIELAB: L 0..100, a and b about -110..110; float32, 3 channels last."""
    ratio_xc = srgb_to_linear(srgb_xc) @ CONES_FROM_LINEAR.T.astype(np.float32)
    curved_xc = np.where(
        ratio_xc > KNEE**3, np.cbrt(ratio_xc), ratio_xc / np.float32(3 * KNEE**2) + 4 / 29
    )
    lab_xc: Float = (curved_xc @ LAB_FROM_CURVED.T + LIGHTNESS_SHIFT).astype(np.float32)
    return lab_xc


def lab_to_srgb(lab_xc: Float) -> Float:
    """Turn CIELAB into sRGB; colours outside sRGB come out below 0 or above 1."""
    curved_xc = (lab_xc - LIGHTNESS_SHIFT) @ CURVED_FROM_LAB.T
    ratio_xc = np.where(curved_xc > KNEE, curved_xc**3, 3 * KNEE**2 * (curved_xc - 4 / 29))
    return linear_to_srgb((ratio_xc @ LINEAR_FROM_CONES.T).astype(np.float32))
