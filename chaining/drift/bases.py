"""Footage with known content: a drawn scene, and loops that make every clip show the same."""

# f frames  r rows  w columns  c red, green, blue
from dataclasses import dataclass, field

import numpy as np

from chaining.drift.arrays import Array, Float

_DISCS = 4


@dataclass(frozen=True)
class Synthetic:
    """A texture that pans past, four moving discs, and fresh sensor noise on each frame.

    period   frames after which the content repeats (the noise never does)
    noise    standard deviation of the sensor noise, in code values 0..1
    """

    seed: int = 0
    width: int = 192
    height: int = 108
    period: int = 40
    noise: float = 0.004
    _texture: Float = field(init=False, repr=False, compare=False)
    _discs: Array = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Draw the texture and choose the discs."""
        rng = np.random.default_rng(self.seed)
        object.__setattr__(self, "_texture", _texture(rng, self.height, self.width * 5 // 4))
        object.__setattr__(self, "_discs", rng.uniform(0, 1, (_DISCS, 7)))

    def frames(self, start: int, count: int) -> Float:
        """Return frames start..start+count-1 as float32 sRGB (f, r, w, 3) in 0..1."""
        return np.stack([self._frame(index) for index in range(start, start + count)])

    def _frame(self, index: int) -> Float:
        import cv2

        turn = (index % self.period) / self.period
        columns = self._texture.shape[1]
        wide = np.concatenate([self._texture, self._texture[:, : self.width + 1]], axis=1)
        shift = np.array([[1, 0, -turn * columns], [0, 1, 0]], np.float32)
        picture: Float = cv2.warpAffine(wide, shift, (self.width, self.height))
        for disc in self._discs:
            phase = 2 * np.pi * (turn + disc[0])
            x = self.width * (0.5 + 0.35 * np.cos(phase) * (0.5 + disc[1] / 2))
            y = self.height * (0.5 + 0.35 * np.sin(phase) * (0.5 + disc[2] / 2))
            radius = self.height * (0.06 + 0.08 * disc[3])
            colour = [float(value) for value in 0.2 + 0.55 * disc[4:]]
            cv2.circle(
                picture, (round(x * 16), round(y * 16)), round(radius * 16), colour, -1,
                cv2.LINE_AA, 4,
            )  # fmt: skip
        rng = np.random.default_rng([self.seed, index])
        noise = rng.standard_normal(picture.shape, np.float32) * np.float32(self.noise)
        return np.clip(picture + noise, 0, 1)


def _texture(rng: np.random.Generator, rows: int, columns: int) -> Float:
    """Draw a coloured texture that repeats sideways, between about 0.15 and 0.8."""
    import cv2

    picture = np.zeros((rows, columns, 3), np.float32)
    for cells, strength in ((4, 1.0), (9, 0.7), (20, 0.5), (45, 0.35), (100, 0.25)):
        grid = rng.standard_normal((max(2, cells * rows // columns), cells, 3), np.float32)
        grid = 0.75 * grid.mean(axis=2, keepdims=True) * np.sqrt(3) + 0.45 * grid
        around = np.concatenate([grid[:, -2:], grid, grid[:, :2]], axis=1)
        cell = columns / cells
        size = (round(cell * (cells + 4)), rows)
        grown = cv2.resize(around, size, interpolation=cv2.INTER_CUBIC)
        start = round(2 * cell)
        picture += strength * grown[:, start : start + columns]
    picture = (picture - picture.mean()) / picture.std()
    bounded: Float = np.clip(0.46 + 0.13 * picture, 0.12, 0.85).astype(np.float32)
    return bounded


def there_and_back(frames_frwc: Float, num_frames: int) -> Float:
    """Make one clip of num_frames that plays forwards and back, so that its end meets its start.

    num_frames  even; the first num_frames / 2 + 1 frames are used, the turning points once each
    """
    half = num_frames // 2
    if num_frames % 2 or len(frames_frwc) <= half:
        raise ValueError(f"{num_frames} frames need an even number and {half + 1} source frames")
    return np.concatenate([frames_frwc[: half + 1], frames_frwc[half - 1 : 0 : -1]])
