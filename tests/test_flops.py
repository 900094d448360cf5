"""Counted work and weights against torch's counter and diffusers' classes, on the meta device."""

import inspect

import pytest
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel, WanVACETransformer3DModel
from torch.utils.flop_counter import FlopCounterMode
from transformers import CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel

from tests.toy_configs import TOY_DIT, TOY_TEXT, TOY_VAE
from vidgen import flops, vae_flops
from vidgen.models import KNOWN, resolve

DITS = {row.name: (dict(row.configs.transformer), row) for row in KNOWN}
FIRST_OF_FAMILY = list({row.family.name: row.name for row in reversed(KNOWN)}.values())
VAES = {
    "wan2.1": dict(resolve("wan2.1-t2v-1.3b").configs.vae),
    "wan2.2": dict(resolve("wan2.2-ti2v-5b").configs.vae),
    "toyworld": TOY_VAE,
}
# latent frames, rows, columns: an odd number of rows after patching in the second
LATENTS = [(3, 12, 20), (6, 18, 10)]
PARTS = ("attention", "linear", "cross_attention")


def transformer_on_meta(config):
    cls = WanVACETransformer3DModel if "vace_layers" in config else WanTransformer3DModel
    with torch.device("meta"):
        return cls(**config)


def _by_part(counter, model):
    """Split the counter's figures as `transformer_flops` does."""
    counts = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    root = type(model).__name__
    total = counts["Global"]

    def children(name, leaves):
        return sum(counts.get(f"{name}.{leaf}", 0) for leaf in leaves)

    attention = cross = 0
    for name in counts:
        if not name.startswith(root):
            continue
        if name.endswith(".attn1"):
            attention += counts[name] - children(name, ("to_q", "to_k", "to_v", "to_out.0"))
        if name.endswith(".attn2"):
            cross += counts[name] - children(name, ("to_q", "to_out.0"))
    return {
        "attention": attention, "cross_attention": cross, "linear": total - attention - cross
    }  # fmt: skip


def _count_transformer(config, latent, *, text, image_tokens, token_times):
    """Count one forward with torch's counter."""
    model = transformer_on_meta(config)
    meta = {"device": "meta"}
    tokens = latent[0] * latent[1] * latent[2] // 4
    inputs = {
        "hidden_states": torch.empty(1, config.get("in_channels", 16), *latent, **meta),
        "timestep": torch.empty((1, tokens) if token_times else (1,), **meta),
        "encoder_hidden_states": torch.empty(1, text, config.get("text_dim", 4096), **meta),
    }
    if image_tokens:
        images = image_tokens // 257
        width = config["image_dim"]
        inputs["encoder_hidden_states_image"] = torch.empty(images, 257, width, **meta)
    if "vace_layers" in config:
        shape = (1, config["vace_in_channels"], *latent)
        inputs["control_hidden_states"] = torch.empty(shape, **meta)
        inputs["control_hidden_states_scale"] = torch.ones(len(config["vace_layers"]))
    with torch.no_grad(), FlopCounterMode(display=False, depth=None) as counter:
        model(**inputs)
    return tokens, _by_part(counter, model)


def _check_parts(ours, counted):
    for part in PARTS:
        assert ours[part] == pytest.approx(counted[part], rel=0.01), part
    assert sum(ours.values()) == pytest.approx(sum(counted.values()), rel=0.01)


def _image_tokens(row):
    if row.configs.image_encoder is None:
        return 0
    return flops.image_tokens(row.configs.image_encoder) * (2 if "flf2v" in row.name else 1)


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("name", FIRST_OF_FAMILY)
def test_transformer_of_real_size(name, latent):
    config, row = DITS[name]
    times, image = row.family.token_times, _image_tokens(row)
    tokens, counted = _count_transformer(
        config, latent, text=512, image_tokens=image, token_times=times
    )
    ours = flops.transformer_flops(config, tokens, 512, image, token_times=times)
    _check_parts(ours, counted)


@pytest.mark.parametrize("latent", LATENTS)
def test_toyworld_transformer(latent):
    tokens, counted = _count_transformer(
        TOY_DIT, latent, text=32, image_tokens=0, token_times=True
    )
    ours = flops.transformer_flops(TOY_DIT, tokens, 32, token_times=True)
    _check_parts(ours, counted)
    without = flops.transformer_flops(TOY_DIT, tokens, 32)
    assert sum(without.values()) < 0.95 * sum(counted.values())  # per-token times are not small


def test_vace_references_lengthen_the_sequence():
    config, _ = DITS["wan2.1-vace-1.3b"]
    tokens, counted = _count_transformer(
        config, (3 + 2, 12, 20), text=512, image_tokens=0, token_times=False
    )
    assert tokens == (3 + 2) * 6 * 10
    _check_parts(flops.transformer_flops(config, tokens, 512), counted)


@pytest.mark.parametrize("name", [*DITS, "toyworld"])
def test_transformer_weights_are_exact(name):
    config = TOY_DIT if name == "toyworld" else DITS[name][0]
    model = transformer_on_meta(config)
    assert flops.transformer_parameters(config) == sum(p.numel() for p in model.parameters())
    kept = model._keep_in_fp32_modules
    in_float32 = sum(
        weight.numel()
        for key, weight in model.named_parameters()
        if any(word in key.split(".") for word in kept)
    )
    assert flops.transformer_float32_parameters(config) == in_float32


def vae_on_meta(config):
    with torch.device("meta"):
        return AutoencoderKLWan(**config)


@pytest.mark.parametrize("name", VAES)
def test_vae_weights_are_exact(name):
    weights = sum(p.numel() for p in vae_on_meta(VAES[name]).parameters())
    assert vae_flops.vae_parameters(VAES[name]) == weights


