"""Legal sizes and frame counts of a family, and the nearest legal one to what was asked."""

import math
from dataclasses import dataclass
from fractions import Fraction

from attention import Grid
from vidgen.adjustment import Adjustment
from vidgen.families import Family


@dataclass(frozen=True, slots=True)
class Size:
    """The size that is generated and the size of the file, in pixels."""

    width: int
    height: int
    export_width: int
    export_height: int


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def legal_frames(frames: int, family: Family) -> int:
    """Return the legal frame count nearest to `frames`; a tie goes up."""
    step = family.vae_temporal
    below = max(1, (frames - 1) // step * step + 1)
    above = below + step
    return below if frames - below < above - frames else above


def legal_size(
    width: int, height: int, family: Family, *, even: bool
) -> tuple[Size, list[Adjustment]]:
    """Return the sizes to generate and to write for an asked size.

    The next larger legal size is generated and its centre written, so the file has the size that
    was asked; where the file format needs even sizes (`even`), an odd one loses a row or column.
    """
    found: list[Adjustment] = []
    made: list[int] = []
    written: list[int] = []
    for field, asked, multiple in zip(
        ("width", "height"), (width, height), family.size_multiple, strict=True
    ):
        export = asked - asked % 2 if even else asked
        legal = _up(asked, multiple)
        if export != asked:
            found.append(Adjustment(field, asked, export, "the file format needs even sizes"))
        if legal != asked:
            found.append(
                Adjustment(
                    field,
                    asked,
                    legal,
                    f"{family.name} makes multiples of {multiple}; "
                    f"the file is cropped to the middle {export}",
                )
            )
        made.append(legal)
        written.append(export)
    return Size(made[0], made[1], written[0], written[1]), found


def same_area(source_width: int, source_height: int, area: int, family: Family) -> tuple[int, int]:
    """Return the legal size nearest to a source's shape, with about so many pixels.

    area   wanted, in pixels; up to a quarter more or less is traded for a truer shape
    """
    across, down = family.size_multiple
    shape = source_width / source_height
    best: tuple[float, int, int] | None = None
    for rows in range(1, max(2, int((4 * area / shape) ** 0.5) // down + 2)):
        height = rows * down
        width = max(across, round(height * shape / across) * across)
        size = width * height / area
        misfit = abs(math.log(width / height / shape))
        cost = misfit + 0.05 * abs(math.log(size)) + (0.0 if 0.75 <= size <= 1.25 else 10 + size)
        if best is None or cost < best[0]:
            best = (cost, width, height)
    assert best is not None
    return best[1], best[2]


def frames_for(seconds: float, fps: Fraction, family: Family) -> int:
    """Return the legal frame count nearest to a duration."""
    return legal_frames(max(1, round(Fraction(seconds).limit_denominator(1000) * fps)), family)


def token_grid(size: Size, num_frames: int, family: Family) -> Grid:
    """Return the grid of tokens of a clip."""
    frames, rows, columns = family.patch
    return Grid(
        family.latent_frames(num_frames) // frames,
        size.height // family.vae_spatial // rows,
        size.width // family.vae_spatial // columns,
    )
