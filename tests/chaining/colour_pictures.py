"""Synthetic scenes and the drift that is done to them; float64, written apart from the package."""

import numpy as np
import numpy.typing as npt

Frames = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]

# Ottosson's published matrices, both ways, as printed.
M1 = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
M2 = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
M1_BACK = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)
M2_BACK = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)


def oklab(srgb: npt.NDArray[np.floating]) -> Values:
    """Reference conversion, float64."""
    code = np.asarray(srgb, np.float64)
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ M1.T) @ M2.T


def srgb(lab: Values) -> Values:
    """Reference conversion back, clipped to 0..1."""
    linear = np.clip((lab @ M2_BACK.T) ** 3 @ M1_BACK.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def scene(seed: int, frames: int, rows: int = 48, columns: int = 80) -> Values:
    """A slowly panning texture with a palette of its own, codes about 0.1..0.9."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:rows, 0:columns]
    base, swing = rng.uniform(0.3, 0.65, 3), rng.uniform(0.1, 0.25, 3)
    waves = rng.uniform(0.06, 0.3, (3, 2))
    phase = rng.uniform(0, 6, 3)
    shots = []
    for frame in range(frames):
        angle = waves[:, 0] * (x[..., None] + 0.3 * frame) + waves[:, 1] * y[..., None] + phase
        shots.append(base + swing * np.sin(angle))
    return np.clip(np.stack(shots), 0.02, 0.98)


def drift(clean: Values, clips: int) -> Values:
    """What `clips` rounds of gain 0.97, chroma x1.03 and b +0.002 make of clean frames."""
    for _ in range(clips):
        lab = oklab(clean * 0.97)
        lab[..., 1:] *= 1.03
        lab[..., 2] += 0.002
        clean = srgb(lab)
    return clean


def noisy(frames: Values, seed: int, sigma: float = 0.01) -> Frames:
    """Frames as a model would render them again: noise added, float32, 0..1."""
    rng = np.random.default_rng(seed)
    return np.clip(frames + rng.normal(0, sigma, frames.shape), 0, 1).astype(np.float32)


def distance(left: npt.NDArray[np.floating], right: npt.NDArray[np.floating]) -> float:
    """Mean Oklab distance."""
    return float(np.linalg.norm(oklab(left) - oklab(right), axis=-1).mean())
