"""Which family a folder's configuration means; folders that no family fits are refused.

A refusal names the value and what would do. Missing values count as diffusers' own defaults.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from vidgen.errors import Unsupported
from vidgen.families import FAMILIES, Family, family

Config = Mapping[str, Any]

_MASK_CHANNELS = 4  # of the first-frame mask that image-to-video models read beside the latents
_VACE_MASK_CHANNELS = 64  # VACE folds a mask of 8x8 pixels into each latent position
_REFUSED = {
    "SanaVideo": "it uses linear attention, which has no keys to leave out",
    "SanaTransformer": "it uses linear attention, which has no keys to leave out",
    "UNet": "it is a U-Net, which has no token grid to attend over",
    "StableVideoDiffusion": "it is a U-Net, which has no token grid to attend over",
    "AnimateDiff": "it is a U-Net, which has no token grid to attend over",
    "I2VGenXL": "it is a U-Net, which has no token grid to attend over",
    "TextToVideoSD": "it is a U-Net, which has no token grid to attend over",
}


# Sizes from which planning computes costs; diffusers and transformers write all of them.
_SIZES = {
    "transformer": (
        "num_attention_heads", "attention_head_dim", "num_layers", "ffn_dim", "freq_dim",
        "in_channels", "out_channels", "text_dim", "rope_max_seq_len", "vace_in_channels",
    ),
    "vae": ("base_dim", "z_dim", "num_res_blocks", "in_channels", "out_channels"),
    "text_encoder": ("d_model", "d_ff", "d_kv", "num_heads", "num_layers", "vocab_size"),
    "image_encoder": (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "image_size", "patch_size",
    ),
}  # fmt: skip
_LARGEST = 10**7  # of any of them; the largest vocabularies have 10**6 words


def declares(index: Config, part: str) -> bool:
    """Whether a model_index.json names a class for a part."""
    entry = index.get(part)
    return isinstance(entry, list) and len(entry) == 2 and entry[1] is not None


def detect(name: str, index: Config, parts: Mapping[str, Config | None], *, toy: bool) -> Family:
    """Return the family of a folder.

    index   its model_index.json
    parts   the config.json of transformer, transformer_2, vae, text_encoder and image_encoder
    toy     it is the bundled model
    Raises  Unsupported, in one sentence that names the value in the way
    """
    cls = str(index.get("_class_name", "?"))
    transformer, vae, text = (parts.get(part) for part in ("transformer", "vae", "text_encoder"))
    kind = str((transformer or {}).get("_class_name", ""))
    for word, why in _REFUSED.items():
        if word in cls or word in kind:
            raise Unsupported(f"{name} ({cls}) cannot run here: {why}.", field="model")
    if transformer is None or vae is None or text is None:
        raise Unsupported(
            f"{name} ({cls}) lacks a transformer, vae or text_encoder folder; Vidgen runs "
            f"{', '.join(row.name for row in FAMILIES)}.",
            field="model",
        )
    if kind not in {row.transformer for row in FAMILIES}:
        raise Unsupported(
            f"{name} ({cls}, {kind or 'no transformer class'}) is not a family that Vidgen runs; "
            f"it runs {', '.join(row.name for row in FAMILIES)}.",
            field="model",
        )
    try:
        row = family("toyworld") if toy else family(_family_name(kind, index, transformer, vae))
        problem = next(_problems(row, index, parts), None)
    except (TypeError, ValueError, AttributeError) as error:
        raise Unsupported(
            f"{name} has a config.json with a value of the wrong type ({error}).", field="model"
        ) from error
    if problem is not None:
        raise Unsupported(f"{name} cannot run as {row.name}: {problem}.", field="model")
    return row


def _family_name(kind: str, index: Config, transformer: Config, vae: Config) -> str:
    if kind == "WanVACETransformer3DModel":
        return "wan2.1-vace"
    if index.get("expand_timesteps"):
        return "toyworld" if _spatial_stride(vae) == 8 else "wan2.2-ti2v"
    wide = transformer.get("in_channels", 16) != transformer.get("out_channels", 16)
    if declares(index, "transformer_2"):
        return "wan2.2-i2v-a14b" if wide else "wan2.2-t2v-a14b"
    if transformer.get("pos_embed_seq_len"):
        return "wan2.1-flf2v"
    return "wan2.1-i2v" if wide else "wan2.1-t2v"


def _spatial_stride(vae: Config) -> int:
    """Pixels per latent, from the VAE's layers."""
    halvings = len(vae.get("dim_mult", (1, 2, 4, 4))) - 1
    return int(2**halvings * (vae.get("patch_size") or 1))


def _temporal_stride(vae: Config) -> int:
    """Frames per latent frame, from the VAE's layers."""
    return int(2 ** sum(map(bool, vae.get("temperal_downsample", (False, True, True)))))


