"""Tiny models as folders on disk, in diffusers' own format."""

import json
from pathlib import Path
from typing import Any

from vidgen.families import family
from vidgen.tiny import tiny_components


def save_tiny(folder: Path, family_name: str, seed: int = 0) -> Path:
    """Save a tiny random model of a family; return its folder."""
    from diffusers import UniPCMultistepScheduler

    row = family(family_name)
    parts = tiny_components(row, seed)
    saved: dict[str, tuple[str, Any]] = {
        "tokenizer": ("transformers", parts.tokenizer),
        "text_encoder": ("transformers", parts.load_text_encoder()),
        "transformer": ("diffusers", parts.transformer),
        "transformer_2": ("diffusers", parts.transformer_2),
        "vae": ("diffusers", parts.vae),
        "scheduler": ("diffusers", UniPCMultistepScheduler()),
        "image_encoder": ("transformers", parts.image_encoder),
        "image_processor": ("transformers", parts.image_processor),
    }
    index: dict[str, Any] = {"_class_name": row.pipeline(row.tasks[0])}
    for name, (library, part) in saved.items():
        index[name] = [None, None] if part is None else [library, type(part).__name__]
        if part is not None:
            part.save_pretrained(folder / name)
    index["expand_timesteps"] = row.token_times
    if row.experts == 2:
        index["boundary_ratio"] = row.recipe.boundary_ratio
    (folder / "model_index.json").write_text(json.dumps(index), "utf-8")
    return folder
