"""Dense trajectories of toyworld, and what an arm of sparse attention does at their states."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import WanPipeline
from torch import Tensor

from benchmarks.sparse_arms import Arm
from benchmarks.train.stock import call_options
from vidgen.sparse import LayerPlace, SparseSession


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


def velocity_error(transformer: Any, arm: Arm, state: State) -> float:
    """Return the relative error of an arm's velocity at a state, in the 2-norm."""
    with SparseSession(arm.plan).attached(transformer), torch.no_grad():
        found = transformer(**state.inputs, return_dict=False)[0]
    return float((found - state.velocity).norm() / state.velocity.norm())


def mass_kept(transformer: Any, arm: Arm, state: State) -> float:
    """Return the share of attention on the keys that an arm reads, over all layers and queries.

    The states stay dense, so that every layer is judged by what dense attention gives it.
    """
    session = _MassSession(arm)
    with session.attached(transformer), torch.no_grad():
        transformer(**state.inputs, return_dict=False)
    return float(np.mean(session.kept))


class _MassSession(SparseSession):
    """Computes dense attention and notes how much of it an arm would have read."""

    def __init__(self, arm: Arm) -> None:
        super().__init__(dataclasses.replace(arm.plan, dense_above=1.0, dense_layers=()))
        self.kept: list[float] = []

    def attend(self, q_bnhd: Tensor, k_bnhd: Tensor, v_bnhd: Tensor, layer: LayerPlace) -> Tensor:
        """Return dense attention [b, n, h, d]."""
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        selection = self.selected(q, k, layer)
        weights = ((q * q.shape[-1] ** -0.5) @ k.mT).softmax(dim=-1)
        read = selection.mask_bhqk().repeat_interleave(selection.query_block, dim=2)
        read = read[:, :, : q.shape[2]].repeat_interleave(selection.key_block, dim=3)
        self.kept.append(float((weights * read[..., : k.shape[2]]).sum(dim=-1).mean()))
        out: Tensor = (weights @ v).transpose(1, 2)
        return out
