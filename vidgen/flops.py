"""Exact work and weights of the transformer and of the text and image encoders, from their configs.

A multiply and an add count as two. Keys that a config leaves out take the defaults of diffusers
0.42 and transformers 5. Norms, activations and other elementwise work are not counted: they are
bound by memory, not by arithmetic. The VAE has a file of its own, `vidgen.vae_flops`.
"""

from collections.abc import Mapping
from typing import Any

from vidgen.models import Config

TRANSFORMER_DEFAULTS: Config = {
    "patch_size": [1, 2, 2], "num_attention_heads": 40, "attention_head_dim": 128,
    "in_channels": 16, "out_channels": 16, "text_dim": 4096, "freq_dim": 256, "ffn_dim": 13824,
    "num_layers": 40, "cross_attn_norm": True, "image_dim": None, "added_kv_proj_dim": None,
    "pos_embed_seq_len": None,
}  # fmt: skip
VACE_DEFAULTS: Config = {
    "vace_layers": [0, 5, 10, 15, 20, 25, 30, 35], "vace_in_channels": 96,
}  # fmt: skip
TEXT_DEFAULTS: Config = {
    "vocab_size": 250112, "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8,
    "num_heads": 6, "relative_attention_num_buckets": 32, "feed_forward_proj": "gated-gelu",
}  # fmt: skip
IMAGE_DEFAULTS: Config = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_channels": 3,
    "image_size": 224, "patch_size": 32,
}  # fmt: skip


def filled(config: Config, defaults: Config) -> dict[str, Any]:
    """Return a config with the missing keys taken from the defaults."""
    return {**defaults, **config}


def _is_vace(config: Config) -> bool:
    return "vace_layers" in config or config.get("_class_name") == "WanVACETransformer3DModel"


def _transformer(config: Config) -> dict[str, Any]:
    """Fill a config and add the sizes that follow from it.

    dim             channels of a token
    patch_volume    latent cells of a token
    vace_blocks     blocks of the VACE branch, 0 in other models
    """
    full = filled(config, {**TRANSFORMER_DEFAULTS, **VACE_DEFAULTS})
    frames, rows, columns = full["patch_size"]
    full["patch_volume"] = frames * rows * columns
    full["dim"] = full["num_attention_heads"] * full["attention_head_dim"]
    full["out_channels"] = full["out_channels"] or full["in_channels"]
    full["vace_blocks"] = len(full["vace_layers"]) if _is_vace(config) else 0
    return full


def transformer_dim(config: Config) -> int:
    """Return the channels of a token."""
    return int(_transformer(config)["dim"])


def transformer_blocks(config: Config) -> int:
    """Return the number of blocks, those of a VACE branch included."""
    full = _transformer(config)
    return int(full["num_layers"] + full["vace_blocks"])


def vace_blocks(config: Config) -> int:
    """Return the blocks of the VACE branch, 0 in other models."""
    return int(_transformer(config)["vace_blocks"])


def ffn_dim(config: Config) -> int:
    """Return the inner channels of the feed-forward layers."""
    return int(_transformer(config)["ffn_dim"])


def transformer_flops(
    config: Config,
    tokens: int,
    text_tokens: int,
    image_tokens: int = 0,
    *,
    token_times: bool = False,
) -> dict[str, float]:
    """Return the work of one forward of one sample, by part.

    tokens        of the video, reference frames included
    text_tokens   the prompt's, padding included
    image_tokens  of the CLIP tower, all images together
    token_times   each token has its own timestep, so the time embedding is computed per token
    Returns       attention (scores and weighted sums of self-attention), cross_attention (the same,
                  and the keys and values made of the conditions), linear (everything else)
    """
    full = _transformer(config)
    dim = full["dim"]
    blocks = full["num_layers"] + full["vace_blocks"]
    sees_image = full["added_kv_proj_dim"] is not None
    image = image_tokens if sees_image else 0
    cross = 4 * tokens * (text_tokens + image) * dim + 4 * text_tokens * dim * dim
    if sees_image:
        cross += 4 * image * full["added_kv_proj_dim"] * dim
    linear = blocks * tokens * (12 * dim * dim + 4 * dim * full["ffn_dim"])
    if full["vace_blocks"]:
        linear += 2 * tokens * dim * dim * (full["vace_blocks"] + 1)
        linear += 2 * tokens * dim * full["vace_in_channels"] * full["patch_volume"]
    ends = full["in_channels"] + full["out_channels"]
    linear += 2 * tokens * dim * ends * full["patch_volume"]
    times = tokens if token_times else 1
    linear += 2 * times * dim * (full["freq_dim"] + 7 * dim)
    linear += 2 * text_tokens * dim * (full["text_dim"] + dim)
    if full["image_dim"] is not None:
        linear += 2 * image_tokens * full["image_dim"] * (full["image_dim"] + dim)
    return {
        "attention": float(blocks * 4 * tokens * tokens * dim),
        "linear": float(linear),
        "cross_attention": float(blocks * cross),
    }


