"""Optimisers and averaging for training: Muon for matrices, an exponential average of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn

# Coefficients of the quintic Newton-Schulz iteration of Jordan et al. 2024 (Muon).
_QUINTIC = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalised; weights of more than two axes are flattened.

    The update's RMS is 0.2 x lr, so that learning rates compare with AdamW's.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(list(params), {"lr": lr, "momentum": momentum})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all parameters; matrices of one shape are orthogonalised together."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape.setdefault(tuple(weight.shape), []).append(weight)
            for weights in by_shape.values():
                self._step_same_shape(weights, group["lr"], group["momentum"])
        return None

    def _step_same_shape(self, weights: list[Tensor], lr: float, momentum: float) -> None:
        directions = []
        for weight in weights:
            assert weight.grad is not None
            state = self.state[weight]
            if "buffer" not in state:
                state["buffer"] = torch.zeros_like(weight)
            buffer = state["buffer"].lerp_(weight.grad, 1 - momentum)
            directions.append(weight.grad.lerp(buffer, momentum).flatten(1))
        updates = orthogonalise(torch.stack(directions))
        size = 0.2 * max(updates.shape[1:]) ** 0.5
        for weight, update in zip(weights, updates, strict=True):
            weight.add_(update.view_as(weight), alpha=-lr * size)


def orthogonalise(matrices_nrc: Tensor, num_iterations: int = 5) -> Tensor:
    """Push the singular values of each matrix towards 1."""
    tall = matrices_nrc.shape[1] > matrices_nrc.shape[2]
    x = matrices_nrc.mT if tall else matrices_nrc
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(num_iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    result: Tensor = x.mT if tall else x
    return result


class Average:
    """Exponential moving average of a module's parameters.

    decay       its ceiling; early on the average is shorter, about a tenth of the steps so far
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.num_updates = 0
        self._live = list(module.parameters())
        self._names = [name for name, _ in module.named_parameters()]
        self._mean = [weight.detach().clone() for weight in self._live]

    @torch.no_grad()
    def update(self) -> None:
        """Take the current weights into the average."""
        self.num_updates += 1
        decay = min(self.decay, (1 + self.num_updates) / (10 + self.num_updates))
        torch._foreach_lerp_(self._mean, [w.detach() for w in self._live], 1 - decay)

    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by parameter name."""
        return dict(zip(self._names, self._mean, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs."""
        return {"num_updates": self.num_updates, "mean": self._mean}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an average saved by `state_dict`."""
        self.num_updates = state["num_updates"]
        for mean, saved in zip(self._mean, state["mean"], strict=True):
            mean.copy_(saved)
