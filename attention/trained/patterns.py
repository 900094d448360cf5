"""The trained patterns as plain data, and how many key blocks each keeps."""

import math
from dataclasses import dataclass
from typing import Literal

from attention.errors import AttentionError

FeatureMap = Literal["softmax", "elu", "relu"]


@dataclass(frozen=True, slots=True)
class Vsa:
    """Video Sparse Attention: a coarse branch over all cubes, gated, plus the best cubes exactly.

    sparsity  share of key cubes left out, 0..1; checkpoints state theirs (FastWan: 0.8)
    Needs the weights `to_gate_compress` of every layer.
    Source    FastVideo, `attention/backends/video_sparse_attn.py`
    """

    sparsity: float = 0.8

    def __post_init__(self) -> None:
        _check_share("sparsity", self.sparsity)

    def kept(self, num_blocks: int) -> int:
        """Return how many key cubes a query cube reads: rounded up, at least one."""
        return max(1, min(math.ceil((1 - self.sparsity) * num_blocks), num_blocks))


@dataclass(frozen=True, slots=True)
class Sla:
    """Sparse-Linear Attention: the best blocks exactly, plus linear attention over all tokens.

    topk_ratio              share of key blocks read, above 0, at most 1
    query_block, key_block  tokens, in raster order; published inference uses 128 and 64, training
                            64 and 64
    feature_map             what linear attention puts on queries and keys
    Needs the weights `proj_l` of every layer.
    Source    thu-ml/SLA, `sparse_linear_attention/core.py`; TurboDiffusion, `SLA/core.py` and
              `inference/modify_model.py`
    """

    topk_ratio: float = 0.1
    query_block: int = 128
    key_block: int = 64
    feature_map: FeatureMap = "softmax"

    def __post_init__(self) -> None:
        _check_share("topk_ratio", self.topk_ratio)
        if min(self.query_block, self.key_block) < 1:
            raise AttentionError(
                f"Blocks of {self.query_block}x{self.key_block} tokens are empty; use the "
                "checkpoint's own, 128x64 or 64x64.",
                field="attention",
            )

    def kept(self, num_blocks: int) -> int:
        """Return how many key blocks a query block reads: rounded down.

        Raises  AttentionError when that is none
        """
        kept = min(num_blocks, int(self.topk_ratio * num_blocks))
        if kept < 1:
            raise AttentionError(
                f"topk_ratio={self.topk_ratio} of {num_blocks} key blocks keeps none; use at least "
                f"{1 / num_blocks:.3g} or a larger clip.",
                field="attention",
            )
        return kept


@dataclass(frozen=True, slots=True)
class Bsa:
    """Block sparse attention of LongCat-Video: the best tiles of a grid that they divide.

    sparsity       share of key tiles left out, 0..1; None leaves the count to `cdf_threshold`
    tile           frames, rows and columns of a tile
    cdf_threshold  read the tiles that together hold at most this share of the softmax over tiles,
                   but no fewer than `sparsity` keeps
    Source    meituan-longcat/LongCat-Video, `block_sparse_attention/bsa_interface.py` and
              `modules/attention.py`; the defaults are those of FastVideo's LongCat configuration
    """

    sparsity: float | None = 0.9375
    tile: tuple[int, int, int] = (4, 4, 4)
    cdf_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.sparsity is None and self.cdf_threshold is None:
            raise AttentionError(
                "Bsa has neither sparsity nor cdf_threshold; give one of them.", field="attention"
            )
        for name in ("sparsity", "cdf_threshold"):
            if getattr(self, name) is not None:
                _check_share(name, getattr(self, name))
        _check_extents("tile", self.tile)

    @property
    def block(self) -> int:
        """Tokens of a tile."""
        return math.prod(self.tile)

    def kept(self, num_blocks: int) -> int:
        """Return how many key tiles a query tile reads at least: rounded down.

        Raises  AttentionError when that is none and no cdf_threshold adds any
        """
        if self.sparsity is None:
            return 0
        kept = int((1 - self.sparsity) * num_blocks)
        if kept < 1 and self.cdf_threshold is None:
            raise AttentionError(
                f"sparsity={self.sparsity} of {num_blocks} key tiles keeps none; use at most "
                f"{1 - 1 / num_blocks:.3g} or a larger clip.",
                field="attention",
            )
        return kept


@dataclass(frozen=True, slots=True)
class Nabla:
    """NABLA of Kandinsky 5: the likeliest blocks, and those near in space and time.

    threshold  share of the softmax over blocks that is kept, above 0, at most 1
    window     frames, rows and columns in 8x8 blocks around a block that are always read
    A checkpoint's configuration names both: attention_P, attention_wT, attention_wH, attention_wW.
    Source     diffusers, `transformer_kandinsky.py` and `pipeline_kandinsky.py`, whose functions'
               defaults these are
    """

    threshold: float = 0.9
    window: tuple[int, int, int] = (3, 3, 3)

    def __post_init__(self) -> None:
        _check_share("threshold", self.threshold)
        _check_extents("window", self.window)


Trained = Vsa | Sla | Bsa | Nabla


def _check_share(name: str, value: float) -> None:
    lowest = 0 if name == "sparsity" else math.ulp(0)
    if not lowest <= value <= 1:
        raise AttentionError(f"{name}={value} is outside 0..1.", field="attention")


def _check_extents(name: str, value: tuple[int, int, int]) -> None:
    if min(value) < 1:
        raise AttentionError(f"{name}={value} must be at least 1 everywhere.", field="attention")
