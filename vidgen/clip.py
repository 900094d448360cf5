"""Clip: what a run returns, with the trace of how it was made."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from vidgen.adjustment import Adjustment

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


@dataclass(slots=True)
class Trace:
    """How a clip was made.

    seconds            wall time per stage: encode, condition, denoise, decode
    peak_bytes         peak memory per stage, of the device on a GPU, else of the process
    forwards           transformer calls
    attention_backend  who computed attention; "" if nothing was denoised
    attention_reason   one clause: why that backend
    density            share of key blocks that attention read
    cache_hits         text embeddings that were not computed anew
    vae_tiled          decoded in tiles
    adjustments        deviations found while running, e.g. a decode retried in tiles
    """

    seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    forwards: int = 0
    attention_backend: str = ""
    attention_reason: str = ""
    density: float = 0.0
    cache_hits: int = 0
    vae_tiled: bool = False
    loras: list[dict[str, Any]] = field(default_factory=list)
    adjustments: list[Adjustment] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the trace as JSON-ready data."""
        return {
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "peak_bytes": dict(self.peak_bytes),
            "forwards": self.forwards,
            "attention_backend": self.attention_backend,
            "attention_reason": self.attention_reason,
            "density": self.density,
            "cache_hits": self.cache_hits,
            "vae_tiled": self.vae_tiled,
            "loras": list(self.loras),
            "adjustments": [item.as_dict() for item in self.adjustments],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """Frames and what they came from.

    frames   float32 (frames, rows, columns, 3), sRGB in 0..1, at the size that was generated; None
             when they were streamed to a sink
    latents  float32 (channels, latent frames, rows, columns), as the VAE's normalised latents
    size     (width, height) to write: the centre of the frames
    recipe   everything that made this clip, JSON-ready
    """

    frames: "NDArray[np.float32] | None"
    latents: "torch.Tensor"
    fps: Fraction
    size: tuple[int, int]
    seed: int
    recipe: dict[str, Any]
    trace: Trace
