"""What torch's FLOP counter reads on diffusers' and transformers' real classes, with meta tensors.

Run:  python -m benchmarks.counted
It prints, for every family at two shapes, how far `vidgen.flops` and `vidgen.vae_flops` are from
the counter, and writes out/flops.json. Meta tensors have shapes and no data, so
models of 14 B weights are counted in seconds on any machine.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.report import OUT, report, write_report
from vidgen import flops, vae_flops
from vidgen.models import DEFAULT_MODEL, KNOWN, Model, resolve

LATENTS = ((3, 12, 20), (6, 18, 10))  # frames, rows, columns of two clips
CLIPS = ((5, 64, 96), (9, 96, 64))  # frames, height, width
LENGTHS = (32, 512)  # tokens of a prompt
_META = torch.device("meta")


def _count(module: Any, *args: Any, **kwargs: Any) -> dict[str, float]:
    """Return the counter's figures of one call by module name; "Global" is the whole."""
    with torch.no_grad(), FlopCounterMode(display=False, depth=99) as counter:
        module(*args, **kwargs)
    found = counter.get_flop_counts()
    return {name: float(sum(ops.values())) for name, ops in found.items()}


def _arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what diffusers writes beside a class's arguments."""
    return {key: value for key, value in config.items() if not key.startswith("_")}


def transformer_on_meta(config: Mapping[str, Any]) -> Any:
    """Return diffusers' transformer of a config, without data."""
    from diffusers import WanTransformer3DModel, WanVACETransformer3DModel

    cls = WanVACETransformer3DModel if "vace_layers" in config else WanTransformer3DModel
    with _META:
        return cls(**_arguments(config))


def vae_on_meta(config: Mapping[str, Any]) -> Any:
    """Return diffusers' VAE of a config, without data."""
    from diffusers import AutoencoderKLWan

    with _META:
        return AutoencoderKLWan(**_arguments(config))


