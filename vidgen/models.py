"""The models that can be asked for by name, by folder or by hub id, and what their folders say.

A known model's configuration is data here, so that planning one needs no weights; a folder's own
JSON files are read instead where there is one. Nothing here imports torch or diffusers.
"""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attention.trained import Trained
from vidgen.detect import detect
from vidgen.errors import NotFound, Unsupported
from vidgen.families import Family, Recipe, family
from vidgen.home import expanded
from vidgen.trained_sparse import trained_pattern
from vidgen.weights_file import shard_names

Config = Mapping[str, Any]

_UMT5_XXL: Config = {
    "d_model": 4096, "d_ff": 10240, "d_kv": 64, "num_heads": 64, "num_layers": 24,
    "vocab_size": 256384, "feed_forward_proj": "gated-gelu",
}  # fmt: skip
_CLIP_H: Config = {
    "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32,
    "num_attention_heads": 16, "image_size": 224, "patch_size": 14,
}  # fmt: skip
_VAE_21: Config = {
    "base_dim": 96, "decoder_base_dim": None, "z_dim": 16, "dim_mult": [1, 2, 4, 4],
    "num_res_blocks": 2, "temperal_downsample": [False, True, True], "is_residual": False,
    "in_channels": 3, "out_channels": 3, "patch_size": None, "scale_factor_spatial": 8,
    "scale_factor_temporal": 4,
}  # fmt: skip
_VAE_22: Config = {
    **_VAE_21, "base_dim": 160, "decoder_base_dim": 256, "z_dim": 48, "is_residual": True,
    "in_channels": 12, "out_channels": 12, "patch_size": 2, "scale_factor_spatial": 16,
}  # fmt: skip


def _dit(heads: int, layers: int, ffn: int, **changes: Any) -> Config:
    return {
        "num_attention_heads": heads, "attention_head_dim": 128, "num_layers": layers,
        "ffn_dim": ffn, "freq_dim": 256, "text_dim": 4096, "in_channels": 16, "out_channels": 16,
        "patch_size": [1, 2, 2], "image_dim": None, "added_kv_proj_dim": None,
        "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "rope_max_seq_len": 1024,
        **changes,
    }  # fmt: skip


# What the README of Wan2.1 recommends for the 1.3B model.
_SMALL_T2V = {"guidance_scale": 6.0, "flow_shift": ((1280 * 720, 8.0),)}
_DIT_14B_I2V = _dit(40, 40, 13824, in_channels=36, image_dim=1280, added_kv_proj_dim=5120)


