"""What an arm computes beside dense attention: products counted by torch while they run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.sparse_arms import NUM_STEPS, Arm
from benchmarks.tile_session import session_of
from vidgen.density import Density
from vidgen.sparse import TRAIN_TIMESTEPS


def _attention_flops(q: Any, k: Any, v: Any, *_args: Any, **_kwargs: Any) -> int:
    """Return the products of attention, from the shapes of its inputs."""
    return int(2 * q[0] * q[1] * q[2] * k[2] * (q[3] + v[3]))


def _added_flops(_sum: Any, a: Any, b: Any, *_args: Any, **_kwargs: Any) -> int:
    """Return the products of a product that is added in place."""
    return int(2 * a[0] * a[1] * b[1])


# What torch's counter leaves out: the attention kernel of CPUs, and sums in place.
_UNKNOWN = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    torch.ops.aten.addmm_: _added_flops,
}


def forward_flops(transformer: Any, inputs: Mapping[str, Tensor]) -> float:
    """Return the products of one forward; multiply and add count as two."""
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=_UNKNOWN) as counter:
        transformer(**inputs, return_dict=False)
    return float(counter.get_total_flops())


@dataclass(slots=True)
class Seen:
    """The forwards of a run: noise level of each, and the arguments of the last."""

    levels: list[float]
    inputs: dict[str, Tensor]


@contextmanager
def watched(transformer: Any) -> Iterator[Seen]:
    """Note the forwards of a transformer."""
    seen = Seen([], {})

    def before(_module: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        seen.inputs = {name: x for name, x in kwargs.items() if isinstance(x, Tensor)}
        seen.levels.append(float(seen.inputs["timestep"].max()) / TRAIN_TIMESTEPS)

    handle = transformer.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield seen
    finally:
        handle.remove()


@dataclass(frozen=True, slots=True)
class Work:
    """What the forwards of one run compute with an arm.

    flops      of all forwards, padding, router and proxies included
    attention  self-attention's products over those of the dense run
    saved      share of the dense run's flops that is left out
    """

    flops: float
    attention: float
    saved: float


def works(
    transformer: Any,
    arms: Sequence[Arm],
    levels: Sequence[float],
    inputs: Mapping[str, Tensor],
    dense_attention: float,
) -> dict[str, Work]:
    """Count one dense and one sparse forward of each arm; return what a whole run computes.

    levels           noise levels of a dense run of NUM_STEPS
    inputs           of a forward at a level where the arms are sparse
    dense_attention  self-attention's share of a dense forward's flops, by the model
    """
    dense = forward_flops(transformer, inputs)
    rest = dense - dense_attention
    found = {}
    for arm in arms:
        with session_of(arm).attached(transformer):
            sparse = forward_flops(transformer, inputs)
        each = [dense if arm.plan.is_dense_at(level) else sparse for level in levels]
        flops = sum(each) * arm.num_steps / NUM_STEPS
        forwards = len(each) * arm.num_steps / NUM_STEPS
        found[arm.name] = Work(
            flops=flops,
            attention=(flops - forwards * rest) / (len(levels) * dense_attention),
            saved=1 - flops / (len(levels) * dense),
        )
    return found


def sparse_density(density: Density) -> float | None:
    """Return the share of blocks that sparse layers of sparse forwards read; None without any."""
    possible = density.possible - density.dense
    return (density.blocks - density.dense) / possible if possible else None
