"""Modelling: what clients see of a model, from the tables of models and families."""

from functools import lru_cache
from typing import Any

from server.problems import Problem
from vidgen.families import TASK_WORDS
from vidgen.hub import cached_folder
from vidgen.models import DEFAULT_MODEL, Model, known_names, resolve
from vidgen.request_names import RESOLUTIONS
from vidgen.sizing import legal_size, token_grid

_ASPECTS = ((16, 9), (4, 3), (1, 1), (3, 4), (9, 16))
_MADE = 1764460800  # the day of this table; models have no other date here


def model_facts(name: str) -> dict[str, Any]:
    """Return what clients see of a known model.

    Raises  Problem not_found
    """
    if name not in known_names():
        raise Problem("not_found", f"There is no model {name[:80]!r}; see /v1/models.")
    found = resolve(name)
    return {**_facts(name), "installed": _installed(found)}


def _installed(model: Model) -> bool:
    return model.folder is not None or cached_folder(model.hub_id) is not None


@lru_cache(maxsize=64)
def _facts(name: str) -> dict[str, Any]:
    model = resolve(name)
    family, recipe = model.family, model.recipe
    across, down = family.size_multiple
    return {
        "id": model.name,
        "object": "model",
        "created": _MADE,
        "owned_by": "vidgen" if name == DEFAULT_MODEL else model.hub_id.partition("/")[0],
        "hub_id": model.hub_id or None,
        "about": model.about or family.title,
        "licence": model.licence or "Apache-2.0",
        "family": family.name,
        "tasks": {task: TASK_WORDS[task] for task in family.tasks},
        "width_multiple": across,
        "height_multiple": down,
        "frames_step": family.vae_temporal,
        "frames_rule": f"{family.vae_temporal}n+1",
        "text_length": family.text_length,
        "max_frames_trained": recipe.max_frames_seen,
        "max_pixels_trained": recipe.max_pixels_seen,
        "defaults": {
            "width": recipe.width,
            "height": recipe.height,
            "num_frames": recipe.num_frames,
            "fps": recipe.fps,
            "num_inference_steps": recipe.num_inference_steps,
            "guidance_scale": recipe.guidance_scale,
            "guidance_scale_2": recipe.guidance_scale_2,
            "flow_shift": recipe.shift_for(recipe.width, recipe.height),
            "scheduler": recipe.scheduler,
            "strength": recipe.strength,
            "negative_prompt": recipe.negative_prompt,
        },
        "sizes": _sizes(model),
    }


def _sizes(model: Model) -> list[dict[str, Any]]:
    recipe = model.recipe
    asked = [(recipe.width, recipe.height, "default")]
    for name, side in RESOLUTIONS.items():
        for wide, high in _ASPECTS:
            longer = side * max(wide, high) // min(wide, high)
            pair = (longer, side) if wide >= high else (side, longer)
            if pair[0] * pair[1] <= 2 * recipe.max_pixels_seen:
                asked.append((*pair, f"{name} {wide}:{high}"))
    return [_size(model, width, height, name) for width, height, name in asked]


def _size(model: Model, width: int, height: int, name: str) -> dict[str, Any]:
    recipe = model.recipe
    size, _ = legal_size(width, height, model.family, even=True)
    return {
        "name": name,
        "width": size.export_width,
        "height": size.export_height,
        "made_width": size.width,
        "made_height": size.height,
        "tokens": token_grid(size, recipe.num_frames, model.family).tokens,
        "trained": size.width * size.height <= recipe.max_pixels_seen,
    }
