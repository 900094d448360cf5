"""Held: a chain in whose folder the clips of a finished file still lie, to go on from in float."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaining.extend import Original
from chaining.files import read_json
from chaining.manifest import NAME, read_manifest
from chaining.takes import RECORD, SCHEMA
from vidgen.errors import BadMedia
from vidgen.media import read_recipe


@dataclass(frozen=True, slots=True)
class Held:
    """A chain up to the end of one of its shots.

    story      as the file's recipe tells it, of these shots only
    last_clip  number of making of the clip after which new ones follow
    shots      how many there are
    """

    folder: Path
    story: dict[str, Any]
    last_clip: int
    shots: int


def find_held(original: Original, folder: Path) -> Held | str:
    """Return the chain that made a file; or one sentence that says why it cannot be gone on with.

    folder  where the chain is looked for
    """
    try:
        recipe = json.loads(read_recipe(original.path) or "{}")
        return _find(original, folder, recipe)
    except BadMedia as error:
        return error.message
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return f"The recipe of {original.path.name} is damaged."


def _find(original: Original, folder: Path, recipe: dict[str, Any]) -> Held | str:
    name = original.path.name
    if "vidgen_chain" not in recipe or "extends" in recipe:
        return f"{name} is no file of a chain."
    if not (folder / NAME).is_file():
        return f"{folder}, where the clips of {name} would be, holds no chain."
    clips = recipe["chain"]["clips"]
    if original.info.has_audio or clips[-1]["stop"] != original.info.num_frames:
        return f"{name} was finished or cut since its chain made it."
    if not all(_is_held(folder, clip) for clip in clips):
        return f"The clips in {folder} are no longer those of {name}."
    return _up_to(original, folder, recipe)


def _is_held(folder: Path, clip: dict[str, Any]) -> bool:
    take = read_manifest(folder).chosen.get(str(clip["clip"]))
    if take is None:
        return False
    record = read_json(folder / "takes" / take / RECORD, "vidgen_take", SCHEMA)
    return bool(record["pixels_sha256"] == clip["pixels_sha256"])


def _up_to(original: Original, folder: Path, recipe: dict[str, Any]) -> Held | str:
    """Find the clip that ends with the frame to go on from; it must be the last of its shot."""
    planned = {clip["index"]: clip for clip in read_manifest(folder).schedule["clips"]}
    ends = {}
    for clip in recipe["chain"]["clips"]:
        ends[planned[clip["clip"]]["shot"]] = (clip["stop"], clip["clip"])
    shot = next((shot for shot, (stop, _) in ends.items() if stop == original.kept), None)
    if shot is None:
        frames = ", ".join(str(stop - 1) for stop, _ in ends.values())
        return (
            f"Frame {original.kept - 1} ends no shot of {original.path.name}; its shots end with "
            f"frame {frames}."
        )
    story = dict(recipe["story"])
    shots = [dict(item) for item in story["shots"][: shot + 1]]
    if shot == len(story["shots"]) - 1:
        shots[-1]["last_image"] = shots[-1]["last_image"] or story["end_image"]
    story |= {"shots": shots, "end_image": None, "seed": recipe["seed"]}
    return Held(folder, story, ends[shot][1], shot + 1)
