"""Selection: for each query block, the list of key blocks it reads."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.layout import block_sizes

# b batch  h heads  q query blocks  k key blocks  s places in a list  n query tokens  m key tokens


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Lists of key blocks.

    blocks_bhqs  int32, ascending, filled up with -1; b and h may be 1 for lists shared by all
    counts_bhq   int32, entries that count, >= 1
    query_block, key_block    tokens per block; only the last block may be shorter
    num_queries, num_keys     tokens, padding included
    key_sizes_k  int32, for padded layouts: the first so many tokens of each block are real, the
                 others are padding that no query reads; None where nothing is padded
    """

    blocks_bhqs: Tensor
    counts_bhq: Tensor
    query_block: int
    key_block: int
    num_queries: int
    num_keys: int
    key_sizes_k: Tensor | None = None

    @property
    def key_blocks(self) -> int:
        """Number of key blocks there are."""
        return -(-self.num_keys // self.key_block)

    def check(self, q_bhnd: Tensor, k_bhmd: Tensor, v_bhmd: Tensor) -> None:
        """Raise AttentionError for tensors that the lists are not for; asks no device."""
        tokens = (q_bhnd.shape[2], k_bhmd.shape[2], v_bhmd.shape[2])
        if tokens != (self.num_queries, self.num_keys, self.num_keys):
            raise AttentionError(
                f"The lists are for {self.num_queries} queries and {self.num_keys} keys, and the "
                f"tensors have {tokens[0]} queries, {tokens[1]} keys and {tokens[2]} values; "
                "select for these tensors."
            )
        lists, heads = self.counts_bhq.shape[:2], q_bhnd.shape[:2]
        if any(have not in (1, need) for have, need in zip(lists, heads, strict=True)):
            raise AttentionError(
                f"There are lists for {lists[0]}x{lists[1]} batches and heads, and queries for "
                f"{heads[0]}x{heads[1]}; lists are for one, or for as many."
            )

    def mask_bhqk(self) -> Tensor:
        """Return which key blocks are read: bool."""
        shape = (*self.counts_bhq.shape, self.key_blocks + 1)
        mask = torch.zeros(shape, dtype=torch.bool, device=self.blocks_bhqs.device)
        # The fill lands in one column too many, which is cut off.
        places = self.blocks_bhqs.long().remainder(self.key_blocks + 1)
        return mask.scatter_(-1, places, True)[..., :-1]

    def sizes_k(self) -> Tensor:
        """Return the number of real tokens of each key block: int64."""
        if self.key_sizes_k is not None:
            return self.key_sizes_k.long()
        return block_sizes(self.num_keys, self.key_block, self.blocks_bhqs.device)

    def real_m(self) -> Tensor:
        """Return which keys are real and not padding: bool."""
        place = torch.arange(self.num_keys, device=self.blocks_bhqs.device)
        return place % self.key_block < self.sizes_k()[place // self.key_block]

    def pairs_bh(self) -> Tensor:
        """Return the number of query-key pairs that are computed: float64, on the device."""
        device = self.counts_bhq.device
        rows_q = block_sizes(self.num_queries, self.query_block, device).to(torch.float64)
        return (self.mask_bhqk().to(torch.float64) @ self.sizes_k().to(torch.float64)) @ rows_q

    def density(self) -> Tensor:
        """Return the share of all query-key pairs that is computed: a float64 scalar."""
        return self.pairs_bh().mean() / (self.num_queries * self.num_keys)


def select_highest(scores_bhqk: Tensor, counts_bhq: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return lists of the highest scores of each row, and their lengths.

    scores_bhqk  float32; equal scores are taken from the left, -inf last
    counts_bhq   int, broadcastable to the rows: how many each row takes, 1..most
    most         the longest list, known without asking the device
    Returns      blocks_bhqs int32, ascending and filled up with -1, and counts_bhq int32
    """
    bits = scores_bhqk.float().contiguous().view(torch.int32)
    # Floats as integers in the same order, then the place below them: no two keys are equal.
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(torch.int64)
    num_blocks = scores_bhqk.shape[-1]
    place = torch.arange(num_blocks - 1, -1, -1, device=scores_bhqk.device)
    keys = (ordered << 24) | place
    found = keys.topk(most, dim=-1, sorted=True).values
    blocks = num_blocks - 1 - (found & 0xFFFFFF)
    counts = counts_bhq.expand(scores_bhqk.shape[:-1]).to(torch.int32)
    taken = torch.arange(most, device=blocks.device) < counts[..., None]
    blocks = torch.where(taken, blocks, num_blocks).sort(dim=-1).values
    return torch.where(blocks < num_blocks, blocks, -1).to(torch.int32), counts.contiguous()


def select_all(num_queries: int, num_keys: int, query_block: int, key_block: int) -> Selection:
    """Return lists that read every key block, one for all heads."""
    num_blocks = -(-num_keys // key_block)
    rows = -(-num_queries // query_block)
    blocks = torch.arange(num_blocks, dtype=torch.int32).expand(1, 1, rows, num_blocks)
    counts = torch.full((1, 1, rows), num_blocks, dtype=torch.int32)
    return Selection(blocks.contiguous(), counts, query_block, key_block, num_queries, num_keys)
