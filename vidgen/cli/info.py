"""`vidgen info`: what is in a file and how it was made; loads no model."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.recipes import chain_recipe_of, is_latents, recipe_of
from vidgen.cli.report import Reporter, pairs
from vidgen.errors import BadMedia, VidgenError

_STILLS = (".png", ".jpg", ".jpeg", ".webp")


@flowing
def info(
    file: Annotated[Path, Parameter(help="A clip, a folder of frames, a still or latents.")],
    /,
    *,
    verify: Annotated[
        bool,
        Parameter(
            help="Hash the model and the LoRAs again; exit code 1 when they changed.",
            show_default=False,
        ),
    ] = False,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Show how a file was made and what is in it."""
    reporter = Reporter(common)
    stream = _stream(file)
    chain = None if verify else _chain(file)
    if chain is not None:
        found = {"file": str(file), "stream": stream, "recipe": chain, "no_recipe": None}
        reporter.answer(found, pairs([*_stream_rows(file, stream), *_chain_rows(chain)]))
        return 0
    try:
        recipe, missing = recipe_of(file), None
    except BadMedia as error:
        if verify:
            raise
        recipe, missing = None, error.message
    checks = _verify(recipe) if verify and recipe is not None else []
    data: dict[str, Any] = {
        "file": str(file), "stream": stream, "recipe": recipe, "no_recipe": missing,
    }  # fmt: skip
    if verify:
        data["verify"] = checks
    reporter.answer(data, _text(file, stream, recipe, missing, checks))
    return 0 if all(check["ok"] for check in checks) else 1


def _chain(file: Path) -> dict[str, Any] | None:
    """Return the recipe of a video of many clips; what cannot be read is told with the recipe."""
    try:
        return chain_recipe_of(file)
    except BadMedia:
        return None


def _stream(file: Path) -> dict[str, Any] | None:
    """Return the facts of a video's stream, None for what is no video."""
    if is_latents(file) or file.is_dir() or file.suffix.lower() in _STILLS:
        return None
    from vidgen.media import probe_video

    found = dataclasses.asdict(probe_video(file))
    found["fps"] = str(found["fps"])
    return found


def _verify(recipe: dict[str, Any]) -> list[dict[str, Any]]:
    """Compare the weights that are here now with those that the recipe names."""
    from vidgen.components import locate
    from vidgen.models import resolve
    from vidgen.recipe import file_fingerprints, request_of
    from vidgen.weights_file import folder_fingerprint

    model = recipe["plan"]["model"]
    try:
        weights = folder_fingerprint(locate(resolve(model), offline=True))
    except VidgenError as error:
        weights = error.message
    had = recipe["weights"]
    checks = [{"what": f"model {model}", "ok": weights == had, "had": had, "now": weights}]
    here = file_fingerprints(request_of(recipe))
    for path, had in recipe["files"].items():
        now = here.get(path, "missing")
        checks.append({"what": f"file {path}", "ok": now == had, "had": had, "now": now})
    return checks


def _text(
    file: Path,
    stream: dict[str, Any] | None,
    recipe: dict[str, Any] | None,
    missing: str | None,
    checks: list[dict[str, Any]],
) -> str:
    rows = _stream_rows(file, stream)
    if recipe is None:
        return "\n".join([pairs(rows), missing or ""])
    rows += _recipe_rows(recipe)
    for check in checks:
        told = "as it was" if check["ok"] else f"changed: was {check['had']}, is {check['now']}"
        rows.append(("verify", f"{check['what']} {told}"))
    return pairs(rows)


def _stream_rows(file: Path, stream: dict[str, Any] | None) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = [("file", str(file))]
    if stream is not None:
        rows += [
            ("picture", f"{stream['width']}x{stream['height']}, {stream['pixel_format']}, "
                        f"{stream['codec']} in {stream['container']}"),
            ("length", f"{stream['num_frames']} frames at {stream['fps']} fps, "
                       f"{stream['duration_seconds']:.3f} s"
                       + (", varying rate" if stream["variable_rate"] else "")),
            ("colour", f"matrix {stream['matrix']}, primaries {stream['primaries']}, transfer "
                       f"{stream['transfer']}, range {stream['range']}"),
            ("sound", "yes" if stream["has_audio"] else "no"),
        ]  # fmt: skip
        rows += [
            ("assumed", f"{item['field']}: {item['used']} ({item['why']})")
            for item in stream["assumptions"]
        ]
    return rows


def _chain_rows(chain: dict[str, Any]) -> list[tuple[str, str]]:
    """Say what a video of many clips is made of, a row for each clip."""
    identity, clips = chain["identity"], chain["chain"]["clips"]
    return [
        ("chain", f"{len(clips)} clips of {identity['model']}, seed {chain['seed']}"),
        *(
            (
                f"clip {number}",
                f"frames {clip['start']} to {clip['stop'] - 1}, {clip['strategy']}, "
                f"seed {clip['seed']}: {clip['prompt']}",
            )
            for number, clip in enumerate(clips, start=1)
        ),
        *(
            ("adjusted", f"{item['field']}: {item['asked']} -> {item['used']} ({item['why']})")
            for item in chain["adjustments"]
        ),
    ]


def _recipe_rows(recipe: dict[str, Any]) -> list[tuple[str, str]]:
    made, trace = recipe["plan"], recipe.get("trace", {})
    size, written = (f"{made[p + 'width']}x{made[p + 'height']}" for p in ("", "export_"))
    given = {k: v for k, v in recipe["request"].items() if k != "prompt"}
    steps = f"{made['steps']}, {made['scheduler']}, shift {made['flow_shift']:g}"
    return [
        ("prompt", recipe["request"]["prompt"]),
        ("asked", ", ".join(f"{name}={value}" for name, value in given.items())),
        ("model", f"{made['model']} ({made['family']}), weights {recipe['weights']}"),
        ("task", made["task"]),
        ("made", f"{size}, file {written}, {made['num_frames']} frames at {made['fps']} fps"),
        ("seed", str(made["seed"])),
        ("steps", f"{steps}, guidance {made['guidance_scale']:g}"),
        ("numbers", f"{made['dtype']}, VAE {made['vae_dtype']}, {made['attention']} attention by "
                    f"{made['attention_backend']}"),
        ("fidelity", made["fidelity"]),
        ("latents", f"sha256 {recipe['latents_sha256']}"),
        ("took", ", ".join(f"{k} {v:.2f} s" for k, v in trace.get("seconds", {}).items())),
        ("made with", ", ".join(f"{k} {v}" for k, v in recipe["environment"].items())),
        *(("adjusted", f"{i['field']}: {i['asked']} -> {i['used']} ({i['why']})")
          for i in recipe["adjustments"]),
        *(("note", text) for text in made.get("notes", [])),
        *(("finished", str(step)) for step in recipe.get("finish", [])),
    ]  # fmt: skip
