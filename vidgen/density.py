"""Density: the share of attention that a run computed, counted while it runs."""

from dataclasses import dataclass, field

from torch import Tensor

from attention import Selection


@dataclass(slots=True)
class Density:
    """How much of attention was computed.

    possible   pairs of a query block and a key block that there were, over batch and heads
    dense      of them, those of layers that read everything
    """

    possible: int = 0
    dense: int = 0
    # Pairs that sparse layers read, summed on the device; only who asks for it waits.
    _read: Tensor | None = field(default=None, init=False)

    def add_dense(self, pairs: int) -> None:
        """Count a layer that read everything; pairs of blocks, over batch and heads."""
        self.possible += pairs
        self.dense += pairs

    def add(self, selection: Selection, pairs: int) -> None:
        """Count a layer that read the selected blocks of `pairs` there are."""
        self.possible += pairs
        rows = selection.counts_bhq.numel()
        read = selection.counts_bhq.sum() * (pairs // selection.key_blocks // rows)
        self._read = read if self._read is None else self._read + read

    @property
    def blocks(self) -> int:
        """Pairs of a query block and a key block that were computed; waits for the device."""
        return self.dense + (0 if self._read is None else int(self._read))

    @property
    def share(self) -> float:
        """The same as a share of all pairs; 1 if nothing ran."""
        return self.blocks / self.possible if self.possible else 1.0
