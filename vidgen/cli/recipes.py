"""Finding the recipe in any file that Vidgen wrote, without torch."""

from pathlib import Path
from typing import Any

from vidgen.errors import NotFound
from vidgen.recipe import latents_recipe, parse_recipe


def is_latents(path: Path) -> bool:
    """Whether a file is one of latents."""
    return path.suffix.lower() == ".safetensors"


def recipe_of(path: Path) -> dict[str, Any]:
    """Return the recipe in a clip, a folder of frames, a still or a file of latents.

    Raises  NotFound, BadMedia
    """
    if not path.exists():
        raise NotFound(f"{path} does not exist.")
    if is_latents(path):
        return parse_recipe(latents_recipe(path), str(path))
    from vidgen.media import read_recipe

    return parse_recipe(read_recipe(path), str(path))
