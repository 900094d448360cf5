"""The model card: what the weights are, how they were made, and what was measured."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any

import torch

from benchmarks.train.tables import acceptance_table, markdown
from benchmarks.train.world import (
    BACKGROUNDS,
    COLOURS,
    HELD_OUT_SHARE,
    SHAPES,
    SIZES,
    SPEEDS,
    all_scenes,
)

_TEMPLATE = Path(__file__).with_name("card.md")


def write_card(
    path: Path,
    work: Path,
    result: dict[str, Any],
) -> None:
    """Write the card of an export from its report and the counts in its checkpoints."""
    dit = torch.load(work / "dit.pt", map_location="cpu", weights_only=True)
    vae = torch.load(work / "vae.pt", map_location="cpu", weights_only=True)
    parts = (
        ("transformer", "WanTransformer3DModel", _count(dit["model"], "dit.")),
        ("text_encoder", "UMT5EncoderModel", _count(dit["model"], "text.")),
        ("vae", "AutoencoderKLWan", _count(vae["vae"], "")),
    )
    compute = "\n".join(
        f"{name}: {counts['step']:,} steps, {counts['clips']:,} clips or crops seen, "
        f"{counts['cpu_seconds']:,.0f} CPU seconds on one thread.  "
        for name, counts in (("Transformer", dit["counts"]), ("VAE", vae["counts"]))
    )
    words = (*COLOURS, *SHAPES, *SIZES, "large", "little", "left", "right", "up", "down", "still")
    path.write_text(
        Template(_TEMPLATE.read_text()).substitute(
            shapes=", ".join(SHAPES[:-1]) + " or " + SHAPES[-1],
            backgrounds=", ".join(BACKGROUNDS),
            words=", ".join((*words, *SPEEDS, "fast", "gently", *BACKGROUNDS)),
            parts="\n".join(f"| {a} | {b} | {c / 1e6:.2f} M |" for a, b, c in parts),
            num_scenes=f"{len(all_scenes()):,}",
            held_out=f"{100 * HELD_OUT_SHARE:.0f}",
            compute=compute,
            date=result["date"],
            steps=result["settings"]["steps"],
            guidance=f"{result['settings']['guidance']:g}",
            table=markdown(result),
            acceptance=acceptance_table(result["acceptance"]),
            cpu=f"{result['cpu_seconds_per_clip']:.1f}",
            command=result["command"],
        )
    )


def _count(weights: dict[str, torch.Tensor], prefix: str) -> int:
    """Number of parameters whose name begins with a prefix; tied copies count once."""
    seen = {
        weight.data_ptr(): weight.numel()
        for name, weight in weights.items()
        if name.startswith(prefix)
    }
    return sum(seen.values())