@pytest.mark.parametrize("latent", [(1, 4, 6), (3, 6, 4)])
@pytest.mark.parametrize("name", VAES)
def test_vae_decode(name, latent):
    config = VAES[name]
    sample = torch.empty(1, config["z_dim"], *latent, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        vae_on_meta(config).decode(sample)
    assert vae_flops.vae_decode_flops(config, *latent) == pytest.approx(
        counter.get_total_flops(), rel=0.01
    )


@pytest.mark.parametrize("shape", [(1, 64, 96), (9, 96, 64)])
@pytest.mark.parametrize("name", VAES)
def test_vae_encode(name, shape):
    sample = torch.empty(1, 3, *shape, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        vae_on_meta(VAES[name]).encode(sample)
    assert vae_flops.vae_encode_flops(VAES[name], *shape) == pytest.approx(
        counter.get_total_flops(), rel=0.01
    )


@pytest.mark.parametrize("name", VAES)
def test_vae_decode_in_tiles(name):
    config = VAES[name]
    size = vae_flops.TILE // config.get("scale_factor_spatial", 8) + 4
    vae = vae_on_meta(config)
    vae.enable_tiling()
    sample = torch.empty(1, config["z_dim"], 2, size, 6, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        vae.decode(sample)
    ours = vae_flops.vae_decode_flops(config, 2, size, 6, tiled=True)
    assert ours == pytest.approx(counter.get_total_flops(), rel=0.01)
    assert ours > vae_flops.vae_decode_flops(config, 2, size, 6)


@pytest.mark.parametrize("tokens", [32, 512])
@pytest.mark.parametrize("name", ["umt5-xxl", "toyworld", "relu"])
def test_text_encoder(name, tokens):
    config = {
        "umt5-xxl": dict(resolve("wan2.1-t2v-1.3b").configs.text_encoder),
        "toyworld": TOY_TEXT,
        "relu": {**TOY_TEXT, "feed_forward_proj": "relu"},
    }[name]
    with torch.device("meta"):
        model = UMT5EncoderModel(UMT5Config(**config))
    ids = torch.zeros(1, tokens, dtype=torch.long, device="meta")
    mask = torch.zeros(1, 1, tokens, tokens, device="meta")  # a mask whose values are not read
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(ids, mask)
    assert flops.text_encoder_flops(config, tokens) == pytest.approx(
        counter.get_total_flops(), rel=0.01
    )
    assert flops.text_encoder_parameters(config) == sum(p.numel() for p in model.parameters())
    kept = sum(p.numel() for key, p in model.named_parameters() if "wo" in key.split("."))
    assert flops.text_encoder_float32_parameters(config) == kept


@pytest.mark.parametrize("name", ["clip-h", "defaults"])
def test_image_encoder(name):
    known = dict(resolve("wan2.1-i2v-14b-480p").configs.image_encoder)
    config = {"clip-h": known, "defaults": {}}[name]
    with torch.device("meta"):
        model = CLIPVisionModel(CLIPVisionConfig(**config))
    side = model.config.image_size
    image = torch.empty(1, 3, side, side, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(image, output_hidden_states=True)
    assert flops.image_encoder_flops(config) == pytest.approx(counter.get_total_flops(), rel=0.01)
    assert flops.image_encoder_parameters(config) == sum(p.numel() for p in model.parameters())
    hidden = model(image).last_hidden_state
    assert flops.image_tokens(config) == hidden.shape[1]


@pytest.mark.parametrize(
    ("cls", "defaults"),
    [
        (WanTransformer3DModel, flops.TRANSFORMER_DEFAULTS),
        (WanVACETransformer3DModel, flops.VACE_DEFAULTS),
        (AutoencoderKLWan, vae_flops.VAE_DEFAULTS),
    ],
)
def test_defaults_are_those_of_diffusers(cls, defaults):
    theirs = {name: value.default for name, value in inspect.signature(cls).parameters.items()}
    for name, value in defaults.items():
        expected = theirs[name]
        assert value == (list(expected) if isinstance(expected, tuple) else expected), name


@pytest.mark.parametrize(
    ("config", "defaults"),
    [(UMT5Config(), flops.TEXT_DEFAULTS), (CLIPVisionConfig(), flops.IMAGE_DEFAULTS)],
)
def test_defaults_are_those_of_transformers(config, defaults):
    assert {name: getattr(config, name) for name in defaults} == defaults


@pytest.mark.parametrize(
    ("name", "width", "height", "frames", "tflop", "vae_tflop"),
    [
        ("wan2.1-t2v-1.3b", 832, 480, 81, 283.0, 275),
        ("wan2.2-t2v-a14b", 1280, 720, 81, 6523.4, 639),
        ("wan2.2-ti2v-5b", 1280, 704, 121, 517.0, 2011),
    ],
)
def test_figures_of_the_research_note(name, width, height, frames, tflop, vae_tflop):
    """The figures that performance.md 4 took from torch's counter at full size."""
    model = resolve(name)
    stride = model.family.vae_spatial
    latent = ((frames - 1) // 4 + 1, height // stride, width // stride)
    tokens = latent[0] * latent[1] * latent[2] // 4
    ours = flops.transformer_flops(
        model.configs.transformer, tokens, 512, token_times=model.family.token_times
    )
    assert sum(ours.values()) / 1e12 == pytest.approx(tflop, rel=0.01)
    decode = vae_flops.vae_decode_flops(model.configs.vae, *latent)
    assert decode / 1e12 == pytest.approx(vae_tflop, rel=0.01)
