"""`vidgen loras`: which LoRAs a folder has, and which of a model's layers one matches."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter, table
from vidgen.errors import NotFound
from vidgen.models import resolve
from vidgen.request import parse_request

loras = App(name="loras", help="List LoRAs and check which of a model's layers they match.")
_MARKS = ("lora_A", "lora_B", "lora_down", "lora_up")


@loras.command(name="ls")
def list_loras(
    folder: Annotated[Path, Parameter(help="Where to look, with all below it.")] = Path(),
    /,
    *,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """List the LoRAs in a folder; reads headers only."""
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist.")
    found = [_described(path) for path in sorted(folder.rglob("*.safetensors"))]
    rows = [item for item in found if item is not None]
    text = table(
        ("FILE", "MODULES", "RANK", "SIZE"),
        [
            (r["file"], str(r["modules"]), ", ".join(map(str, r["ranks"])),
             f"{r['bytes'] / 2**20:.1f} MiB")
            for r in rows
        ],
    ) if rows else f"No LoRA lies in {folder}."  # fmt: skip
    Reporter(common).answer({"loras": rows}, text)


def _described(path: Path) -> dict[str, Any] | None:
    """Return what a LoRA's header says, None for a file that is no LoRA."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size < 2**27:
            return None
        try:
            header = json.loads(file.read(size))
        except ValueError:
            return None
    shapes = {key: item["shape"] for key, item in header.items() if key != "__metadata__"}
    down = {key: shape for key, shape in shapes.items() if "lora_A" in key or "lora_down" in key}
    if not any(mark in key for key in shapes for mark in _MARKS):
        return None
    return {
        "file": str(path),
        "modules": len(down),
        "ranks": sorted({shape[0] for shape in down.values()}),
        "bytes": path.stat().st_size,
    }


@loras.command(name="check")
@flowing
def check_lora(
    lora: Annotated[str, Parameter(help="A safetensors file, or PATH:WEIGHT:high|low.")],
    /,
    *,
    model: Annotated[str, Parameter(help="A known name, a local folder or a hub id.")],
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Count the modules of a LoRA that a model has; loads no weights of the model.

    Exit code 2 when none matches.
    """
    row = resolve(model)
    spec = parse_request({"prompt": "-", "loras": [lora]}).loras[0]
    from vidgen.cli.making import quiet_libraries

    quiet_libraries(offline=True)
    import diffusers
    import torch

    from vidgen.loras import lora_file, match, read_lora

    lora_file(spec.path)
    cls = getattr(diffusers, row.family.transformer)
    with torch.device("meta"):
        expert = cls.from_config(dict(row.configs.transformer))
    converted, named = read_lora(getattr(diffusers, row.family.pipelines[0][1]), spec.path)
    labels = ("high", "low") if row.family.experts == 2 else ("high",)
    reports = [
        match(converted, named, expert, spec, label)[1]
        for label in labels
        if spec.target in ("both", label)
    ]
    data = [
        {"expert": r.expert, "matched": r.matched, "unmatched": r.unmatched,
         "examples": list(r.examples)}
        for r in reports
    ]  # fmt: skip
    lines = []
    for report in reports:
        expert_text = f" ({report.expert} noise expert)" if row.family.experts == 2 else ""
        lines.append(f"{spec.path}{expert_text}: {report.matched} modules match {row.name}, "
                     f"{report.unmatched} do not")  # fmt: skip
        lines += [f"  not in the model: {name}" for name in report.examples]
    Reporter(common).answer({"lora": spec.path, "model": row.name, "experts": data},
                            "\n".join(lines))  # fmt: skip
    return 0 if all(report.matched for report in reports) else 2
