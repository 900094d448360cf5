"""A quick reading of a run in progress: samples decoded through the analytic basis and detected.

Needs no VAE; the shipped numbers come from `evaluate.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.train.data import load_basis
from benchmarks.train.detector import detect
from benchmarks.train.evaluate import held_out_prompts
from benchmarks.train.export import load_model
from benchmarks.train.sample import sample
from benchmarks.train.sheets import contact_sheet
from benchmarks.train.tally import tally
from benchmarks.train.text import build_tokenizer
from benchmarks.train.world import Video, draw_path, render


def look(
    work: Path,
    sheets: Path,
    *,
    number: int = 24,
    guidance: float = 3.0,
    shift: float = 3.0,
    num_steps: int = 20,
    averaged: bool = True,
    seed: int = 0,
) -> dict[str, Any]:
    """Readings of text-to-video and image-to-video on held-out prompts."""
    model, basis, tokenizer = (
        load_model(work, averaged=averaged),
        load_basis(work),
        build_tokenizer(),
    )
    scale = torch.from_numpy(basis.scale_z).view(1, -1, 1, 1, 1)
    pairs = held_out_prompts(number, seed)
    scenes, prompts = [scene for scene, _ in pairs], [text for _, text in pairs]
    rng = np.random.default_rng([seed, 12])
    truths = np.stack([render(scene, draw_path(rng, scene)) for scene in scenes])
    clean = basis.encode(torch.from_numpy(truths) * 2 - 1) * scale
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed))
    first = torch.arange(clean.shape[2]) == 0
    options: dict[str, Any] = {"guidance": guidance, "shift": shift, "num_steps": num_steps}
    result: dict[str, Any] = {}
    for name, pins in (("t2v", None), ("i2v", first)):
        latents = sample(model, tokenizer, prompts, noise, pinned=clean, pins=pins, **options)
        clips = [_picture(clip) for clip in basis.decode(latents / scale)]
        result[name] = tally(scenes, [detect(clip) for clip in clips])
        contact_sheet(zip(prompts[:12], clips[:12], strict=False), sheets / f"look-{name}.png")
    return result


def summary(result: dict[str, Any]) -> str:
    """One line per mode: the shares in per cent."""
    lines = []
    for mode, table in result.items():
        shares = [
            f"{name} {100 * entry['share']:.0f}"
            for name, entry in table.items()
            if isinstance(entry, dict) and "share" in entry
        ]
        lines.append(f"{mode}: {' '.join(shares)} spurious {table['spurious per clip']:.2f}")
    return "\n".join(lines)


def _picture(pixels_trc3: Tensor) -> Video:
    return ((pixels_trc3.clamp(-1, 1) + 1) / 2).numpy()
