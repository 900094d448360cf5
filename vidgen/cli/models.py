"""`vidgen models`: which models there are, whether they are whole, what sizes are legal."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter, pairs, table
from vidgen.errors import BadRequest, NotFound, Unsupported
from vidgen.families import TASK_WORDS, Family
from vidgen.hub import cached_folder, fetch
from vidgen.models import DEFAULT_MODEL, KNOWN, TOYWORLD_FOLDER, Model, refuse_pickles, resolve
from vidgen.request_names import RESOLUTIONS, at_resolution
from vidgen.sizing import legal_size, token_grid
from vidgen.weights_file import safetensors_header

models = App(name="models", help="List, check and fetch models; legal sizes.")
_ASPECTS = ("16:9", "4:3", "1:1", "9:16")
_MODEL = Parameter(help="A known name, a local folder or a hub id.")


@models.command(name="ls")
@flowing
def list_models(*, common: CommonOf = Common()) -> None:  # noqa: B008 - frozen
    """List the models that can be asked for by name.

    toyworld, the default, is a small bundled toy world; the others are real models, whose weights
    come from the hub. A local folder in diffusers' format and other hub ids can be named too.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": DEFAULT_MODEL,
            "family": DEFAULT_MODEL,
            "here": (TOYWORLD_FOLDER / "model_index.json").is_file(),
            "weights": "bundled",
            "licence": "Apache-2.0",
            "about": "a toy world, the default: coloured things move over plain grounds",
        },
        *(_listed(row) for row in KNOWN),
    ]
    text = table(
        ("NAME", "HERE", "WEIGHTS", "ABOUT"),
        [(r["name"], "yes" if r["here"] else "no", r["weights"], r["about"]) for r in rows],
    )
    hint = "\nOther models of these families: --model FOLDER, or --model OWNER/NAME from the hub."
    Reporter(common).answer({"models": rows}, text + hint)


def _listed(row: Model) -> dict[str, Any]:
    return {
        "name": row.name,
        "family": row.family.name,
        "here": cached_folder(row.hub_id) is not None,
        "weights": row.hub_id,
        "licence": row.licence,
        "about": row.about,
    }


