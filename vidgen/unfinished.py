"""Unfinished runs: where a denoising loop stood when it was stopped, kept so that it can go on.

Between two steps a run is its latents and what its scheduler remembers of earlier steps. Taken up
again it gives the same bits as a run that was never stopped.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vidgen.errors import BadMedia, BadRequest
from vidgen.latents import latents_hash, read_tensors, write_tensors
from vidgen.recipe import parse_recipe

if TYPE_CHECKING:
    from vidgen.plan import Plan

# What diffusers' Euler and UniPC schedulers remember between two steps.
_REMEMBERED = (
    "_step_index",
    "model_outputs",
    "timestep_list",
    "lower_order_nums",
    "last_sample",
    "this_order",
)

# What of a plan has no part in the bits that a run computes.
_BESIDE = frozenset(
    ("request", "seeds", "seed", "estimate", "notes", "adjustments", "attention_reason", "fidelity")
)


@dataclass(frozen=True, slots=True, eq=False)
class Unfinished:
    """A run between two steps.

    step       steps that are done, >= 1
    latents    (1, channels, latent frames, rows, columns), reference frames included
    memory     the scheduler's, by its own names: numbers, tensors and lists of tensors
    recipe     of the run, so far as it is known
    """

    step: int
    latents: Tensor
    memory: dict[str, Any]
    recipe: dict[str, Any] = field(default_factory=dict)

    def check(self, plan: "Plan", index: int, weights: str) -> None:
        """Raise BadRequest unless this is of the very run that a plan means."""
        made, now = self.recipe["plan"], plan.as_dict()
        names = sorted({*made, *now} - _BESIDE)
        changed = [name for name in names if _plain(made.get(name)) != _plain(now.get(name))]
        if made["seed"] != plan.seeds[index]:
            changed.append("seed")
        if self.recipe["request"]["prompt"] != plan.request.prompt:
            changed.append("prompt")
        if self.recipe["weights"] != weights:
            changed.append("weights")
        if changed:
            raise BadRequest(
                f"The unfinished run cannot go on: {', '.join(changed)} changed since it was "
                "stopped; make the clip anew.",
                field=changed[0],
            )


def _plain(value: Any) -> Any:
    """Bring tuples and lists to one form, as JSON has done with what was read from a file."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def remember(scheduler: Any, latents: Tensor, step: int) -> Unfinished:
    """Return a run as it stands after a step; the tensors are shared, the lists are copies."""
    memory = {}
    for name in _REMEMBERED:
        if hasattr(scheduler, name):
            value = getattr(scheduler, name)
            memory[name] = list(value) if isinstance(value, list) else value
    return Unfinished(step, latents, memory)


def take_up(pipe: Any, unfinished: Unfinished, device: torch.device) -> None:
    """Have a new pipeline's loop begin after the steps that are done.

    The loop asks its pipeline before every step whether to pass it over (`interrupt`).
    """
    scheduler, stock = pipe.scheduler, pipe.scheduler.set_timesteps

    def set_timesteps(*args: Any, **kwargs: Any) -> None:
        stock(*args, **kwargs)
        for name, value in unfinished.memory.items():
            moved = [_moved(item, device) for item in value] if isinstance(value, list) else None
            setattr(scheduler, name, _moved(value, device) if moved is None else moved)

    done = iter(range(unfinished.step))
    passing = property(lambda _: next(done, None) is not None)
    pipe.__class__ = type(type(pipe).__name__, (type(pipe),), {"interrupt": passing})
    scheduler.set_timesteps = set_timesteps


def _moved(value: Any, device: torch.device) -> Any:
    return value.to(device) if isinstance(value, Tensor) else value


def save_unfinished(path: Path, unfinished: Unfinished, recipe: dict[str, Any]) -> None:
    """Write an unfinished run as one safetensors file, whole or not at all."""
    tensors = {"latents": unfinished.latents}
    numbers: dict[str, Any] = {}
    for name, value in unfinished.memory.items():
        items = value if isinstance(value, list) else [value]
        kept = [isinstance(item, Tensor) for item in items]
        tensors |= {f"{name}.{i}": item for i, item in enumerate(items) if kept[i]}
        plain = [None if kept[i] else item for i, item in enumerate(items)]
        numbers[name] = plain if isinstance(value, list) else plain[0]
    state = {"step": unfinished.step, "of": recipe["plan"]["steps"], "memory": numbers}
    full = {**recipe, "latents_sha256": latents_hash(unfinished.latents), "unfinished": state}
    write_tensors(path, tensors, full)


def load_unfinished(path: Path) -> Unfinished:
    """Read what `save_unfinished` wrote.

    Raises  NotFound, BadMedia
    """
    tensors, metadata = read_tensors(path)
    recipe = parse_recipe(metadata.get("vidgen"), str(path))
    try:
        state, latents = recipe["unfinished"], tensors.pop("latents")
        memory = {name: _joined(name, value, tensors) for name, value in state["memory"].items()}
        found = Unfinished(state["step"], latents, memory, recipe)
        sound = set(memory) <= set(_REMEMBERED) and 1 <= found.step < state["of"]
        if sound and latents_hash(latents) == recipe["latents_sha256"]:
            return found
    except (KeyError, TypeError, AttributeError):
        pass
    raise BadMedia(f"{path} is not a whole unfinished run; make the clip anew.")


def _joined(name: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [tensors.get(f"{name}.{i}", item) for i, item in enumerate(value)]
    return tensors.get(f"{name}.0", value)
