"""Patterns: which keys a query reads. Plain data, without tensors or devices."""

from dataclasses import dataclass
from typing import Literal, get_args

from attention.errors import AttentionError, check_whole, check_word

Compensate = Literal["none", "mean", "mean_var"]
Score = Literal["mean", "subblock", "mass"]


@dataclass(frozen=True, slots=True)
class Dense:
    """Every query reads every key."""


@dataclass(frozen=True, slots=True)
class TopK:
    """Every query block reads the key blocks that score highest for it.

    density       share of key blocks read, 0 < density <= 1; a row reads round(density * blocks),
                  at least one
    neighbours    blocks before and after the own ones along the curve that are read first
    compensate    what stands for the blocks left out: nothing; their mean key and value, weighted
                  by their number of keys; the same with the mass corrected for the keys' variance
    score         mean: product of the block means; subblock: log of the summed exponentials over
                  the means of smaller parts; mass: share of the softmax over those parts' means
    sub_block     tokens of those parts, >= 1
    top_p         if given, a row reads as many blocks as hold this share of the estimated mass, but
                  no less than half and no more than one and a half times its count
    budgets       densities per self-attention and head, instead of one for all; their mean is
                  `density`
    Source        block scores by sub-block means as in SGLang's SubBlock router; one proxy for each
                  block left out as in PISA (arXiv 2602.01077) and Sol-Attn (arXiv 2607.24027);
                  top-p joined with top-k after SpargeAttention2 (arXiv 2602.13515); the mass score,
                  the variance term and their combination are ours
    """

    density: float = 0.125
    neighbours: int = 1
    compensate: Compensate = "mean"
    score: Score = "subblock"
    sub_block: int = 16
    top_p: float | None = None
    budgets: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        _check_density(self.density)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise AttentionError(
                f"top_p={self.top_p} is not above 0 and up to 1; try 0.9.", field="top_p"
            )
        check_whole("neighbours", self.neighbours, 0)
        check_whole("sub_block", self.sub_block, 1)
        check_word("compensate", self.compensate, get_args(Compensate))
        check_word("score", self.score, get_args(Score))
        if self.budgets is not None and not self.budgets:
            raise AttentionError("The budgets hold no layer; leave them out.", field="budgets")
        for density in (density for row in self.budgets or () for density in row):
            _check_density(density)

    def layer_densities(self, layer: int, heads: int) -> tuple[float, ...]:
        """Return the density of each head of a layer.

        Raises  AttentionError when the budgets are another model's
        """
        if self.budgets is None:
            return (self.density,) * heads
        if layer >= len(self.budgets) or len(self.budgets[layer]) != heads:
            raise AttentionError(
                f"The budgets hold {len(self.budgets)} layers of {len(self.budgets[0])} heads, "
                f"layer {layer} has {heads} heads; use this model's own budgets.",
                field="budgets",
            )
        return self.budgets[layer]


@dataclass(frozen=True, slots=True)
class Window:
    """Every query block reads the key blocks nearest to it in space and time, whatever they hold.

    density      share of key blocks read, 0 < density <= 1
    frame_cells  how many cells of a picture one latent frame is away from the next, > 0
    """

    density: float = 0.125
    frame_cells: float = 1.0

    def __post_init__(self) -> None:
        _check_density(self.density)
        if not self.frame_cells > 0:
            raise AttentionError(f"frame_cells={self.frame_cells} must be above 0.")


def _check_density(density: float) -> None:
    if not 0 < density <= 1:
        raise AttentionError(
            f"density={density} is not above 0 and up to 1; 0.125 reads one key block in eight.",
            field="density",
        )


def kept_blocks(density: float, num_blocks: int) -> int:
    """Return how many of a row's blocks a density keeps: at least one, halves rounded up."""
    return min(num_blocks, max(1, int(density * num_blocks + 0.5)))