def _block_parameters(full: Mapping[str, Any]) -> int:
    dim, ffn, added = full["dim"], full["ffn_dim"], full["added_kv_proj_dim"]
    count = 2 * (4 * (dim * dim + dim) + 2 * dim)  # q, k, v, out and two norms, self and cross
    if added is not None:
        count += 2 * (added * dim + dim) + dim
    count += 2 * dim if full["cross_attn_norm"] else 0
    count += dim * ffn + ffn + ffn * dim + dim
    return int(count + 6 * dim)


def transformer_parameters(config: Config) -> int:
    """Return the number of weights of one transformer."""
    full = _transformer(config)
    dim, volume = full["dim"], full["patch_volume"]
    blocks = full["num_layers"] + full["vace_blocks"]
    count = blocks * _block_parameters(full)
    count += dim * full["in_channels"] * volume + dim
    count += full["freq_dim"] * dim + dim + dim * dim + dim
    count += 6 * dim * dim + 6 * dim
    count += full["text_dim"] * dim + dim + dim * dim + dim
    if full["image_dim"] is not None:
        image = full["image_dim"]
        count += 2 * image + image * image + image + image * dim + dim + 2 * dim
        count += (full["pos_embed_seq_len"] or 0) * image
    if full["vace_blocks"]:
        count += dim * full["vace_in_channels"] * volume + dim
        count += (full["vace_blocks"] + 1) * (dim * dim + dim)
    count += (dim + 1) * full["out_channels"] * volume + 2 * dim
    return int(count)


def transformer_float32_parameters(config: Config) -> int:
    """Return how many weights diffusers keeps in float32 when it loads a 16-bit transformer.

    They are the time embedder, the modulation tables and the norms with weights
    (`_keep_in_fp32_modules` of WanTransformer3DModel).
    """
    full = _transformer(config)
    dim = full["dim"]
    blocks = full["num_layers"] + full["vace_blocks"]
    count = full["freq_dim"] * dim + dim + dim * dim + dim
    count += blocks * (6 * dim + (2 * dim if full["cross_attn_norm"] else 0)) + 2 * dim
    if full["image_dim"] is not None:
        count += 2 * full["image_dim"] + 2 * dim
    return int(count)


def _feed_forward_matrices(full: Mapping[str, Any]) -> int:
    return 3 if str(full["feed_forward_proj"]).startswith("gated") else 2


def text_encoder_flops(config: Config, tokens: int) -> float:
    """Return the work of encoding one prompt of that many tokens, padding included (UMT5)."""
    full = filled(config, TEXT_DEFAULTS)
    inner = full["num_heads"] * full["d_kv"]
    matrices = 4 * full["d_model"] * inner
    matrices += _feed_forward_matrices(full) * full["d_model"] * full["d_ff"]
    return float(full["num_layers"] * (2 * tokens * matrices + 4 * tokens * tokens * inner))


def text_encoder_width(config: Config) -> int:
    """Return the widest layer of the encoder, in channels."""
    full = filled(config, TEXT_DEFAULTS)
    return int(max(full["d_model"], full["d_ff"], full["num_heads"] * full["d_kv"]))


def text_encoder_parameters(config: Config) -> int:
    """Return the number of weights of a UMT5 encoder; its embedding counts once."""
    full = filled(config, TEXT_DEFAULTS)
    dim, heads = full["d_model"], full["num_heads"]
    layer = 4 * dim * heads * full["d_kv"] + full["relative_attention_num_buckets"] * heads
    layer += _feed_forward_matrices(full) * dim * full["d_ff"] + 2 * dim
    return int(full["vocab_size"] * dim + full["num_layers"] * layer + dim)


def text_encoder_float32_parameters(config: Config) -> int:
    """Return how many weights transformers keeps in float32 when it loads a float16 encoder.

    They are the feed-forward output matrices (`_keep_in_fp32_modules` of UMT5EncoderModel).
    """
    full = filled(config, TEXT_DEFAULTS)
    return int(full["num_layers"] * full["d_model"] * full["d_ff"])


def image_tokens(config: Config) -> int:
    """Return the tokens that a CLIP tower makes of one image: its patches and one for the class."""
    full = filled(config, IMAGE_DEFAULTS)
    return int((full["image_size"] // full["patch_size"]) ** 2 + 1)


def image_encoder_flops(config: Config) -> float:
    """Return the work of encoding one image (CLIP vision tower, all layers)."""
    full = filled(config, IMAGE_DEFAULTS)
    tokens, dim = image_tokens(config), full["hidden_size"]
    layer = tokens * (8 * dim * dim + 4 * dim * full["intermediate_size"])
    layer += 4 * tokens * tokens * dim
    patches = 2 * (tokens - 1) * dim * full["num_channels"] * full["patch_size"] ** 2
    return float(full["num_hidden_layers"] * layer + patches)


def image_encoder_parameters(config: Config) -> int:
    """Return the number of weights of a CLIP vision tower without projection."""
    full = filled(config, IMAGE_DEFAULTS)
    dim, inner = full["hidden_size"], full["intermediate_size"]
    layer = 4 * (dim * dim + dim) + 4 * dim + dim * inner + inner + inner * dim + dim
    patches = dim * full["num_channels"] * full["patch_size"] ** 2
    places = (image_tokens(config) + 1) * dim  # positions, and the class token
    return int(full["num_hidden_layers"] * layer + patches + places + 4 * dim)
