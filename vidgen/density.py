"""Density: the share of attention that a run computed, counted while it runs."""

from dataclasses import dataclass, field

from torch import Tensor

from attention import Selection


@dataclass(slots=True)
class Density:
    """How much of attention was computed, counted on the device and read once."""

    possible: int = 0
    dense: int = 0
    counted: list[Tensor] = field(default_factory=list)

    def add_dense(self, pairs: int) -> None:
        """Count a layer that read everything; pairs of blocks, over batch and heads."""
        self.possible += pairs
        self.dense += pairs

    def add(self, selection: Selection, pairs: int) -> None:
        """Count a layer that read the selected blocks of `pairs` there are."""
        self.possible += pairs
        rows = selection.counts_bhq.numel()
        self.counted.append(selection.counts_bhq.sum() * (pairs // selection.key_blocks // rows))

    @property
    def blocks(self) -> int:
        """Pairs of a query block and a key block that were computed."""
        return self.dense + int(sum(int(count) for count in self.counted))

    @property
    def share(self) -> float:
        """The same as a share of all pairs; 1 if nothing ran."""
        return self.blocks / self.possible if self.possible else 1.0
