"""Final latents on disk: written before they are decoded, so that no decode can lose a run."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vidgen.errors import BadMedia, BadRequest, NotFound
from vidgen.media.disk import check_folder
from vidgen.models import Model
from vidgen.recipe import check_decodable, parse_recipe, recipe_text


@dataclass(frozen=True, slots=True, eq=False)
class SavedLatents:
    """Latents with the recipe that made them.

    latents  float32 (channels, latent frames, rows, columns), as the transformer sees them
    """

    latents: torch.Tensor
    recipe: dict[str, Any]


def latents_hash(latents: torch.Tensor) -> str:
    """Return the sha256 of latents, by which two runs are called equal."""
    data = latents.detach().to("cpu", torch.float32).contiguous()
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()


def save_latents(path: Path, latents: torch.Tensor, recipe: dict[str, Any]) -> None:
    """Write latents and recipe as one safetensors file, whole or not at all."""
    write_tensors(path, {"latents": latents.to(torch.float32)}, recipe)


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], recipe: dict[str, Any]) -> None:
    """Write tensors and a recipe as one safetensors file, whole or not at all."""
    from safetensors.torch import save

    data = save(
        {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()},
        metadata={"vidgen": recipe_text(recipe)},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Raise DoesNotFit now if latents could not be written there after the work is done."""
    check_folder(path.parent, "choose another folder, or keep_latents=never")


def load_latents(path: Path) -> SavedLatents:
    """Read what `save_latents` wrote.

    Raises  NotFound, BadMedia
    """
    tensors, metadata = read_tensors(path)
    latents = tensors.get("latents")
    if latents is None:
        raise BadMedia(f"{path} is not a file of latents (it has no tensor of that name).")
    unfinished = latents.ndim == 5  # those of a whole batch, which nothing else keeps
    if unfinished and "unfinished" in parse_recipe(metadata.get("vidgen"), str(path)):
        raise BadMedia(
            f"{path} is of a run that was stopped while denoising; `vidgen decode` goes on with it."
        )
    if latents.ndim != 4 or latents.dtype != torch.float32 or not torch.isfinite(latents).all():
        raise BadMedia(
            f"{path} holds {str(latents.dtype).removeprefix('torch.')} latents of shape "
            f"{tuple(latents.shape)}; finite 4-D ones in float32 are needed."
        )
    recipe = parse_recipe(metadata.get("vidgen"), str(path))
    check_decodable(recipe, str(path))
    if latents_hash(latents) != recipe["latents_sha256"]:
        raise BadMedia(f"{path} was changed: its latents are not those of its recipe.")
    return SavedLatents(latents, recipe)


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read every tensor of a safetensors file, and its metadata.

    Raises  NotFound, BadMedia
    """
    from safetensors import SafetensorError, safe_open

    try:
        if not path.is_file():
            raise NotFound(f"{path} does not exist.")
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise BadMedia(f"{path} is not a file of latents ({error}).") from error


def check_shape(saved: SavedLatents, channels: int, model: Model) -> None:
    """Raise BadRequest unless latents are of the clip that their recipe tells of, for this model.

    channels  of the latents that the model's VAE decodes
    """
    check_decodable(saved.recipe, "The latents")
    made, family = saved.recipe["plan"], model.family
    frames = family.latent_frames(made["num_frames"])
    wanted = (channels, frames, *(made[side] // family.vae_spatial for side in ("height", "width")))
    if tuple(saved.latents.shape) != wanted:
        raise BadRequest(
            f"The latents have the shape {tuple(saved.latents.shape)}, {model.name} decodes "
            f"{wanted} to {made['width']}x{made['height']} in {made['num_frames']} frames; use the "
            "model that made them."
        )
