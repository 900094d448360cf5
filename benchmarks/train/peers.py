"""Training peers: several single-threaded processes that share one run by averaging gradients.

On a machine shared with others this costs less than one process of two threads, whose teams spin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Peers:
    """This process among its peers; rank 0 logs and saves."""

    rank: int = 0
    count: int = 1

    def join(self, work: Path) -> None:
        """Meet the others through a file in the work folder; every session needs a fresh one."""
        if self.count == 1:
            return
        meeting = work / "peers"
        dist.init_process_group(
            "gloo",
            init_method=meeting.absolute().as_uri(),
            rank=self.rank,
            world_size=self.count,
            timeout=timedelta(minutes=10),
        )

    def average_gradients(self, weights: Iterable[Tensor]) -> None:
        """Replace each gradient by its mean over the peers."""
        if self.count == 1:
            return
        grads = [weight.grad for weight in weights if weight.grad is not None]
        flat = torch.cat([grad.flatten() for grad in grads])
        dist.all_reduce(flat)
        flat /= self.count
        parts = torch.split(flat, [grad.numel() for grad in grads])
        for grad, mean in zip(grads, parts, strict=True):
            grad.copy_(mean.view_as(grad))

    def share_weights(self, weights: Iterable[Tensor]) -> None:
        """Give all peers rank 0's weights."""
        if self.count > 1:
            for weight in weights:
                dist.broadcast(weight.detach(), src=0)

    def follow(self, *values: float) -> list[float]:
        """Rank 0's values, so that all take the same step at the same rate and stop together."""
        if self.count == 1:
            return list(values)
        shared = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(shared, src=0)
        answer: list[float] = shared.tolist()
        return answer

    def leave(self, work: Path) -> None:
        """Part from the others."""
        if self.count > 1:
            dist.destroy_process_group()
            if self.rank == 0:
                (work / "peers").unlink(missing_ok=True)
