"""Tiles: boxes of a token grid that are attended as blocks, in the order that checkpoints know.

Tiles follow each other as the grid's own cells do (frames, rows, columns), and so do the tokens
inside a tile. A tile at the grid's far edge may be smaller; padding fills it up to a block.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from attention.grid import Grid
from attention.selection import Selection, select_highest

# b batch  h heads  n tokens  t tiles  q query blocks  k key blocks  d head dim

Tile = tuple[int, int, int]


class Attended(NamedTuple):
    """What attention gave [b, h, n, d], and the blocks that were read exactly."""

    out: Tensor
    selection: Selection


@dataclass(frozen=True, slots=True, eq=False)
class TileLayout:
    """A grid cut into tiles.

    order_n   which raster token stands at each place, tile after tile, without padding: int64
    places_n  where each of those stands when every tile fills a block, real tokens first: int64
    sizes_t   real tokens of each tile: int64
    block     tokens of a full tile
    """

    order_n: Tensor
    places_n: Tensor
    sizes_t: Tensor
    block: int

    def pad(self, x_bhnd: Tensor) -> Tensor:
        """Return tokens in the layout's order as full blocks [b, h, t * block, d], zeros last."""
        if len(self.places_n) == len(self.sizes_t) * self.block:
            return x_bhnd
        length = len(self.sizes_t) * self.block
        padded = x_bhnd.new_zeros(*x_bhnd.shape[:2], length, x_bhnd.shape[3])
        return padded.index_copy_(2, self.places_n, x_bhnd)

    def unpad(self, x_bhnd: Tensor) -> Tensor:
        """Undo `pad`."""
        return x_bhnd.index_select(2, self.places_n)


def tile_layout(grid: Grid, tile: Tile, device: torch.device | str = "cpu") -> TileLayout:
    """Cut a grid into tiles; those at the far edges may be smaller."""
    raster = torch.arange(grid.tokens).view(grid.frames, grid.rows, grid.columns)
    tiles = [
        box.flatten()
        for slab in torch.split(raster, tile[0], dim=0)
        for beam in torch.split(slab, tile[1], dim=1)
        for box in torch.split(beam, tile[2], dim=2)
    ]
    block = math.prod(tile)
    sizes_t = torch.tensor([len(box) for box in tiles])
    places = [torch.arange(len(box)) + index * block for index, box in enumerate(tiles)]
    return TileLayout(
        torch.cat(tiles).to(device), torch.cat(places).to(device), sizes_t.to(device), block
    )


def tile_means(x_bhnd: Tensor, layout: TileLayout) -> Tensor:
    """Return the means over tiles' real tokens [b, h, t, d] of padded tokens, in their dtype.

    Summed in float32 (float64 for float64) and rounded once.
    """
    sums = torch.unflatten(x_bhnd, 2, (-1, layout.block)).sum(dim=3, dtype=wide(x_bhnd.dtype))
    return (sums / layout.sizes_t[:, None]).to(x_bhnd.dtype)


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which sums over many numbers of a dtype are kept."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def highest(scores_bhqk: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Return lists of the `kept` highest scores of each row; of equals, those on the left."""
    counts = torch.full((1, 1, 1), kept, device=scores_bhqk.device)
    return select_highest(scores_bhqk, counts, kept)
