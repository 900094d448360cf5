"""VideoRequest: everything a user can ask for one clip, declared once.

The command line, the HTTP body, the studio's widgets, the README table and the recipe inside a
file all derive from the fields below; defaults, ranges and help texts stand nowhere else. It does
not decide anything: an omitted field is None here and becomes a value in `plan`.
"""

import difflib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from vidgen.errors import BadRequest


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


def _fraction(value: Any) -> Any:
    """Read a frame rate: 16, 12.5, "25/2", "24000/1001"."""
    if value is None or isinstance(value, Fraction):
        return value
    text = str(value).strip()
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9}|/0*[1-9]\d{0,5})?", text):
        raise ValueError("not a rate; write 16, 12.5 or 24000/1001")
    return Fraction(text).limit_denominator(1001)


def _seconds(value: Any) -> Any:
    """Read a duration: 5, 5.0, "5", "5s"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:s|sec|seconds)?\s*", value)
        if match is None:
            raise ValueError("not a duration; write 5 or 5s")
        return float(match[1])
    return value


def _rate_text(rate: Fraction) -> str | int:
    return rate.numerator if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


Rate = Annotated[
    Fraction,
    BeforeValidator(_fraction),
    PlainSerializer(_rate_text, return_type=str | int, when_used="json"),
    Field(gt=0, le=240),
]
Duration = Annotated[float, BeforeValidator(_seconds)]


class LoraSpec(BaseModel):
    """One LoRA: a safetensors file or folder, its strength and the expert it goes to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(description="safetensors file, or folder with one", min_length=1)
    weight: float = Field(1.0, description="strength", ge=-10, le=10)
    target: Literal["both", "high", "low"] = Field(
        "both", description="expert of a two-expert model: high noise, low noise or both"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Accept "path", "path:0.8" and "path:0.8:high"."""
        if not isinstance(value, str):
            return value
        match = re.fullmatch(r"(.+?)(?::(-?\d+(?:\.\d+)?))?(?::(high|low|both))?", value, re.S)
        if match is None:
            raise ValueError("a LoRA needs a path, e.g. style.safetensors:0.8")
        path, weight, target = match.groups()
        return {"path": path, "weight": float(weight or 1.0), "target": target or "both"}


class VideoRequest(BaseModel):
    """What a user asks for. Omitted fields take the model's own recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = option(
        "toyworld",
        text="Model: a known name, a local folder in diffusers format, or a hub id.",
        group="model",
        min_length=1,
    )
    prompt: str = option(text="What the clip shows.", group="prompt", min_length=1, max_length=8192)
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

    attention: Literal["dense"] = option(
        "dense", text="Which keys attention reads.", group="attention"
    )
    attention_backend: Literal["auto", "sdpa"] = option(
        "auto", text="Who computes attention.", group="attention", aliases=("override_attention",)
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


RESOLUTIONS = {"240p": 240, "360p": 360, "480p": 480, "540p": 540, "720p": 720, "1080p": 1080}
SHORTHANDS = ("size", "target_shape", "resolution", "res")


def canonical_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """Translate aliases and shorthands to canonical fields.

    size "832x480" or "832*480", target_shape [h, w] and resolution "480p", alone or with aspect
    "16:9", become width and height; seed -1 becomes None; num_frames "5s" becomes seconds.
    Raises ValueError for an unknown name (with the nearest known ones) and a field given twice.
    """
    known = {word: name for name, info in fields().items() for word in (name, *aliases_of(info))}
    out: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, value in _expanded(data).items():
        if key not in known:
            near = difflib.get_close_matches(key, [*known, *SHORTHANDS], n=2, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(f"unknown field {_shown(key)}{hint}")
        name = known[key]
        if name == "num_frames" and isinstance(value, str) and value.strip().endswith("s"):
            name = "seconds"
        if name in origin:
            raise ValueError(f"{origin[name]} and {key} are the same field; give one of them")
        origin[name] = key
        out[name] = None if name == "seed" and value in (-1, "-1") else value
    return out


def _expanded(data: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the size shorthands by width and height."""
    out = {name: value for name, value in data.items() if name not in SHORTHANDS}
    short = {name: data[name] for name in SHORTHANDS if data.get(name) is not None}
    if not short:
        return out
    named = [*short, *(name for name in ("width", "height") if out.get(name) is not None)]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} both set the size; give one of them")
    name, value = next(iter(short.items()))
    if name == "size":
        match = re.fullmatch(r"\s*(\d{1,6})\s*[xX*×]\s*(\d{1,6})\s*", str(value))
        if match is None:
            raise ValueError(f"size={_shown(value)} is not WIDTHxHEIGHT, e.g. 832x480")
        return {**out, "width": int(match[1]), "height": int(match[2])}
    if name == "target_shape":
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError(f"target_shape={_shown(value)} is not [height, width]")
        return {**out, "height": value[0], "width": value[1]}
    aspect = out.pop("aspect", out.pop("aspect_ratio", None))
    return {**out, **_at_resolution("16:9" if aspect is None else aspect, value)}


def ratio_of(aspect: Any) -> Fraction:
    """Return width over height of "16:9".

    Raises  ValueError
    """
    match = re.fullmatch(r"\s*([1-9]\d{0,3})\s*[:/]\s*([1-9]\d{0,3})\s*", str(aspect))
    if match is None:
        raise ValueError(f"aspect={_shown(aspect)} is not W:H, e.g. 16:9")
    return Fraction(int(match[1]), int(match[2]))


def _at_resolution(aspect: Any, resolution: Any) -> dict[str, int]:
    """Return width and height of an aspect ratio at a named resolution (its shorter side)."""
    if str(resolution) not in RESOLUTIONS:
        raise ValueError(f"resolution={_shown(resolution)} is not one of {', '.join(RESOLUTIONS)}")
    ratio, short = ratio_of(aspect), RESOLUTIONS[str(resolution)]
    longer = round(short * max(ratio, 1 / ratio) / 2) * 2
    return {"width": longer, "height": short} if ratio >= 1 else {"width": short, "height": longer}


def _shown(value: Any) -> str:
    """Show a value in a message, not all of a long one."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def parse_request(data: Mapping[str, Any]) -> VideoRequest:
    """Make a request of untrusted data.

    Raises  BadRequest, one sentence that names each field at fault, its value and its bound
    """
    try:
        return VideoRequest.model_validate(dict(data))
    except ValidationError as error:
        raise explain(error) from None


def explain(error: ValidationError) -> BadRequest:
    """Turn pydantic's error into one sentence of ours."""
    parts = []
    first: str | None = None
    for item in error.errors():
        where = ".".join(str(part) for part in item["loc"] if isinstance(part, str | int))
        text = str(item["msg"]).removeprefix("Value error, ")
        text = text[:1].lower() + text[1:]
        first = first or where.split(".")[0] or None
        if not where:
            parts.append(text)
        elif item["type"] == "missing":
            parts.append(f"{where} is missing")
        else:
            parts.append(f"{where}={_shown(item['input'])}: {text}")
    return BadRequest("; ".join(parts) + ".", field=first)
