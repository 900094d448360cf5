"""The seam to a model: any trained pattern, made ready for a grid, then called in every layer.

`prepare` is called once per grid; the tokens and the rotary tables are brought into its `order_n`
once per forward; `attend_trained` is called in every layer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from attention.errors import AttentionError
from attention.executors import Executor
from attention.grid import Grid
from attention.trained.bsa import IMAGE_BLOCK, attend_bsa, bsa_order
from attention.trained.nabla import attend_nabla, nabla_near, nabla_order
from attention.trained.patterns import Bsa, Nabla, Sla, Trained, Vsa
from attention.trained.sla import attend_sla
from attention.trained.tiles import Attended, TileLayout
from attention.trained.vsa import attend_vsa, vsa_layout
from attention.trained.weights import extra_weights

# b batch  n tokens  h heads  d head dim  c channels


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A pattern on one grid.

    order_n   which raster token stands at each place: int64, a permutation without padding
    pairs     pairs of a query block and a key block
    layout    of VSA only
    near_qk   of NABLA only
    """

    pattern: Trained
    grid: Grid
    order_n: Tensor
    pairs: int
    layout: TileLayout | None = None
    near_qk: Tensor | None = None


def prepare(pattern: Trained, grid: Grid, device: torch.device | str = "cpu") -> Prepared:
    """Make a pattern ready for a grid.

    Raises  AttentionError where the published attention refuses the grid
    """
    if isinstance(pattern, Vsa):
        layout = vsa_layout(grid, device)
        return Prepared(pattern, grid, layout.order_n, len(layout.sizes_t) ** 2, layout=layout)
    if isinstance(pattern, Nabla):
        order_n, near = nabla_order(grid).to(device), nabla_near(pattern, grid, device)
        return Prepared(pattern, grid, order_n, near.numel(), near_qk=near)
    if isinstance(pattern, Bsa):
        block = IMAGE_BLOCK if grid.frames == 1 else pattern.block
        pairs = (-(-grid.tokens // block)) ** 2
        return Prepared(pattern, grid, bsa_order(pattern, grid).to(device), pairs)
    pairs = -(-grid.tokens // pattern.query_block) * -(-grid.tokens // pattern.key_block)
    return Prepared(pattern, grid, torch.arange(grid.tokens, device=device), pairs)


def attend_trained(
    prepared: Prepared,
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    v_bhnd: Tensor,
    hidden_bnc: Tensor,
    weights: Mapping[str, Tensor],
    execute: Executor,
) -> Attended:
    """Return one layer's self-attention.

    q, k, v     in the pattern's order, after the rotary embedding
    hidden_bnc  what q, k and v were projected from, in the same order
    weights     the layer's, by their names in `extra_weights`; empty where there are none
    Raises      AttentionError without them
    """
    pattern = prepared.pattern
    missing = [name for name in extra_weights(pattern) if name not in weights]
    if missing:
        raise AttentionError(
            f"attention={type(pattern).__name__.lower()} was not given {missing[0]} of a layer; "
            "use a checkpoint trained with it, or attention=dense.",
            field="attention",
        )
    if isinstance(pattern, Vsa):
        assert prepared.layout is not None
        weight, bias = (weights[f"to_gate_compress.{part}"] for part in ("weight", "bias"))
        gate = F.linear(hidden_bnc, weight.to(hidden_bnc), bias.to(hidden_bnc))
        gate_bhnd = torch.unflatten(gate, 2, (q_bhnd.shape[1], -1)).transpose(1, 2)
        return attend_vsa(q_bhnd, k_bhnd, v_bhnd, gate_bhnd, prepared.layout, pattern, execute)
    if isinstance(pattern, Sla):
        weight, bias = (weights[f"proj_l.{part}"].to(q_bhnd) for part in ("weight", "bias"))
        return attend_sla(q_bhnd, k_bhnd, v_bhnd, weight, bias, pattern, execute)
    if isinstance(pattern, Bsa):
        return attend_bsa(q_bhnd, k_bhnd, v_bhnd, prepared.grid, pattern, execute)
    assert prepared.near_qk is not None
    return attend_nabla(q_bhnd, k_bhnd, v_bhnd, prepared.near_qk, pattern, execute)
