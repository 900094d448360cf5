"""Layout: how a clip's tokens are ordered and cut into blocks, and which blocks are neighbours.

Plain data; the tensors that follow from it are made by the functions below, once per run.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from attention.errors import AttentionError, check_whole, check_word
from attention.grid import Grid
from attention.order import SLAB_FRAMES, OrderKind, token_order

# n tokens  q query blocks  k key blocks  3: frame, row, column

OWN, TEXT, NEAR, SINK = 4, 3, 2, 1


@dataclass(frozen=True, slots=True)
class Layout:
    """Tokens of one sequence: a clip's grid in some order, then text tokens (joint models).

    query_block  query rows that share one list of key blocks, >= 1
    key_block    keys that are read or left out together, >= 1
    slab_frames  see `token_order`
    sink_frames  latent frames at the start, in blocks of their own, which come before others
    text_tokens  tokens after the clip's own; they come before those, and their own rows read
                 everything. What comes first still counts within a pattern's density
    Blocks are consecutive and full; only the last may be shorter. Nothing is padded.
    """

    grid: Grid
    query_block: int = 128
    key_block: int = 64
    order: OrderKind = "hilbert"
    slab_frames: int = SLAB_FRAMES
    sink_frames: int = 0
    text_tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("query_block", "key_block", "slab_frames"):
            check_whole(name, getattr(self, name), 1)
        check_whole("text_tokens", self.text_tokens, 0)
        check_word("order", self.order, get_args(OrderKind))
        if not 0 <= self.sink_frames <= self.grid.frames:
            raise AttentionError(
                f"sink_frames={self.sink_frames} is outside 0..{self.grid.frames}, the clip's "
                "latent frames.",
                field="sink_frames",
            )

    @property
    def tokens(self) -> int:
        """Tokens of the sequence, text included."""
        return self.grid.tokens + self.text_tokens

    @property
    def query_blocks(self) -> int:
        """Number of query blocks."""
        return -(-self.tokens // self.query_block)

    @property
    def key_blocks(self) -> int:
        """Number of key blocks."""
        return -(-self.tokens // self.key_block)


def layout_order(layout: Layout) -> Tensor:
    """Return the sequence's order, int64 [n]: the clip's tokens along the curve, text as it is."""
    order_n = token_order(layout.grid, layout.order, layout.slab_frames, layout.sink_frames)
    text_n = torch.arange(layout.grid.tokens, layout.tokens)
    return torch.cat([order_n, text_n])


def block_sizes(num_tokens: int, block: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the number of tokens of each block: int64; all full but perhaps the last."""
    starts = torch.arange(0, num_tokens, block, device=device)
    return (num_tokens - starts).clamp(max=block)


def priorities(layout: Layout, neighbours: int) -> Tensor:
    """Return which key blocks a query block keeps first: int8 [q, k], 0 where the scores decide.

    OWN     the keys at the query block's own tokens
    TEXT    blocks that hold text
    NEAR    up to `neighbours` blocks before and after its own along the curve
    SINK    blocks that hold a sink frame
    """
    query_start = torch.arange(layout.query_blocks) * layout.query_block
    query_end = (query_start + layout.query_block).clamp(max=layout.tokens)
    first = query_start // layout.key_block
    last = (query_end - 1) // layout.key_block
    block = torch.arange(layout.key_blocks)
    found = torch.zeros(layout.query_blocks, layout.key_blocks, dtype=torch.int8)
    sink_tokens = layout.sink_frames * layout.grid.rows * layout.grid.columns
    found[:, block * layout.key_block < sink_tokens] = SINK
    near = (block >= first[:, None] - neighbours) & (block <= last[:, None] + neighbours)
    found[near] = NEAR
    if layout.text_tokens:
        found[:, (block + 1) * layout.key_block > layout.grid.tokens] = TEXT
    found[(block >= first[:, None]) & (block <= last[:, None])] = OWN
    return found


def text_rows(layout: Layout) -> Tensor:
    """Return which query blocks hold text and therefore read every key: bool [q]."""
    block_end = (torch.arange(layout.query_blocks) + 1) * layout.query_block
    return (block_end > layout.grid.tokens) & (layout.text_tokens > 0)


def block_centres(layout: Layout, block: int) -> Tensor:
    """Return the mean place of each block's tokens: float32 [blocks, 3] in latent cells.

    Text has no place and must not be asked for.
    """
    grid = layout.grid
    order_n = token_order(grid, layout.order, layout.slab_frames, layout.sink_frames)
    per_frame = grid.rows * grid.columns
    places_n3 = torch.stack(
        [order_n // per_frame, order_n // grid.columns % grid.rows, order_n % grid.columns], dim=1
    ).float()
    return torch.stack([part.mean(dim=0) for part in torch.split(places_n3, block)])
