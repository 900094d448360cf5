"""VideoRequest: everything a user can ask for one clip, declared once.

The command line, the HTTP body, the studio's widgets, the README table and the recipe inside a
file all derive from the fields below; defaults, ranges and help texts stand nowhere else. It does
not decide anything: an omitted field is None here and becomes a value in `plan`.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import (
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from vidgen.request_names import canonical, explain
from vidgen.request_values import Duration, Layers, LoraSpec, Rate, Untrusted, Words


def option(
    default: Any = ...,
    *,
    text: str,
    group: str,
    aliases: tuple[str, ...] = (),
    **bounds: Any,
) -> Any:
    """Declare one field.

    text     the help text, one sentence
    group    heading under which forms and help show it
    aliases  other names accepted on input; the canonical name is echoed
    bounds   pydantic's ge, gt, le, lt, min_length, max_length
    """
    extra: dict[str, JsonValue] = {"group": group, "aliases": list(aliases)}
    return Field(default, description=text, json_schema_extra=extra, **bounds)


class VideoRequest(Untrusted):
    """What a user asks for. Omitted fields take the model's own recipe."""

    model: str = option(
        "toyworld",
        text="Model: a known name, a local folder in diffusers format, or a hub id.",
        group="model",
        min_length=1,
    )
    prompt: Words = option(
        text="What the clip shows.", group="prompt", min_length=1, max_length=8192
    )
    negative_prompt: str | None = option(
        None,
        text="What the clip must not show; the model's own when omitted.",
        group="prompt",
        aliases=("n_prompt", "neg", "negative"),
        max_length=8192,
    )
    preset: Literal["exact"] = option(
        "exact",
        text="Bundle of optimisations: exact changes nothing in the model's arithmetic.",
        group="model",
        aliases=("performance_mode",),
    )

    image: str | None = option(
        None,
        text="First frame: a file or a data URL.",
        group="inputs",
        aliases=("image_path", "input_reference", "image_start"),
    )
    last_image: str | None = option(
        None,
        text="Last frame: a file or a data URL.",
        group="inputs",
        aliases=("last_frame", "image_end", "last_frame_path"),
    )
    video: str | None = option(
        None,
        text="Video to change (strength), to control by (VACE) or to continue (prefix_frames).",
        group="inputs",
        aliases=("video_path",),
    )
    prefix_frames: int | None = option(
        None,
        text="Start the clip with this many last frames of the video, kept as they are.",
        group="inputs",
        aliases=("overlap_frames",),
        ge=1,
        le=1000,
    )
    history: Literal["pin", "renoise"] | None = option(
        None,
        text="How given frames at the start enter: pin = kept as they are, renoise = noised to "
        "each step's level, so that the model may depart from them.",
        group="inputs",
    )
    history_noise: float | None = option(
        None,
        text="Noise level at which given frames at the start are shown to the model, which is "
        "told of it; clean when omitted.",
        group="inputs",
        ge=0,
        le=0.5,
    )
    mask: str | None = option(
        None,
        text="Mask video or image for VACE: white is made anew, black is kept.",
        group="inputs",
    )
    reference_images: tuple[str, ...] = option(
        (), text="Pictures of things that shall appear (VACE).", group="inputs", max_length=8
    )
    strength: float | None = option(
        None,
        text="How much of the given video may change: near 0 little, 1 everything.",
        group="inputs",
        aliases=("denoising_strength",),
        gt=0,
        le=1,
    )
    conditioning_scale: float | None = option(
        None, text="Weight of the control video (VACE).", group="inputs", ge=0, le=4
    )
    fit: Literal["crop", "letterbox", "stretch", "adaptive"] | None = option(
        None,
        text="How an input is brought to the clip's size; adaptive keeps the input's shape.",
        group="inputs",
        aliases=("resize_mode",),
    )
    alpha_background: str = option(
        "#ffffff",
        text="Colour behind transparent pixels of an input, as #rrggbb.",
        group="inputs",
        pattern=r"^#[0-9a-fA-F]{6}$",
    )

    width: int | None = option(None, text="Width in pixels.", group="size", ge=16, le=8192)
    height: int | None = option(None, text="Height in pixels.", group="size", ge=16, le=8192)
    aspect: str | None = option(
        None,
        text="Shape, e.g. 16:9, at the model's own number of pixels.",
        group="size",
        aliases=("aspect_ratio",),
        pattern=r"^[1-9]\d{0,3}[:/][1-9]\d{0,3}$",
    )
    num_frames: int | None = option(
        None,
        text="Number of frames.",
        group="size",
        aliases=("frames", "video_length", "target_video_length", "frame_num"),
        ge=1,
        le=4000,
    )
    seconds: Duration | None = option(
        None, text="Length in seconds, instead of num_frames.", group="size", gt=0, le=600
    )
    fps: Rate | None = option(
        None,
        text="Frames per second of the file; 24000/1001 is understood.",
        group="size",
        aliases=("target_fps", "force_fps", "frame_rate"),
    )

    num_inference_steps: int | None = option(
        None,
        text="Denoising steps.",
        group="sampling",
        aliases=("steps", "infer_steps", "sample_steps", "sampling_steps"),
        ge=1,
        le=200,
    )
    guidance_scale: float | None = option(
        None,
        text="How closely the prompt is followed; 1 switches guidance off.",
        group="sampling",
        aliases=("cfg", "cfg_scale", "gs"),
        ge=0,
        le=50,
    )
    guidance_scale_2: float | None = option(
        None,
        text="Guidance of the low-noise expert of a two-expert model.",
        group="sampling",
        aliases=("cfg2", "cfg_scale_2"),
        ge=0,
        le=50,
    )
    flow_shift: float | None = option(
        None,
        text="Shift of the noise schedule; larger spends more steps on high noise.",
        group="sampling",
        aliases=("shift", "sample_shift"),
        gt=0,
        le=50,
    )
    boundary_ratio: float | None = option(
        None,
        text="Noise level at which the second expert takes over.",
        group="sampling",
        aliases=("switch_DiT_boundary",),
        ge=0,
        le=1,
    )
    scheduler: Literal["unipc", "euler"] | None = option(
        None, text="Sampler.", group="sampling", aliases=("sampler",)
    )
    seed: int | None = option(
        None,
        text="Seed; drawn and reported when omitted or -1.",
        group="sampling",
        aliases=("base_seed",),
        ge=0,
        le=2**63 - 1,
    )
    n: int = option(
        1,
        text="Number of clips; clip i has seed + i.",
        group="sampling",
        aliases=("count", "num_videos", "repeat_generation", "number_of_videos"),
        ge=1,
        le=64,
    )
    loras: tuple[LoraSpec, ...] = option(
        (),
        text="LoRAs as path:weight or path:weight:high|low.",
        group="model",
        aliases=("lora", "activated_loras"),
        max_length=16,
    )

    attention: Literal["dense", "topk", "window", "vsa", "sla"] | None = option(
        None,
        text="Which keys attention reads: all; the key blocks that score highest; the nearest; as "
        "a checkpoint was trained (vsa, sla). When omitted, as it was trained, else all.",
        group="attention",
    )
    attention_backend: Literal[
        "auto", "reference", "cpu", "triton", "flex", "sdpa", "flash", "sage"
    ] = option(
        "auto", text="Who computes attention.", group="attention", aliases=("override_attention",)
    )
    density: float | None = option(
        None,
        text="Share of the key blocks that sparse attention reads; 0.125 is one in eight.",
        group="attention",
        gt=0,
        le=1,
    )
    dense_steps: float | None = option(
        None,
        text="Share of the noise schedule, from pure noise on, that stays dense.",
        group="attention",
        ge=0,
        le=1,
    )
    dense_layers: Layers | None = option(
        None, text="Layers that stay dense, e.g. 0,1; none for none.", group="attention"
    )
    compensate: Literal["none", "mean", "mean_var"] | None = option(
        None,
        text="What stands for key blocks that are left out: nothing, their mean, or their mean "
        "corrected for spread.",
        group="attention",
    )
    budgets: str = option(
        "auto",
        text="Densities per head: own = the budgets in the model's folder, uniform, a file made by "
        "`vidgen budgets`; auto = own where there are some and they are known to pay.",
        group="attention",
        min_length=1,
    )
    top_p: float | None = option(
        None,
        text="Read as many blocks as hold this share of the estimated attention, within half and "
        "one and a half times the density.",
        group="attention",
        gt=0,
        le=1,
    )
    sink_frames: int | None = option(
        None,
        text="Latent frames at the start whose blocks come before others, within the density.",
        group="attention",
        ge=0,
        le=1000,
    )
    min_tokens: int | None = option(
        None, text="Clips of fewer tokens stay dense.", group="attention", ge=0
    )
    query_block: int | None = option(
        None, text="Query tokens that share one choice of keys.", group="attention", ge=1, le=1024
    )
    key_block: int | None = option(
        None,
        text="Key tokens that are read or left out together.",
        group="attention",
        ge=1,
        le=1024,
    )

    dtype: Literal["auto", "float32", "bfloat16", "float16"] = option(
        "auto", text="Number format of the transformer's weights.", group="memory"
    )
    offload: Literal["auto", "none", "model", "group"] = option(
        "auto",
        text="Where weights wait: none = all on the device, model = one part at a time, "
        "group = block by block.",
        group="memory",
    )
    vae_tiling: Literal["auto", "on", "off"] = option(
        "auto", text="Decode in spatial tiles; changes pixels at the seams.", group="memory"
    )

    format: Literal["mp4", "mp4-10", "master", "prores", "png", "webm", "gif"] = option(
        "mp4", text="File format.", group="output"
    )
    crf: int | None = option(
        None, text="Quality of the encoder, lower is better.", group="output", ge=0, le=63
    )
    keep_latents: Literal["auto", "always", "never"] = option(
        "auto",
        text="Keep the final latents: auto drops them once the file is written.",
        group="output",
    )
    preview: Literal["latent", "off"] = option(
        "latent", text="Cheap picture of each step, made from the latents.", group="output"
    )
    strict: bool = option(False, text="Treat every adjustment as an error.", group="output")

    @model_validator(mode="before")
    @classmethod
    def _canonical(cls, value: Any) -> Any:
        return canonical_names(value) if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.aspect is not None and (self.width is not None or self.height is not None):
            raise ValueError("aspect and width/height both set the shape; give one of them")
        if self.num_frames is not None and self.seconds is not None:
            raise ValueError("num_frames and seconds both set the length; give one of them")
        if self.prefix_frames is not None and self.video is None:
            raise ValueError("prefix_frames needs the video whose last frames it takes")
        if self.prefix_frames is not None and self.image is not None:
            raise ValueError("prefix_frames and image both set the clip's start; give one of them")
        if self.history == "renoise" and self.history_noise:
            raise ValueError("history=renoise sets its own noise; leave history_noise out")
        if self.mask is not None and self.video is None:
            raise ValueError("mask needs the video that it covers")
        if self.strength is not None and self.video is None:
            raise ValueError("strength needs the video that it changes")
        return self

    def given(self) -> dict[str, Any]:
        """Return the fields that were given, JSON-ready, under their canonical names."""
        return self.model_dump(mode="json", exclude_unset=True)


def fields() -> dict[str, FieldInfo]:
    """Return every field of a request by its canonical name."""
    return VideoRequest.model_fields


def aliases_of(info: FieldInfo) -> tuple[str, ...]:
    """Return the other names under which a field is accepted."""
    extra = info.json_schema_extra
    assert isinstance(extra, dict)
    return tuple(str(name) for name in extra["aliases"])  # type: ignore[union-attr]


def group_of(info: FieldInfo) -> str:
    """Return the heading of a field in forms and help."""
    extra = info.json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["group"])


def canonical_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Translate aliases and shorthands to canonical fields, as `request_names.canonical` says.

    Raises  ValueError
    """
    known = {word: name for name, info in fields().items() for word in (name, *aliases_of(info))}
    return canonical(data, known)


def parse_request(data: Mapping[str, Any]) -> VideoRequest:
    """Make a request of untrusted data.

    Raises  BadRequest, one sentence that names each field at fault, its value and its bound
    """
    try:
        return VideoRequest.model_validate(dict(data))
    except ValidationError as error:
        raise explain(error) from None
