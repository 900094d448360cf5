"""Dense trajectories of toyworld, and what an arm of sparse attention does at their states."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import WanPipeline
from torch import Tensor

from attention import Grid, Selection, TopK, Window, layout_order, select
from attention.trained import select_vsa
from attention.trained.tiles import tile_layout
from benchmarks.sparse_arms import Arm
from benchmarks.tile_session import vsa_of
from benchmarks.train.stock import call_options
from vidgen.attention_plan import AttentionPlan
from vidgen.sparse import LayerPlace, SparseSession

# b batch  h heads  n query tokens  m key tokens  q query blocks  k key blocks  d head dim

ROWS_EVERY = 5  # queries between two whose attention is looked at; prime to the grid's rows


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """One forward of a dense trajectory: its arguments, its noise level and its answer."""

    sigma: float
    inputs: dict[str, Tensor]
    velocity: Tensor


def trajectory(
    pipeline: WanPipeline,
    prompt: str,
    shape: tuple[int, int, int],
    seed: int,
    *,
    num_steps: int,
    num_states: int,
) -> list[State]:
    """Run the stock pipeline and keep evenly spaced forwards of the branch with the prompt."""
    wanted = set(np.linspace(0, num_steps - 1, num_states).round().astype(int).tolist())
    states: list[State] = []
    calls = 0

    def after(_module: Any, _args: Any, kwargs: dict[str, Any], out: Any) -> None:
        nonlocal calls
        step, branch = divmod(calls, 2)
        if branch == 0 and step in wanted:
            inputs = {name: x.clone() for name, x in kwargs.items() if isinstance(x, Tensor)}
            sigma = float(inputs["timestep"].max()) / 1000
            states.append(State(sigma, inputs, out[0].clone()))
        calls += 1

    handle = pipeline.transformer.register_forward_hook(after, with_kwargs=True)
    try:
        pipeline(
            prompt=prompt,
            generator=torch.Generator().manual_seed(seed),
            output_type="latent",
            **call_options(shape, num_steps, guidance=3.0),
        )
    finally:
        handle.remove()
    return states


def velocity_error(transformer: Any, session: SparseSession, state: State) -> float:
    """Return the relative error of a session's velocity at a state, in the 2-norm.

    Where the session is dense its velocity is the state's own, which is not computed again.
    """
    if session.plan.is_dense_at(state.sigma):
        return 0.0
    with session.attached(transformer), torch.no_grad():
        found = transformer(**state.inputs, return_dict=False)[0]
    return float((found - state.velocity).norm() / state.velocity.norm())


def masses_kept(
    transformer: Any, arms: Sequence[Arm], state: State, grid: Grid
) -> dict[str, float]:
    """Return for each arm the share of attention on the keys that it reads, by name.

    It is the mean over the layers in which the arm is sparse, and over evenly spaced queries; arms
    that are dense at this state have none. Every layer gets what dense attention gives it.
    """
    sparse = [arm for arm in arms if not arm.plan.is_dense_at(state.sigma)]
    kept: dict[str, list[float]] = {arm.name: [] for arm in sparse}
    if sparse:
        session = _Recording()
        with session.attached(transformer), torch.no_grad():
            transformer(**state.inputs, return_dict=False)
        for layer, (q, k) in session.products.items():
            rows = slice(None, None, ROWS_EVERY)
            weights = ((q[:, :, rows] * q.shape[-1] ** -0.5) @ k.mT).softmax(dim=-1)
            found: dict[Any, float] = {}
            for arm in sparse:
                if layer in arm.plan.dense_layers:
                    continue
                key = _ranking(arm)
                if key not in found:
                    read = keys_read(q, k, arm, grid, layer, rows)
                    found[key] = float((weights * read).sum(dim=-1).mean())
                kept[arm.name].append(found[key])
    return {name: float(np.mean(shares)) for name, shares in kept.items()}


def _ranking(arm: Arm) -> Any:
    """Return what an arm's selection follows from, so that no two arms compute the same one."""
    pattern = arm.plan.pattern
    if isinstance(pattern, TopK):
        pattern = dataclasses.replace(pattern, compensate="none")
    alike = dataclasses.replace(arm.plan, pattern=pattern, dense_above=1.0, dense_layers=())
    return alike, arm.tile


def keys_read(
    q_bhnd: Tensor, k_bhnd: Tensor, arm: Arm, grid: Grid, layer: int, rows: slice
) -> Tensor:
    """Return which keys an arm reads for some queries: bool [b, h, n, m].

    q_bhnd, k_bhnd  in the grid's raster order, and so is what is returned
    """
    if arm.tile is None:
        layout = arm.plan.layout(grid)
        order_n, places_n = layout_order(layout), torch.arange(grid.tokens)
        pattern = arm.plan.pattern
        assert isinstance(pattern, TopK | Window)
        selection = select(q_bhnd[:, :, order_n], k_bhnd[:, :, order_n], layout, pattern, layer)
    else:
        cubes = tile_layout(grid, arm.tile)
        order_n, places_n = cubes.order_n, cubes.places_n
        q, k = q_bhnd[:, :, order_n], k_bhnd[:, :, order_n]
        selection = select_vsa(q, k, cubes, vsa_of(arm.plan))
    queries_n = _blocks_of(order_n, places_n, selection.query_block)[rows]
    keys_m = _blocks_of(order_n, places_n, selection.key_block)
    return _expanded(selection, queries_n, keys_m)


def _blocks_of(order_n: Tensor, places_n: Tensor, block: int) -> Tensor:
    """Return the block of each raster token."""
    found_n = torch.empty_like(order_n)
    found_n[order_n] = places_n // block
    return found_n


def _expanded(selection: Selection, queries_n: Tensor, keys_m: Tensor) -> Tensor:
    mask_bhqk = selection.mask_bhqk()
    return mask_bhqk.index_select(2, queries_n).index_select(3, keys_m)


class _Recording(SparseSession):
    """Computes dense attention in raster order and keeps every layer's queries and keys."""

    def __init__(self) -> None:
        super().__init__(AttentionPlan(TopK(1.0), "reference", "benchmark", order="raster"))
        self.products: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, q_bnhd: Tensor, k_bnhd: Tensor, v_bnhd: Tensor, layer: LayerPlace) -> Tensor:
        """Return dense attention [b, n, h, d]."""
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        self.products[layer.number] = (q, k)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
