"""The recipe: everything that made a clip, as JSON that travels inside the file."""

import importlib.metadata
import json
import platform
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vidgen.errors import BadMedia, BadRequest
from vidgen.home import expanded
from vidgen.request import VideoRequest, parse_request
from vidgen.weights_file import file_fingerprint, safetensors_header

if TYPE_CHECKING:
    from vidgen.plan import Plan

SCHEMA = 1
_PACKAGES = ("torch", "diffusers", "transformers", "numpy", "av")


def make_recipe(
    plan: "Plan", index: int, weights: str, latents_sha256: str, inputs: dict[str, str]
) -> dict[str, Any]:
    """Return the recipe of clip `index` of a plan.

    weights         fingerprint of the model's weights
    latents_sha256  hash of the final latents' bytes, by which a repeat is judged
    inputs          hash of each input as it was fitted, by name
    """
    made = plan.as_dict()
    made.pop("estimate")
    request = made.pop("request")
    return {
        "vidgen_recipe": SCHEMA,
        "request": {**request, "seed": plan.seeds[index], "n": 1},
        "plan": {**made, "seed": plan.seeds[index]},
        "weights": weights,
        "files": file_fingerprints(plan.request),
        "latents_sha256": latents_sha256,
        "inputs": inputs,
        "environment": environment(plan.device.name),
    }


def environment(device: str) -> dict[str, str]:
    """Return the versions that can change a result."""
    versions = {"vidgen": importlib.metadata.version("vidgen")}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {**versions, "python": platform.python_version(), "device": device,
            "processor": platform.machine()}  # fmt: skip


def file_fingerprints(request: VideoRequest) -> dict[str, str]:
    """Return the fingerprint of every file that a request names, by the name it has there."""
    named = [request.image, request.last_image, request.video, request.mask]
    named += [*request.reference_images, *(lora.path for lora in request.loras)]
    found = {name: _existing(name) for name in named if name is not None}
    return {name: file_fingerprint(path) for name, path in found.items() if path is not None}


def _existing(name: str) -> Path | None:
    """Return the file that a request means, None for a data URL."""
    if name.startswith("data:"):
        return None
    path = expanded(name)
    if path.is_dir():  # a folder with one LoRA in it
        return next(iter(sorted(path.glob("*.safetensors"))), None)
    return path if path.is_file() else None


def recipe_text(recipe: dict[str, Any]) -> str:
    """Return the recipe as the text that is stored in a file."""
    return json.dumps(recipe, ensure_ascii=False, separators=(",", ":"))


def parse_recipe(text: str | None, where: str) -> dict[str, Any]:
    """Read a recipe's text.

    where   the file it came from, for the message
    Raises  BadMedia when there is none or it is not ours
    """
    if text is None:
        raise BadMedia(f"{where} carries no Vidgen recipe.")
    try:
        recipe = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMedia(f"{where} carries a text that is not a Vidgen recipe.") from None
    if chain_of(text) is not None:
        raise BadMedia(
            f"{where} was made of a chain of clips and is no single clip; `vidgen chain --resume` "
            "goes on with its folder, `vidgen extend` with the file."
        )
    if not isinstance(recipe, dict) or "vidgen_recipe" not in recipe:
        raise BadMedia(f"{where} carries a text that is not a Vidgen recipe.")
    if recipe["vidgen_recipe"] != SCHEMA:
        raise BadMedia(
            f"{where} has a recipe of version {recipe['vidgen_recipe']}; "
            f"this Vidgen reads {SCHEMA}."
        )
    return recipe


def chain_of(text: str | None) -> dict[str, Any] | None:
    """Return the recipe of a video made of many clips, None for any other text."""
    try:
        recipe = json.loads(text or "")
        sound = "vidgen_chain" in recipe and all(
            {"start", "stop", "prompt", "seed", "strategy"} <= set(clip)
            for clip in recipe["chain"]["clips"]
        )
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    return recipe if sound else None


def check_decodable(recipe: dict[str, Any], where: str) -> None:
    """Raise BadMedia when a recipe lacks what a decode of its latents reads.

    where   what carries it, for the message
    """
    numbers = ("width", "height", "export_width", "export_height", "num_frames", "seed")
    try:
        made, trace = recipe["plan"], recipe.get("trace", {})
        sound = (
            Fraction(made["fps"]) > 0
            and all(type(made[name]) is int and made[name] >= 0 for name in numbers)
            and isinstance(recipe["adjustments"], list)
            and isinstance(recipe["latents_sha256"], str)
            and all(isinstance(trace.get(name, {}), dict) for name in ("seconds", "peak_bytes"))
        )
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        sound = False
    if not sound:
        raise BadMedia(f"{where} carries a recipe that is damaged; make the clip again.")


def latents_recipe(path: Path) -> str | None:
    """Return the recipe's text in a latents file's header, None if it has none; reads no tensor."""
    try:
        return safetensors_header(path).metadata.get("vidgen")
    except BadRequest:
        return None


def request_of(recipe: dict[str, Any]) -> VideoRequest:
    """Return the request that repeats a recipe."""
    return parse_request(recipe["request"])