def _problems(row: Family, index: Config, parts: Mapping[str, Config | None]) -> Iterator[str]:
    """Yield what keeps a folder from running as a family."""
    yield from _size_problems(parts)
    yield from _index_problems(row, index)
    vae, text = parts["vae"] or {}, parts["text_encoder"] or {}
    yield from _vae_problems(vae)
    if text.get("model_type") != "umt5":
        yield f"its text_encoder is {text.get('model_type', 'of no named type')}, not umt5"
    if vae.get("_class_name", "AutoencoderKLWan") != "AutoencoderKLWan":
        yield f"its vae is {vae['_class_name']}, not AutoencoderKLWan"
    strides = (
        ("spatial", row.vae_spatial, _spatial_stride(vae), vae.get("scale_factor_spatial", 8)),
        ("temporal", row.vae_temporal, _temporal_stride(vae), vae.get("scale_factor_temporal", 4)),
    )
    for word, wanted, layers, declared in strides:
        if {layers, declared} != {wanted}:
            yield (
                f"its vae has a {word} stride of {layers} and scale_factor_{word}={declared}, "
                f"where both must be {wanted}"
            )
    if row.experts == 1 and declares(index, "transformer_2"):
        yield "it has a transformer_2, a second expert that would be left out"
    experts = ["transformer", "transformer_2"][: row.experts]
    for part in experts:
        config = parts.get(part)
        if config is None:
            yield f"its {part} folder has no config.json"
        else:
            for problem in _expert_problems(row, config, vae, text):
                yield f"its {part} has {problem}"
    if row.image_encoder and not (parts.get("image_encoder") and declares(index, "image_encoder")):
        yield "its image_encoder is missing, which such a model sees the first frame with"


def _size_problems(parts: Mapping[str, Config | None]) -> Iterator[str]:
    for part, config in parts.items():
        for name in _SIZES[part.removesuffix("_2")]:
            value = 1 if config is None else config.get(name, 1)
            if type(value) is not int or not 0 < value <= _LARGEST:
                yield f"its {part} has {name}={value!r}, where a number from 1 to {_LARGEST} is due"


def _vae_problems(vae: Config) -> Iterator[str]:
    """Yield what keeps the normalisation of latents, and the VAE's levels, from making sense."""
    channels = vae.get("z_dim", 16)
    for name, lowest in (("latents_mean", -math.inf), ("latents_std", 0.0)):
        values = vae.get(name, [1.0] * 16)
        sound = isinstance(values, list | tuple) and all(
            type(value) in (int, float) and lowest < value < math.inf for value in values
        )
        if not sound or len(values) != channels:
            yield f"its vae has a {name} that is not {channels} numbers, one a channel"
    levels = vae.get("dim_mult", (1, 2, 4, 4))
    if not all(type(level) is int and 0 < level <= _LARGEST for level in levels):
        yield f"its vae has dim_mult={levels!r}, where whole numbers above 0 are due"


def _index_problems(row: Family, index: Config) -> Iterator[str]:
    """Yield where a model_index.json names another class than the one that will be loaded."""
    experts = ["transformer", "transformer_2"][: row.experts]
    classes = {**dict.fromkeys(experts, row.transformer), "vae": "AutoencoderKLWan"}
    for part, wanted in classes.items():
        named = index[part][1] if declares(index, part) else "no class"
        if named != wanted:
            yield f"its model_index.json names {named} for {part}, where {row.name} has {wanted}"
    ratio = index.get("boundary_ratio")
    if ratio is not None and not (type(ratio) in (int, float) and 0 <= ratio <= 1):
        yield f"its boundary_ratio is {ratio!r}, where a number from 0 to 1 is due"


def _expert_problems(row: Family, config: Config, vae: Config, text: Config) -> Iterator[str]:
    latent = vae.get("z_dim", 16)
    outputs, inputs = config.get("out_channels", 16), config.get("in_channels", 16)
    wide = 2 * latent + _MASK_CHANNELS  # the latents, the first frame's, its mask
    if outputs != latent:
        yield f"out_channels={outputs}, where the vae has {latent}"
    takes_image = row.name in ("wan2.1-i2v", "wan2.1-flf2v", "wan2.2-i2v-a14b")
    wanted = wide if takes_image else latent
    if inputs != wanted:
        yield (
            f"in_channels={inputs}, where Vidgen runs {latent} (from text) and {wide} (from a "
            "first frame); models with further control inputs are not run"
        )
    if tuple(config.get("patch_size", row.patch)) != row.patch:
        yield f"patch_size={config['patch_size']}, where {row.name} has {list(row.patch)}"
    if row.image_encoder != (config.get("image_dim") is not None):
        need = "needs a number" if row.image_encoder else "has none"
        yield f"image_dim={config.get('image_dim')}, where {row.name} {need}"
    if config.get("text_dim", 4096) != text.get("d_model"):
        yield f"text_dim={config.get('text_dim', 4096)}, where the text_encoder has " + str(
            text.get("d_model")
        )
    if row.transformer == "WanVACETransformer3DModel":
        control, ours = config.get("vace_in_channels", 96), 2 * latent + _VACE_MASK_CHANNELS
        if control != ours:
            yield f"vace_in_channels={control}, where Vidgen makes {ours}"
