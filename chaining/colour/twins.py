"""Twins: pictures that exist twice, as handed to a clip and as that clip rendered them again.

They are laid over each other, then compared in cells of a coarse grid: a cell's mean is hardly
touched by noise or by what is left of a shift. This file fits nothing.
"""

# f frames  r rows  w columns  c channels  y cell rows  x cell columns  n cells in use
import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from chaining.colour.checks import check_finite, check_frames
from chaining.colour.oklab import srgb_to_oklab
from vidgen.errors import BadRequest

Float = npt.NDArray[np.float32]
Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
AnyArray = TypeVar("AnyArray", Float, Values)

CELL_COLUMNS = 64  # cells across a picture, as long as each has enough pixels to calm its noise
CELL_PIXELS = 8
MIN_CELLS = 8  # across a small picture, before any of that
TILES = 4  # tiles across and down; neighbours within one are not taken as independent
# A given pixel this near to black or white may have been clipped when it was rendered again; the
# margin is wide on the given side, which carries no noise, so that leaving out adds no bias.
GIVEN_MARGIN = 4 / 255
RENDERED_MARGIN = 0.5 / 255
MAX_SHIFT = 0.25  # of height or width; twins further apart are not laid over each other
MIN_PEAK_SIGMAS = 8  # unrelated noise peaks at 4 to 5
MIN_CELL_SHARE = 0.5  # share of a cell's pixels that must be in range for the cell to count


@dataclass(frozen=True, slots=True)
class Twins:
    """Cell means of both pictures in Oklab, where neither is clipped.

    given_nc, rendered_nc  float64, L, a, b of each cell in use
    tile_n                 the tile (0..15) each cell lies in
    share                  cells in use, as a share of all
    num_frames             frames that were compared
    motion                 largest displacement of a twin, as a share of the width
    """

    given_nc: Values
    rendered_nc: Values
    tile_n: npt.NDArray[np.int64]
    share: float
    num_frames: int
    motion: float


@dataclass(frozen=True, slots=True)
class _Pair:
    """One frame and its twin: mean code values of every cell, and which cells can be used."""

    given_nc: Values
    rendered_nc: Values
    used_n: Mask
    tile_n: npt.NDArray[np.int64]
    motion: float


def compare(given_frwc: Float, rendered_frwc: Float) -> Twins:
    """Measure the same frames twice.

    given_frwc, rendered_frwc  float32 sRGB 0..1, of one shape
    Raises BadRequest for unlike shapes, another dtype, NaN or infinite values
    """
    for name, frames_frwc in (("Given twins", given_frwc), ("Rendered twins", rendered_frwc)):
        check_frames(name, frames_frwc)
        check_finite(name, frames_frwc)
    if given_frwc.shape != rendered_frwc.shape:
        raise BadRequest(
            f"Given twins have the shape {given_frwc.shape} and rendered twins"
            f" {rendered_frwc.shape}; they must show the same frames at the same size."
        )
    pairs = [_compare_one(*pair) for pair in zip(given_frwc, rendered_frwc, strict=True)]
    used_n = np.concatenate([pair.used_n for pair in pairs])
    return Twins(
        given_nc=srgb_to_oklab(np.concatenate([pair.given_nc for pair in pairs])[used_n]),
        rendered_nc=srgb_to_oklab(np.concatenate([pair.rendered_nc for pair in pairs])[used_n]),
        tile_n=np.concatenate([pair.tile_n for pair in pairs])[used_n],
        share=float(used_n.mean()),
        num_frames=len(pairs),
        motion=max(pair.motion for pair in pairs),
    )


