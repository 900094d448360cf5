"""Plain data between planning and estimating: the work a plan means, and its expected cost."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from attention import Grid
from vidgen.errors import BadRequest
from vidgen.models import Configs

Dtype = Literal["float32", "bfloat16", "float16"]
Offload = Literal["none", "model", "group"]
Tiling = Literal["whole", "tiles", "whole_then_tiles"]


def check_word(name: str, value: object, words: Any) -> None:
    """Raise BadRequest unless a value is one of a Literal's words."""
    if value not in get_args(words):
        raise BadRequest(
            f"{name}={value!r} is unknown; use {', '.join(get_args(words))}.", field=name
        )


BYTES: dict[Dtype, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class Interval:
    """A range that the true value is expected in."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The centre of the range."""
        return (self.low + self.high) / 2


@dataclass(frozen=True, slots=True)
class Workload:
    """What one clip makes the device do.

    width, height, num_frames   as generated, in pixels and frames
    grid             tokens of the video, without reference frames
    reference_frames latent frames put before the video's (VACE references)
    forwards         transformer calls over all steps, both guidance branches counted
    text_encodes     prompts to encode, at most 2
    text_length      tokens each prompt is padded to
    vae_encodes      (frames, height, width) of every VAE encode, in pixels
    image_encodes    images that the CLIP tower sees
    token_times      every token has its own timestep, so the time embedding is made per token
    attention_share  self-attention's work as a share of the dense, mean over all forwards
    attention_spread how far it may be off, either way; 0 where it is exact
    """

    configs: Configs
    experts: int
    width: int
    height: int
    num_frames: int
    grid: Grid
    reference_frames: int
    forwards: int
    text_encodes: int
    text_length: int
    vae_encodes: tuple[tuple[int, int, int], ...]
    image_encodes: int
    dtype: Dtype
    vae_dtype: Dtype
    offload: Offload
    vae_tiling: bool
    format: str
    token_times: bool = False
    attention_share: float = 1.0
    attention_spread: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of one transformer forward, reference frames included."""
        return self.grid.tokens + self.reference_frames * self.grid.rows * self.grid.columns

    @property
    def latent_channels(self) -> int:
        """Channels of the latents."""
        return int(self.configs.vae.get("z_dim", 16))

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        """Frames, rows and columns of the latents, without reference frames."""
        vae = self.configs.vae
        spatial = int(vae.get("scale_factor_spatial", 8))
        temporal = int(vae.get("scale_factor_temporal", 4))
        frames = (self.num_frames - 1) // temporal + 1
        return frames, self.height // spatial, self.width // spatial


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one clip is expected to cost.

    tokens         of one transformer forward, exact
    flops          by part: attention, linear, cross_attention, text, image, vae_encode, vae_decode;
                   multiply and add count as two
    weights_bytes  by part: transformer, text_encoder, image_encoder, vae
    seconds        by stage: encode, condition, denoise, decode, total
    device_bytes, host_bytes  peak memory
    disk_bytes     latents and file
    notes          one sentence each: what the figures assume
    """

    tokens: int
    flops: dict[str, float]
    weights_bytes: dict[str, int]
    seconds: dict[str, Interval]
    device_bytes: Interval
    host_bytes: Interval
    disk_bytes: Interval
    bound: Literal["compute", "memory", "transfer", "vae"]
    notes: tuple[str, ...] = ()

    @property
    def total_flops(self) -> float:
        """All parts together."""
        return sum(self.flops.values())
