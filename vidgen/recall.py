"""Measuring recall: how much of each head's attention its best blocks hold, along dense runs."""

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attention import Grid, TopK
from attention.layout import Layout, priorities
from attention.patterns import kept_blocks
from attention.router import block_scores, keep_first
from vidgen.attention_plan import AttentionPlan
from vidgen.budgets import DENSITIES, Recall
from vidgen.errors import BadRequest
from vidgen.sparse import LayerPlace, SparseSession

# b batch  h heads  n tokens  q query blocks  k key blocks  d head dim

SAMPLED_BLOCKS = 8  # query blocks whose rows are looked at, in each layer and forward


class RecallSession(SparseSession):
    """Computes dense attention, and notes what a pattern's own ranking would have kept of it.

    every  forwards between two that are looked at
    """

    def __init__(self, plan: AttentionPlan, every: int = 1) -> None:
        super().__init__(dataclasses.replace(plan, dense_above=1.0, dense_layers=()))
        self._every = every
        self._forwards = 0
        self._sums: dict[tuple[Grid, LayerPlace], Tensor] = {}
        self._counts: dict[tuple[Grid, LayerPlace], int] = {}
        self._grids: set[Grid] = set()

    def begin(self, transformer: Any, hidden: Tensor, timestep: Tensor) -> None:
        """Count the forward."""
        super().begin(transformer, hidden, timestep)
        self._forwards += 1
        self._grids.add(self.layout.grid)

    def attend(self, q_bnhd: Tensor, k_bnhd: Tensor, v_bnhd: Tensor, layer: LayerPlace) -> Tensor:
        """Return dense attention [b, n, h, d]."""
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        if (self._forwards - 1) % self._every == 0:
            layout = self.layout
            key = (layout.grid, layer)
            found = recall_curve(q, k, layout, self.plan.pattern)  # type: ignore[arg-type]
            self._sums[key] = self._sums.get(key, torch.zeros_like(found)) + found
            self._counts[key] = self._counts.get(key, 0) + 1
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)

    def recalls(self, model: str, weights: str) -> list[Recall]:
        """Return what was measured, an entry for each grid that was seen.

        Raises  BadRequest if some self-attention was never looked at
        """
        blocks = self.plan.query_block, self.plan.key_block
        return [
            Recall(model, weights, str(grid), *blocks, DENSITIES, self._kept_on(grid))
            for grid in sorted(self._grids, key=lambda grid: grid.tokens)
        ]

    def looks(self) -> dict[str, int]:
        """Return how many forwards were looked at, by grid."""
        found: dict[str, int] = {}
        for (grid, _), count in self._counts.items():
            found[str(grid)] = max(count, found.get(str(grid), 0))
        return found

    def _kept_on(self, grid: Grid) -> tuple[tuple[tuple[float, ...], ...], ...]:
        seen = [place for place in self._rows if (grid, place) in self._sums]
        if len(seen) < len(self._rows):
            raise BadRequest(
                f"{len(self._rows) - len(seen)} of {len(self._rows)} self-attentions were not "
                f"looked at on {grid} tokens; use a smaller --every, or steps in which every "
                "expert has its turn."
            )
        curves = [(self._sums[grid, at] / self._counts[grid, at]).tolist() for at in seen]
        return tuple(tuple(tuple(round(x, 5) for x in head) for head in row) for row in curves)


def recall_curve(q_bhnd: Tensor, k_bhnd: Tensor, layout: Layout, pattern: TopK) -> Tensor:
    """Return the share of attention on the blocks that rank first, [h, densities].

    Evenly spaced query blocks stand for all.
    """
    scores = block_scores(q_bhnd, k_bhnd, layout, pattern)
    first_kept = priorities(layout, pattern.neighbours).to(scores.device)
    scores = keep_first(scores, first_kept)
    step = max(1, layout.query_blocks // SAMPLED_BLOCKS)
    places = range(step // 2, layout.query_blocks, step)
    curves = []
    for place in places:
        start = place * layout.query_block
        rows = q_bhnd[:, :, start : start + layout.query_block].float()
        weights = (rows * rows.shape[-1] ** -0.5 @ k_bhnd.float().mT).softmax(dim=-1)
        missing = -weights.shape[-1] % layout.key_block
        padded = F.pad(weights.mean(dim=2), (0, missing))
        held = torch.unflatten(padded, -1, (-1, layout.key_block))
        order = scores[:, :, place].argsort(dim=-1, descending=True, stable=True)
        curves.append(held.sum(dim=-1).gather(-1, order).cumsum(dim=-1).mean(dim=0))
    blocks = [kept_blocks(density, layout.key_blocks) - 1 for density in DENSITIES]
    curve: Tensor = torch.stack(curves).mean(dim=0)[:, blocks]
    return curve.clamp(0, 1)
