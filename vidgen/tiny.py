"""Tiny random models of every family, made in memory from the true classes, for tests.

Their pictures mean nothing; they run the real code paths in seconds without any weights.
"""

from typing import Any

import torch

from vidgen.components import Components, module_fingerprint
from vidgen.families import Family
from vidgen.models import Configs, Model

WORDS = (
    "a an the big small red green blue yellow purple white ball cube star moves quickly slowly "
    "left right up down over sand grass night brick and cat dog man runs jumps sits in on near "
    "of with bright dark blurry static low quality , . sky sea sun rain snow tree house car"
).split()
TEXT_WIDTH = 32


def tiny_model(family: Family) -> Model:
    """Return a model row of that family with the tiny sizes."""
    text = {"d_model": TEXT_WIDTH, "d_ff": 37, "d_kv": 8, "num_heads": 4, "num_layers": 2,
            "vocab_size": 128, "feed_forward_proj": "gated-gelu"}  # fmt: skip
    image = _clip_config() if family.image_encoder else None
    configs = Configs(_transformer_config(family), _vae_config(family), text, image)
    return Model(name=f"tiny-{family.name}", family=family, configs=configs)


def tiny_components(family: Family, seed: int = 0) -> Components:
    """Return the parts of that family with random weights from a seed."""
    import diffusers

    model = tiny_model(family)
    torch.manual_seed(seed)
    vae = diffusers.AutoencoderKLWan(**model.configs.vae).eval()
    cls = getattr(diffusers, family.transformer)
    experts = [_alive(cls(**model.configs.transformer)).eval() for _ in range(family.experts)]
    encoder = _text_encoder(model)
    image_encoder, image_processor = _image_parts(model)
    return Components(
        tokenizer=_tokenizer(),
        load_text_encoder=lambda: encoder,
        transformer=experts[0],
        transformer_2=experts[1] if family.experts == 2 else None,
        vae=vae,
        scheduler_config={"_class_name": "UniPCMultistepScheduler", "num_train_timesteps": 1000},
        image_encoder=image_encoder,
        image_processor=image_processor,
        expand_timesteps=family.token_times,
        fingerprint=module_fingerprint(vae, encoder, *experts),
    )


def _alive(transformer: Any) -> Any:
    """Give zero- or small-initialised parts weight, so that every input changes the output."""
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            if parameter.ndim >= 2 and "norm" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.08)
    return transformer


def _vae_config(family: Family) -> dict[str, Any]:
    common = {"num_res_blocks": 1, "dim_mult": [1, 1, 1, 1], "base_dim": 4,
              "temperal_downsample": [False, True, True], "z_dim": 16}  # fmt: skip
    if family.name == "toyworld":
        return {**common, "dim_mult": [1, 1, 1], "temperal_downsample": [True, True],
                "patch_size": 2, "in_channels": 12, "out_channels": 12,
                "scale_factor_spatial": 8, "scale_factor_temporal": 4,
                "latents_mean": [0.0] * 16, "latents_std": [1.0] * 16}  # fmt: skip
    if family.vae_spatial == 16:
        return {**common, "z_dim": 48, "latents_mean": [0.0] * 48, "latents_std": [1.0] * 48,
                "is_residual": True, "patch_size": 2, "in_channels": 12, "out_channels": 12,
                "scale_factor_spatial": 16, "decoder_base_dim": 4}  # fmt: skip
    return common


def _transformer_config(family: Family) -> dict[str, Any]:
    channels = 48 if family.vae_spatial == 16 else 16
    config: dict[str, Any] = {
        "num_attention_heads": 2, "attention_head_dim": 24, "text_dim": TEXT_WIDTH, "ffn_dim": 32,
        "num_layers": 3, "rope_max_seq_len": 1024, "freq_dim": 32, "in_channels": channels,
        "out_channels": channels, "patch_size": (1, 2, 2), "cross_attn_norm": True,
        "qk_norm": "rms_norm_across_heads",
    }  # fmt: skip
    if family.name == "wan2.1-vace":
        return {**config, "vace_layers": [0, 2], "vace_in_channels": 96}
    concatenates = {"wan2.1-i2v", "wan2.1-flf2v", "wan2.2-i2v-a14b"}
    if family.name in concatenates:
        config["in_channels"] = 36
    if family.image_encoder:
        config |= {"image_dim": 32, "added_kv_proj_dim": 48}
    if family.name == "wan2.1-flf2v":
        config["pos_embed_seq_len"] = 2 * _clip_tokens()
    return config


def _clip_config() -> dict[str, Any]:
    return {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 3,
            "num_attention_heads": 4, "image_size": 32, "patch_size": 2,
            "projection_dim": 32}  # fmt: skip


def _clip_tokens() -> int:
    config = _clip_config()
    return int((config["image_size"] // config["patch_size"]) ** 2 + 1)


def _text_encoder(model: Model) -> Any:
    from transformers import UMT5Config, UMT5EncoderModel

    return UMT5EncoderModel(UMT5Config(**model.configs.text_encoder)).eval()


def _image_parts(model: Model) -> tuple[Any, Any]:
    if model.configs.image_encoder is None:
        return None, None
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(**model.configs.image_encoder)
    size = model.configs.image_encoder["image_size"]
    return CLIPVisionModel(config).eval(), CLIPImageProcessor(crop_size=size, size=size)


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "</s>", "<unk>", *dict.fromkeys(WORDS)]
    vocabulary = {word: i for i, word in enumerate(words)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
