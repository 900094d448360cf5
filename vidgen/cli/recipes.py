"""Finding the recipe in any file that Vidgen wrote, without torch."""

from pathlib import Path
from typing import Any

from vidgen.media import read_recipe
from vidgen.media.source import existing_file
from vidgen.recipe import chain_of, latents_recipe, parse_recipe
from vidgen.recipe_check import check_recipe


def is_latents(path: Path) -> bool:
    """Whether a file is one of latents."""
    return path.suffix.lower() == ".safetensors"


def recipe_of(path: Path) -> dict[str, Any]:
    """Return the recipe in a clip, a folder of frames, a still or a file of latents.

    Raises  NotFound, BadMedia
    """
    recipe = parse_recipe(_text_of(path), str(path))
    check_recipe(recipe, str(path))
    return recipe


def chain_recipe_of(path: Path) -> dict[str, Any] | None:
    """Return the recipe of a video made of many clips, None for anything else.

    Raises  NotFound, BadMedia
    """
    return chain_of(_text_of(path))


def _text_of(path: Path) -> str | None:
    return latents_recipe(existing_file(path)) if is_latents(path) else read_recipe(path)