@models.command(name="check")
def check_model(
    model: Annotated[str, _MODEL],
    /,
    *,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Check that a model's folder is whole, without loading its weights; exit code 4 if not."""
    row = resolve(model)
    folder = row.folder or cached_folder(row.hub_id)
    if folder is None:
        raise NotFound(
            f"{row.name} ({row.hub_id}) is not on this disk; `vidgen models pull {row.name}` "
            "fetches it.",
            field="model",
        )
    refuse_pickles(folder)
    parts = [_part(folder, name) for name in _needed(row.family)]
    whole = all(not part["missing"] for part in parts)
    facts = {"model": row.name, "family": row.family.name, "folder": str(folder), "parts": parts,
             "whole": whole}  # fmt: skip
    rows = [
        (part["part"], f"{part['bytes'] / 2**20:.1f} MiB" if not part["missing"]
         else f"missing: {', '.join(part['missing'])}")
        for part in parts
    ]  # fmt: skip
    head = [("model", f"{row.name} ({row.family.title})"), ("folder", str(folder))]
    Reporter(common).answer(facts, pairs([*head, *rows, ("whole", "yes" if whole else "no")]))
    return 0 if whole else NotFound.exit_code


def _needed(family: Family) -> list[str]:
    names = ["tokenizer", "text_encoder", "transformer", "vae", "scheduler"]
    if family.experts == 2:
        names.append("transformer_2")
    if family.image_encoder:
        names += ["image_encoder", "image_processor"]
    return names


def _part(folder: Path, name: str) -> dict[str, Any]:
    """Say what of a part is missing: its configuration, or files of its weights."""
    part = folder / name
    missing = []
    if not any(part.glob("*.json")):
        missing.append("configuration")
    weights = sorted(part.glob("*.safetensors"))
    if name not in ("tokenizer", "scheduler", "image_processor"):
        missing += _missing_weights(part, weights)
    size = sum(path.stat().st_size for path in part.glob("*") if path.is_file())
    return {"part": name, "bytes": size, "missing": missing}


def _missing_weights(part: Path, weights: list[Path]) -> list[str]:
    """Return the weight files that are absent, or shorter than their own header says."""
    lost = [] if weights else ["*.safetensors"]
    for index in part.glob("*.safetensors.index.json"):
        try:
            named = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            lost.append(f"a readable {index.name}")
            continue
        lost += sorted(named - {path.name for path in weights})
    return lost + [f"the end of {path.name}" for path in weights if not _is_whole(path)]


def _is_whole(path: Path) -> bool:
    """Whether a safetensors file is as long as its header says."""
    try:
        return path.stat().st_size == safetensors_header(path).whole_bytes
    except BadRequest:
        return False


@models.command(name="sizes")
def sizes(
    model: Annotated[str, _MODEL] = DEFAULT_MODEL,
    /,
    *,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Show a model's legal sizes and frame counts, and what common ones become."""
    row = resolve(model)
    family, recipe = row.family, row.family.recipe
    across, down = family.size_multiple
    rows = [_size_row(row, recipe.width, recipe.height, "default")]
    for name in RESOLUTIONS:
        for aspect in _ASPECTS:
            width, height = at_resolution(aspect, name).values()
            if width * height <= 2 * recipe.max_pixels_seen:
                rows.append(_size_row(row, width, height, f"{name} {aspect}"))
    data = {
        "model": row.name,
        "width_multiple": across,
        "height_multiple": down,
        "frames": f"{family.vae_temporal}n+1",
        "default_frames": recipe.num_frames,
        "fps": recipe.fps,
        "max_frames_trained": recipe.max_frames_seen,
        "tasks": list(family.tasks),
        "sizes": rows,
    }
    head = pairs([
        ("model", row.name),
        ("tasks", ", ".join(TASK_WORDS[task] for task in family.tasks)),
        ("width", f"multiples of {across}; others are made larger and cropped in the file"),
        ("height", f"multiples of {down}"),
        ("frames", f"{family.vae_temporal}n+1: {recipe.num_frames} by default, trained up to "
                   f"{recipe.max_frames_seen}"),
        ("rate", f"{recipe.fps} fps"),
    ])  # fmt: skip
    listed = table(
        ("ASKED", "FILE", "MADE", "TOKENS", "NOTE"),
        [(r["asked"], r["file"], r["made"], f"{r['tokens']:,}", r["note"]) for r in rows],
    )
    Reporter(common).answer(data, f"{head}\n\n{listed}")


def _size_row(row: Model, width: int, height: int, asked: str) -> dict[str, Any]:
    size, _ = legal_size(width, height, row.family, even=True)
    recipe = row.family.recipe
    large = size.width * size.height > recipe.max_pixels_seen
    return {
        "asked": asked,
        "file": f"{size.export_width}x{size.export_height}",
        "made": f"{size.width}x{size.height}",
        "tokens": token_grid(size, recipe.num_frames, row.family).tokens,
        "note": "larger than the model was trained on" if large else "",
    }


@models.command(name="pull")
def pull(
    model: Annotated[str, _MODEL],
    /,
    *,
    offline: Annotated[bool, Parameter(help="Never use the network.", show_default=False)] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Fetch a model from the hub into the local cache; only safetensors, never pickles."""
    hub_id = _hub_id(model)
    folder = cached_folder(hub_id)
    if folder is None and offline:
        raise NotFound(f"{hub_id} is not in the local cache and --offline forbids the network.",
                       field="model")  # fmt: skip
    folder = fetch(hub_id) if not offline else folder
    assert folder is not None
    refuse_pickles(folder)
    Reporter(common).answer({"model": model, "folder": str(folder)}, f"{hub_id}  {folder}")


def _hub_id(model: str) -> str:
    known = {row.name: row.hub_id for row in KNOWN}
    if model in known:
        return known[model]
    if model == DEFAULT_MODEL or Path(model).is_dir():
        raise Unsupported(f"{model} is on this disk already; nothing to fetch.", field="model")
    if model.count("/") != 1:
        resolve(model)
    return model