@dataclass(frozen=True, slots=True)
class Configs:
    """The sizes of a model's parts, as diffusers and transformers write them in config.json."""

    transformer: Config
    vae: Config
    text_encoder: Config
    image_encoder: Config | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A checkpoint of a family.

    name    what a user types and a recipe stores
    hub_id  where its weights live on the hub; empty for a bundled model or a local folder
    folder  where its weights lie on this disk, if they do
    trained  sparse attention that its weights were trained with, if they were
    """

    name: str
    family: Family
    configs: Configs
    hub_id: str = ""
    folder: Path | None = None
    licence: str = ""
    about: str = ""
    recipe_changes: Mapping[str, Any] = field(default_factory=dict)
    trained: Trained | None = None

    @property
    def recipe(self) -> Recipe:
        """The family's recipe with this checkpoint's own values."""
        return replace(self.family.recipe, **self.recipe_changes)


def _wan(name: str, family_name: str, hub: str, dit: Config, about: str, **parts: Any) -> Model:
    configs = Configs(
        transformer=dit,
        vae=parts.get("vae", _VAE_21),
        text_encoder=_UMT5_XXL,
        image_encoder=parts.get("image_encoder"),
    )
    return Model(
        name=name,
        family=family(family_name),
        configs=configs,
        hub_id=f"Wan-AI/{hub}-Diffusers",
        licence="Apache-2.0",
        about=about,
        recipe_changes=parts.get("recipe", {}),
    )


TOYWORLD_FOLDER = Path(__file__).parent / "toyworld"
DEFAULT_MODEL = "toyworld"

KNOWN: tuple[Model, ...] = (
    _wan("wan2.1-t2v-1.3b", "wan2.1-t2v", "Wan2.1-T2V-1.3B", _dit(12, 30, 8960),
         "the small one; 480p, fits 12 GB", recipe=_SMALL_T2V),
    _wan("wan2.1-t2v-14b", "wan2.1-t2v", "Wan2.1-T2V-14B", _dit(40, 40, 13824), "480p and 720p"),
    _wan("wan2.1-i2v-14b-480p", "wan2.1-i2v", "Wan2.1-I2V-14B-480P", _DIT_14B_I2V,
         "from a first frame, 480p", image_encoder=_CLIP_H),
    _wan("wan2.1-i2v-14b-720p", "wan2.1-i2v", "Wan2.1-I2V-14B-720P", _DIT_14B_I2V,
         "from a first frame, 720p", image_encoder=_CLIP_H,
         recipe={"width": 1280, "height": 720}),
    _wan("wan2.1-flf2v-14b", "wan2.1-flf2v", "Wan2.1-FLF2V-14B-720P",
         {**_DIT_14B_I2V, "pos_embed_seq_len": 514}, "between a first and a last frame, 720p",
         image_encoder=_CLIP_H),
    _wan("wan2.1-vace-1.3b", "wan2.1-vace", "Wan2.1-VACE-1.3B",
         {**_dit(12, 30, 8960), "vace_layers": list(range(0, 30, 2)), "vace_in_channels": 96},
         "controlled by a video, a mask, references; 480p"),
    _wan("wan2.1-vace-14b", "wan2.1-vace", "Wan2.1-VACE-14B",
         {**_dit(40, 40, 13824), "vace_layers": list(range(0, 40, 5)), "vace_in_channels": 96},
         "controlled by a video, a mask, references; 480p and 720p"),
    _wan("wan2.2-t2v-a14b", "wan2.2-t2v-a14b", "Wan2.2-T2V-A14B", _dit(40, 40, 13824),
         "two experts; 480p and 720p"),
    _wan("wan2.2-i2v-a14b", "wan2.2-i2v-a14b", "Wan2.2-I2V-A14B",
         _dit(40, 40, 13824, in_channels=36), "two experts, from a first frame"),
    _wan("wan2.2-ti2v-5b", "wan2.2-ti2v", "Wan2.2-TI2V-5B",
         _dit(24, 30, 14336, in_channels=48, out_channels=48),
         "text or first frame, 720p at 24 fps", vae=_VAE_22),
)  # fmt: skip

_PARTS = ("transformer", "transformer_2", "vae", "text_encoder", "image_encoder")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def known_names() -> list[str]:
    """Return the names that can be asked for, the default first."""
    return [DEFAULT_MODEL, *(row.name for row in KNOWN)]


def resolve(name: str) -> Model:
    """Find the model a user means: a known name, a local folder or a hub id.

    Raises  NotFound for an unknown name, Unsupported for an architecture we do not run
    """
    if name == DEFAULT_MODEL:
        return _from_folder(TOYWORLD_FOLDER, DEFAULT_MODEL)
    for row in KNOWN:
        if name in (row.name, row.hub_id):
            return row
    try:
        path = expanded(name)
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, RuntimeError):  # a name that is too long, a user without a home
        is_folder = is_there = False
    if is_folder:
        return _from_folder(path, name)
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not is_there:
        return _from_hub_cache(name)
    near = difflib.get_close_matches(name, known_names(), n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise NotFound(
        f"Model {name!r} is not a known name, a local folder or a hub id (owner/name).{hint} "
        "`vidgen models ls` lists the known ones.",
        field="model",
    )


def _from_hub_cache(hub_id: str) -> Model:
    """Return a hub model that lies in the local cache already."""
    from vidgen.hub import cached_folder

    folder = cached_folder(hub_id)
    if folder is None:
        raise NotFound(
            f"Model {hub_id!r} is not a known name and not in the local cache; "
            f"fetch it with `vidgen models pull {hub_id}`.",
            field="model",
        )
    return _from_folder(folder, hub_id)


def _read(folder: Path, part: str) -> dict[str, Any] | None:
    path = folder / part
    try:
        if not path.is_file():
            return None
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Unsupported(f"{path} cannot be read as JSON ({error}).", field="model") from error
    return data if isinstance(data, dict) else None


def _from_folder(folder: Path, name: str) -> Model:
    """Read a folder in diffusers' format."""
    index = _read(folder, "model_index.json")
    if index is None:
        raise NotFound(
            f"{folder} has no model_index.json; give a folder in diffusers' format.", field="model"
        )
    refuse_pickles(folder)
    parts = {part: _read(folder, f"{part}/config.json") for part in _PARTS}
    row = detect(name, index, parts, toy=folder == TOYWORLD_FOLDER)
    transformer, vae, text = parts["transformer"], parts["vae"], parts["text_encoder"]
    assert transformer is not None
    assert vae is not None
    assert text is not None
    return Model(
        name=name,
        family=row,
        configs=Configs(transformer, vae, text, parts["image_encoder"]),
        folder=folder,
        recipe_changes=_recipe_changes(row, index, transformer),
        trained=trained_pattern(folder / "transformer"),
    )


def _recipe_changes(row: Family, index: Config, transformer: Config) -> dict[str, Any]:
    if row.name == "wan2.1-t2v" and transformer.get("num_attention_heads") == 12:
        return dict(_SMALL_T2V)
    ratio = index.get("boundary_ratio")
    return {"boundary_ratio": float(ratio)} if row.experts == 2 and ratio else {}


def refuse_pickles(folder: Path) -> None:
    """Raise Unsupported for weights that are pickled, or that lie outside a model's own folder.

    A pickle can run any code when it is opened; Vidgen never opens one. An index of split weights
    may name any file, so its names are looked at too.
    """
    for part in sorted(path for path in folder.iterdir() if path.is_dir()):
        pickles = [path for path in part.iterdir() if path.suffix in _PICKLES]
        if pickles and not list(part.glob("*.safetensors")):
            raise Unsupported(
                f"{pickles[0]} is a pickle, which can run code when opened; "
                "convert the model to safetensors.",
                field="model",
            )
        for path in sorted(part.glob("*.safetensors.index.json")):
            _check_index(path)


def _check_index(path: Path) -> None:
    try:
        names = shard_names(path)
    except (OSError, ValueError):
        return  # damaged, which whoever loads or checks the model will say
    for name in sorted(names):
        if not re.fullmatch(r"[^/\\]+\.safetensors", name):
            raise Unsupported(
                f"{path} names {name!r} as weights; Vidgen opens only safetensors files in the "
                "same folder.",
                field="model",
            )