def transformer_inputs(
    config: Mapping[str, Any],
    latent: tuple[int, int, int],
    *,
    text: int,
    images: int,
    token_times: bool,
) -> dict[str, torch.Tensor]:
    """Return empty arguments of one transformer forward.

    latent  frames, rows and columns of the latents
    text    tokens of the prompt;  images  pictures for a CLIP tower of 257 tokens
    """
    frames, rows, columns = latent
    tokens = frames * (rows // 2) * (columns // 2)
    with _META:
        made = {
            "hidden_states": torch.empty(1, config.get("in_channels", 16), *latent),
            "timestep": torch.empty((1, tokens) if token_times else (1,)),
            "encoder_hidden_states": torch.empty(1, text, config.get("text_dim", 4096)),
        }
        if images:
            made["encoder_hidden_states_image"] = torch.empty(images, 257, config["image_dim"])
        if "vace_layers" in config:
            made["control_hidden_states"] = torch.empty(1, config["vace_in_channels"], *latent)
    return made


def count_transformer(
    config: Mapping[str, Any],
    latent: tuple[int, int, int],
    *,
    text: int,
    images: int = 0,
    token_times: bool = False,
) -> dict[str, float]:
    """Return the counter's figures of one forward, split as `vidgen.flops` splits them."""
    model = transformer_on_meta(config)
    inputs = transformer_inputs(config, latent, text=text, images=images, token_times=token_times)
    counts = _count(model, **inputs)

    def without(name: str, leaves: tuple[str, ...]) -> float:
        return counts[name] - sum(counts.get(f"{name}.{leaf}", 0.0) for leaf in leaves)

    attention = cross = 0.0
    for name in counts:
        if name.endswith(".attn1"):
            attention += without(name, ("to_q", "to_k", "to_v", "to_out.0"))
        if name.endswith(".attn2"):
            cross += without(name, ("to_q", "to_out.0"))
    return {
        "attention": attention,
        "linear": counts["Global"] - attention - cross,
        "cross_attention": cross,
    }


def count_vae_decode(
    config: Mapping[str, Any], latent: tuple[int, int, int], *, tiled: bool = False
) -> float:
    """Return the counter's figure of a decode, whole or in diffusers' tiles."""
    vae = vae_on_meta(config)
    if tiled:
        vae.enable_tiling()
    return _count(vae.decode, torch.empty(1, config["z_dim"], *latent, device=_META))["Global"]


def count_vae_encode(config: Mapping[str, Any], clip: tuple[int, int, int]) -> float:
    """Return the counter's figure of encoding frames, height and width."""
    return _count(vae_on_meta(config).encode, torch.empty(1, 3, *clip, device=_META))["Global"]


def text_encoder_on_meta(config: Mapping[str, Any]) -> Any:
    """Return transformers' UMT5 encoder of a config, without data."""
    from transformers import UMT5Config, UMT5EncoderModel

    with _META:
        return UMT5EncoderModel(UMT5Config(**config))


def count_text_encoder(config: Mapping[str, Any], tokens: int) -> float:
    """Return the counter's figure of one prompt."""
    ids = torch.zeros(1, tokens, dtype=torch.long, device=_META)
    mask = torch.zeros(1, 1, tokens, tokens, device=_META)  # of a form whose values are not read
    return _count(text_encoder_on_meta(config), ids, mask)["Global"]


def image_encoder_on_meta(config: Mapping[str, Any]) -> Any:
    """Return transformers' CLIP vision tower of a config, without data."""
    from transformers import CLIPVisionConfig, CLIPVisionModel

    with _META:
        return CLIPVisionModel(CLIPVisionConfig(**config))


def count_image_encoder(config: Mapping[str, Any]) -> float:
    """Return the counter's figure of one image."""
    model = image_encoder_on_meta(config)
    side = model.config.image_size
    image = torch.empty(1, 3, side, side, device=_META)
    return _count(model, image, output_hidden_states=True)["Global"]


def images_of(model: Model) -> int:
    """Return how many images a model's CLIP tower sees."""
    if model.configs.image_encoder is None:
        return 0
    return 2 if model.family.name == "wan2.1-flf2v" else 1


def first_of_each_family() -> list[Model]:
    """Return one model a family."""
    return [resolve(DEFAULT_MODEL), *{row.family.name: row for row in reversed(KNOWN)}.values()]


def compare(model: Model) -> list[dict[str, Any]]:
    """Return one record per part and shape: the counter, ours, and the error."""
    parts = model.configs
    text, times = model.family.text_length, model.family.token_times
    pairs: list[tuple[str, str, float, float]] = []
    for latent in LATENTS:
        images = images_of(model)
        seen = images * flops.image_tokens(parts.image_encoder) if parts.image_encoder else 0
        counted = count_transformer(
            parts.transformer, latent, text=text, images=images, token_times=times
        )
        tokens = latent[0] * (latent[1] // 2) * (latent[2] // 2)
        ours = flops.transformer_flops(parts.transformer, tokens, text, seen, token_times=times)
        pairs += [(part, str(latent), counted[part], ours[part]) for part in ours]
        whole = vae_flops.vae_decode_flops(parts.vae, *latent)
        pairs.append(("vae_decode", str(latent), count_vae_decode(parts.vae, latent), whole))
    for clip in CLIPS:
        whole = vae_flops.vae_encode_flops(parts.vae, *clip)
        pairs.append(("vae_encode", str(clip), count_vae_encode(parts.vae, clip), whole))
    for length in LENGTHS:
        whole = flops.text_encoder_flops(parts.text_encoder, length)
        pairs.append(("text", str(length), count_text_encoder(parts.text_encoder, length), whole))
    if parts.image_encoder is not None:
        whole = flops.image_encoder_flops(parts.image_encoder)
        pairs.append(("image", "224", count_image_encoder(parts.image_encoder), whole))
    return [
        {
            "family": model.family.name, "model": model.name, "part": part, "shape": shape,
            "counter": counted, "ours": ours, "error": ours / counted - 1,
        }
        for part, shape, counted, ours in pairs
    ]  # fmt: skip


def main() -> None:
    """Print the largest error of every family and part, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = OUT / "flops.json"
    parser.add_argument("--out", type=Path, default=default)
    args = parser.parse_args()
    torch.set_num_threads(1)
    records: list[dict[str, Any]] = []
    for model in first_of_each_family():
        found = compare(model)
        records += found
        worst = max(found, key=lambda record: abs(record["error"]))
        print(
            f"{model.family.name:18} {len(found):2} figures, worst {abs(worst['error']):.3%} "
            f"({worst['part']} at {worst['shape']})",
            flush=True,
        )
    write_report(args.out, report("python -m benchmarks.counted", rows=records))
    print(json.dumps({"worst": max(abs(record["error"]) for record in records)}))


if __name__ == "__main__":
    main()