def _compare_one(given_rwc: Float, rendered_rwc: Float) -> _Pair:
    """Lay one frame over its twin and average both over the cells.

    Code values are averaged, not Oklab: a cube root bends noise into a shift of the mean.
    """
    rows, columns = given_rwc.shape[:2]
    down, right = _displacement(given_rwc, rendered_rwc)
    motion = math.hypot(down, right) / columns
    if max(abs(down) / rows, abs(right) / columns) <= MAX_SHIFT:
        given_rwc = _overlap(given_rwc, down, right)
        rendered_rwc = _overlap(rendered_rwc, -down, -right)
    size = max(CELL_PIXELS, columns // CELL_COLUMNS)
    size = max(1, min(size, min(given_rwc.shape[:2]) // MIN_CELLS))
    inside_rw = _inside(given_rwc, GIVEN_MARGIN) & _inside(rendered_rwc, RENDERED_MARGIN)
    inside_yx = _cells(inside_rw.astype(np.float32)[..., None], size)[..., 0]
    return _Pair(
        given_nc=_masked_cells(given_rwc, inside_rw, inside_yx, size).reshape(-1, 3),
        rendered_nc=_masked_cells(rendered_rwc, inside_rw, inside_yx, size).reshape(-1, 3),
        used_n=inside_yx.ravel() >= MIN_CELL_SHARE,
        tile_n=_tiles(inside_yx.shape).ravel(),
        motion=motion,
    )


def _overlap(picture: AnyArray, down: int, right: int) -> AnyArray:
    """Return the part of a picture still in view once it has moved down and to the right."""
    rows, columns = picture.shape[:2]
    return picture[
        max(-down, 0) : rows - max(down, 0),
        max(-right, 0) : columns - max(right, 0),
    ]


def _inside(frame_rwc: Float, margin: float) -> Mask:
    """Say which pixels are at least margin away from 0 and 1 in all three colours."""
    low_rw = np.minimum(np.minimum(frame_rwc[..., 0], frame_rwc[..., 1]), frame_rwc[..., 2])
    high_rw = np.maximum(np.maximum(frame_rwc[..., 0], frame_rwc[..., 1]), frame_rwc[..., 2])
    return (low_rw >= margin) & (high_rw <= 1 - margin)


def _cells(values_rwc: Float, size: int) -> Values:
    """Average over squares of size x size pixels; a remainder at the lower right is left out."""
    rows, columns = (length - length % size for length in values_rwc.shape[:2])
    channels = values_rwc.shape[2]
    tall = values_rwc[:rows, :columns].reshape(rows // size, size, columns, channels)
    across = tall.mean(axis=1).reshape(rows // size, columns // size, size, channels)
    cells: Values = across.mean(axis=2, dtype=np.float64)
    return cells


def _masked_cells(values_rwc: Float, inside_rw: Mask, inside_yx: Values, size: int) -> Values:
    """Average each cell over its pixels in range; a cell without any comes out as 0."""
    sums_yxc = _cells(values_rwc * inside_rw[..., None], size)
    return sums_yxc / np.maximum(inside_yx, 1 / size**2)[..., None]


def _tiles(cells_yx: tuple[int, ...]) -> npt.NDArray[np.int64]:
    rows, columns = (np.arange(length) * TILES // length for length in cells_yx)
    return (rows[:, None] * TILES + columns[None, :]).astype(np.int64)


def _displacement(given_rwc: Float, rendered_rwc: Float) -> tuple[int, int]:
    """Return how many pixels down and to the right the picture as a whole moved.

    Phase correlation of green, the channel nearest to lightness, in a copy about 256 wide: its
    pixel is the step. A picture without structure cannot be seen to move: (0, 0).
    """
    size = min(max(1, given_rwc.shape[1] // 256), given_rwc.shape[0])
    pictures = [_cells(rwc[..., 1:2], size)[..., 0] for rwc in (given_rwc, rendered_rwc)]
    rows, columns = pictures[0].shape
    window = np.hanning(rows + 2)[1:-1, None] * np.hanning(columns + 2)[None, 1:-1]
    spectra = [np.fft.rfft2((picture - picture.mean()) * window) for picture in pictures]
    cross = spectra[1] * spectra[0].conj()
    likeness = np.fft.irfft2(cross / np.maximum(np.abs(cross), 1e-12), s=(rows, columns))
    if likeness.max() < MIN_PEAK_SIGMAS / math.sqrt(likeness.size):
        return 0, 0
    peak_row, peak_column = divmod(int(likeness.argmax()), columns)
    down = (peak_row + rows // 2) % rows - rows // 2
    right = (peak_column + columns // 2) % columns - columns // 2
    given_rw, rendered_rw = pictures
    still = _unlikeness(given_rw, rendered_rw, 0, 0)
    if _unlikeness(given_rw, rendered_rw, down, right) >= still:
        return 0, 0  # something moved, but most of the picture stood still
    return down * size, right * size


def _unlikeness(given_rw: Values, rendered_rw: Values, down: int, right: int) -> float:
    """Return the median difference of two pictures once the second is moved back, tone aside."""
    difference_rw = _overlap(given_rw, down, right) - _overlap(rendered_rw, -down, -right)
    return float(np.median(np.abs(difference_rw - np.median(difference_rw))))
