"""TileSession: Video Sparse Attention's selection on weights that were not trained for it.

Queries and keys are cut into cubes of the token grid, filled up with zeros at the far edges; the
products of the cubes' means rank them; a cube of queries reads the best cubes of keys exactly and
nothing of the others. Of VSA's method the trained gate and its coarse branch are left out.
"""

import dataclasses

import torch
from torch import Tensor

from attention import Grid, Vsa, inverse_order
from attention.trained import Prepared, TileLayout, select_vsa
from attention.trained.tiles import Tile, tile_layout
from benchmarks.sparse_arms import Arm
from vidgen.attention_plan import AttentionPlan
from vidgen.sparse import LayerPlace, SparseSession, _Places

# b batch  n tokens  h heads  d head dim  c channels


class TileSession(SparseSession):
    """A session whose blocks are cubes of any size, padding included in what it computes."""

    def __init__(self, plan: AttentionPlan, tile: Tile) -> None:
        super().__init__(plan)
        self._tile = tile

    def attend_trained(
        self,
        q_bnhd: Tensor,
        k_bnhd: Tensor,
        v_bnhd: Tensor,
        hidden_bnc: Tensor,  # noqa: ARG002  VSA's gate reads it
        layer: LayerPlace,  # noqa: ARG002
    ) -> Tensor:
        """Return attention [b, n, h, d] over the selected cubes."""
        assert self._execute is not None
        assert self._places is not None
        assert self._places.prepared is not None
        cubes = self._places.prepared.layout
        assert cubes is not None
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        selection = select_vsa(q, k, cubes, vsa_of(self.plan))
        out = self._execute(cubes.pad(q), cubes.pad(k), cubes.pad(v), selection)
        self.density.add(selection, self._places.pairs * q.shape[0] * q.shape[1])
        return cubes.unpad(out).transpose(1, 2)

    def _placed(self, grid: Grid, head_dim: int, device: torch.device) -> _Places:
        key = (grid, device)
        if key not in self._layouts:
            places = super()._placed(grid, head_dim, device)
            cubes: TileLayout = tile_layout(grid, self._tile, device)
            order_n, pairs = cubes.order_n, len(cubes.sizes_t) ** 2
            prepared = Prepared(vsa_of(self.plan), grid, order_n, pairs, layout=cubes)
            self._layouts[key] = dataclasses.replace(
                places, order_n=order_n, inverse_n=inverse_order(order_n), prepared=prepared
            )
        return self._layouts[key]


def vsa_of(plan: AttentionPlan) -> Vsa:
    """Return the pattern of a tile arm."""
    assert isinstance(plan.pattern, Vsa)
    return plan.pattern


def session_of(arm: Arm) -> SparseSession:
    """Return the session that carries an arm out."""
    return SparseSession(arm.plan) if arm.tile is None else TileSession(arm.plan, arm.tile)
