"""Counted work and weights against torch's counter and diffusers' classes, on the meta device."""

import inspect

import pytest
from diffusers import AutoencoderKLWan, WanTransformer3DModel, WanVACETransformer3DModel
from transformers import CLIPVisionConfig, UMT5Config

from benchmarks import counted
from vidgen import flops, vae_flops
from vidgen.models import KNOWN, resolve

TOY = resolve("toyworld").configs
FAMILIES = {row.name: row for row in counted.first_of_each_family()}
DITS = {"toyworld": TOY.transformer, **{row.name: row.configs.transformer for row in KNOWN}}
VAES = {
    "wan2.1": resolve("wan2.1-t2v-1.3b").configs.vae,
    "wan2.2": resolve("wan2.2-ti2v-5b").configs.vae,
    "toyworld": TOY.vae,
}
EXACT = 1e-9  # the promise is 1 %; nothing is left out, so anything more is a mistake


@pytest.mark.slow
@pytest.mark.parametrize("latent", counted.LATENTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_transformer(name, latent):
    model = FAMILIES[name]
    config, images = model.configs.transformer, counted.images_of(model)
    if latent != counted.LATENTS[0]:  # the real depth once; after that only the shape is new
        config = {**config, "num_layers": 5}
        config |= {"vace_layers": [0, 3]} if "vace_layers" in config else {}
    options = {"token_times": model.family.token_times}
    text = model.family.text_length
    theirs = counted.count_transformer(config, latent, text=text, images=images, **options)
    tokens = latent[0] * latent[1] * latent[2] // 4
    ours = flops.transformer_flops(config, tokens, text, 257 * images, **options)
    assert ours == pytest.approx(theirs, rel=EXACT)


def test_times_per_token_are_not_small():
    once, each = (
        flops.transformer_flops(TOY.transformer, 180, 32, token_times=times)
        for times in (False, True)
    )
    assert each["linear"] > 1.05 * once["linear"]


def test_vace_references_lengthen_the_sequence():
    config = DITS["wan2.1-vace-1.3b"]
    theirs = counted.count_transformer(config, (3 + 2, 12, 20), text=512)
    ours = flops.transformer_flops(config, (3 + 2) * 6 * 10, 512)
    assert ours == pytest.approx(theirs, rel=EXACT)


def test_missing_keys_are_defaults():
    bare = {"num_layers": 1, "_class_name": "WanTransformer3DModel"}
    theirs = counted.count_transformer(bare, (1, 4, 4), text=8)
    assert flops.transformer_flops(bare, 4, 8) == pytest.approx(theirs, rel=EXACT)
    assert flops.transformer_parameters(bare) == _weights(counted.transformer_on_meta(bare))
    assert vae_flops.vae_parameters({}) == _weights(counted.vae_on_meta({}))


def _weights(module):
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.parametrize("name", DITS)
def test_transformer_weights_are_exact(name):
    config = DITS[name]
    model = counted.transformer_on_meta(config)
    assert flops.transformer_parameters(config) == _weights(model)
    in_float32 = sum(
        weight.numel()
        for key, weight in model.named_parameters()
        if any(word in key.split(".") for word in model._keep_in_fp32_modules)
    )
    assert flops.transformer_float32_parameters(config) == in_float32


@pytest.mark.parametrize("name", VAES)
def test_vae_weights_are_exact(name):
    assert vae_flops.vae_parameters(VAES[name]) == _weights(counted.vae_on_meta(VAES[name]))


@pytest.mark.parametrize("latent", [(1, 4, 6), (3, 6, 4)])
@pytest.mark.parametrize("name", VAES)
def test_vae_decode(name, latent):
    theirs = counted.count_vae_decode(VAES[name], latent)
    assert vae_flops.vae_decode_flops(VAES[name], *latent) == pytest.approx(theirs, rel=EXACT)


@pytest.mark.parametrize("clip", [(1, 64, 96), (9, 96, 64)])
@pytest.mark.parametrize("name", VAES)
def test_vae_encode(name, clip):
    theirs = counted.count_vae_encode(VAES[name], clip)
    assert vae_flops.vae_encode_flops(VAES[name], *clip) == pytest.approx(theirs, rel=EXACT)


@pytest.mark.parametrize("name", VAES)
def test_vae_decode_in_tiles(name):
    rows = vae_flops.TILE // VAES[name].get("scale_factor_spatial", 8) + 4
    theirs = counted.count_vae_decode(VAES[name], (2, rows, 6), tiled=True)
    ours = vae_flops.vae_decode_flops(VAES[name], 2, rows, 6, tiled=True)
    assert ours == pytest.approx(theirs, rel=EXACT)
    assert ours > vae_flops.vae_decode_flops(VAES[name], 2, rows, 6)


@pytest.mark.parametrize("tokens", counted.LENGTHS)
@pytest.mark.parametrize("name", ["umt5-xxl", "toyworld", "relu"])
def test_text_encoder(name, tokens):
    config = {
        "umt5-xxl": resolve("wan2.1-t2v-1.3b").configs.text_encoder,
        "toyworld": TOY.text_encoder,
        # A saved config repeats what the word "relu" stands for.
        "relu": {
            **TOY.text_encoder,
            "feed_forward_proj": "relu",
            "is_gated_act": False,
            "dense_act_fn": "relu",
        },
    }[name]
    theirs = counted.count_text_encoder(config, tokens)
    assert flops.text_encoder_flops(config, tokens) == pytest.approx(theirs, rel=EXACT)
    model = counted.text_encoder_on_meta(config)
    assert flops.text_encoder_parameters(config) == _weights(model)
    kept = sum(weight.numel() for key, weight in model.named_parameters() if ".wo." in key)
    assert flops.text_encoder_float32_parameters(config) == kept


@pytest.mark.parametrize("name", ["clip-h", "defaults"])
def test_image_encoder(name):
    known = resolve("wan2.1-i2v-14b-480p").configs.image_encoder
    config = {"clip-h": known, "defaults": {}}[name]
    theirs = counted.count_image_encoder(config)
    assert flops.image_encoder_flops(config) == pytest.approx(theirs, rel=EXACT)
    model = counted.image_encoder_on_meta(config)
    assert flops.image_encoder_parameters(config) == _weights(model)
    positions = model.get_parameter("embeddings.position_embedding.weight")
    assert flops.image_tokens(config) == len(positions)


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
def test_published_figures(name, width, height, frames, tflop, vae_tflop):
    """The figures that were taken from torch's counter at full size."""
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
