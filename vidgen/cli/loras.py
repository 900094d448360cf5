"""`vidgen loras`: which LoRAs a folder has, and which of a model's layers one matches."""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter, table
from vidgen.errors import BadRequest, NotFound
from vidgen.lora_files import LoraFacts, inspect_lora, lora_facts
from vidgen.models import resolve
from vidgen.request import parse_request

loras = App(name="loras", help="List LoRAs and check which of a model's layers they match.")


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
    rows: list[dict[str, Any]] = []
    damaged: list[str] = []
    for path in sorted(folder.rglob("*.safetensors")):
        try:
            facts = lora_facts(path)
        except BadRequest as error:
            damaged.append(error.message)
            continue
        if facts is not None:
            rows.append(_described(facts))
    text = table(
        ("FILE", "MODULES", "RANK", "SIZE"),
        [
            (r["file"], str(r["modules"]), ", ".join(map(str, r["ranks"])),
             f"{r['bytes'] / 2**20:.1f} MiB")
            for r in rows
        ],
    ) if rows else f"No LoRA lies in {folder}."  # fmt: skip
    Reporter(common).answer({"loras": rows, "damaged": damaged}, "\n".join([text, *damaged]))


def _described(facts: LoraFacts) -> dict[str, Any]:
    """Return what a LoRA's header says."""
    return {
        "file": str(facts.path),
        "modules": len(facts.modules),
        "ranks": list(facts.ranks),
        "bytes": facts.path.stat().st_size,
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
    inspect_lora(spec.path)
    from vidgen.cli.making import quiet_libraries

    os.environ["HF_HUB_OFFLINE"] = "1"  # a check fetches nothing
    quiet_libraries()
    import diffusers
    import torch

    from vidgen.loras import match, read_lora

    cls = getattr(diffusers, row.family.transformer)
    with torch.device("meta"):
        expert = cls.from_config(dict(row.configs.transformer))
    found = read_lora(getattr(diffusers, row.family.pipelines[0][1]), spec.path)
    labels = ("high", "low") if row.family.experts == 2 else ("high",)
    reports = [
        match(found, expert, spec, label)[1] for label in labels if spec.target in ("both", label)
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
