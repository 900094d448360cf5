"""How clips hand over to each other, and what holds drift down: declared once, with their texts."""

from typing import Annotated, Literal

from pydantic import Field

from chaining.declared import Declared

StrategyName = Literal["single", "last_frame", "last_latent", "overlap", "keyframes"]
Lock = Literal[
    "off", "pair_affine", "anchor_clip", "reinhard_lab", "reinhard_lab_previous", "mkl",
    "histogram", "lowfreq",
]  # fmt: skip


class Handover(Declared):
    """What a clip takes over from the one before."""

    pick: Literal["last", "sharpest"] = Field(
        default="last",
        description="Frame that last_frame hands over; sharpest is of the last eight.",
    )
    overlap: int = Field(
        default=17, description="Frames that overlap shares between two clips, 4n+1.", ge=1, le=257
    )
    mode: Literal["pin", "noise", "renoise", "blend"] = Field(
        default="pin",
        description="What overlap does with the shared frames: keep them clean, keep them with a "
        "little noise, add each step's noise, or make them anew and mix.",
    )
    noise: float = Field(
        default=0.02, description="Share of noise on the shared frames in mode noise.", ge=0, le=0.5
    )
    latents: int = Field(
        default=1, description="Latent frames that last_latent hands over undecoded.", ge=1, le=16
    )
    join: Literal["cut", "linear", "ease"] = Field(
        default="linear", description="How frames that exist twice become one."
    )
    join_frames: int = Field(
        default=8, description="At most so many frames are mixed.", ge=0, le=257
    )
    bridge_seconds: float = Field(
        default=2.0, description="Length of the clip that a bridge adds.", gt=0, le=30
    )
    through: Literal["float", "mp4"] = Field(
        default="float",
        description="float hands frames over as they were made; mp4 reads them back from an 8-bit "
        "file, as tools that chain files do, to compare with.",
    )
    seeds: Literal["per_clip", "same"] = Field(
        default="per_clip",
        description="Noise of each clip: its own, or the same for all, to compare with.",
    )


class Controls(Declared):
    """What is done against drift."""

    colour_lock: Lock = Field(
        default="pair_affine",
        description="Colour correction of each clip: pair_affine compares frames that exist twice; "
        "the others compare different content and are there to compare with.",
    )
    colour_lock_at: Literal["loop", "output", "handover"] = Field(
        default="loop",
        description="What is corrected: both, the delivered frames, or what is handed over.",
    )
    latent_adain: float = Field(
        default=0.0,
        description="How far latents are pulled to the first clip's statistics.",
        ge=0,
        le=1,
    )
    history_noise: Annotated[float, Field(ge=0, le=0.5)] | Literal["auto"] = Field(
        default=0.0,
        description="Noise on shared frames; auto adds 0.1 once the latents have drifted.",
    )
    best_of_seams: int = Field(
        default=1,
        description="Make each continuing clip so often and keep the best seam.",
        ge=1,
        le=3,
    )
    max_chain: int = Field(
        default=4, description="Clips in a row after which a fresh start is advised.", ge=1, le=1000
    )
    drift_stop: bool = Field(
        default=False, description="Stop after a clip with which the drift meter's verdict is fail."
    )
