"""Export: the averaged weights of a run as a diffusers folder that stock pipelines load."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLWan,
    FlowMatchEulerDiscreteScheduler,
    WanImageToVideoPipeline,
    WanPipeline,
)
from torch import nn

from benchmarks.train.data import load_basis
from benchmarks.train.dit import Model
from benchmarks.train.text import build_tokenizer
from benchmarks.train.vae import build_vae
from vidgen.budgets import BUDGETS_FILE

SHIFT = 3.0
MAX_BYTES = 24_000_000


def load_model(work: Path, *, averaged: bool = True) -> Model:
    """Transformer and text encoder of the newest checkpoint."""
    state = torch.load(work / "dit.pt", map_location="cpu", weights_only=True)
    model = Model(state["layers"])
    model.load_state_dict(state["model"])
    if averaged:
        _take_average(model, state)
    return model.eval().requires_grad_(False)


def load_vae(work: Path) -> AutoencoderKLWan:
    """VAE of the newest checkpoint, averaged."""
    state = torch.load(work / "vae.pt", map_location="cpu", weights_only=True)
    vae = build_vae(load_basis(work))
    vae.load_state_dict(state["vae"])
    _take_average(vae, state)
    return vae.eval().requires_grad_(False)


def export(work: Path, folder: Path) -> int:
    """Write the pipeline folder in one move, leaving files that are not weights (README) alone.

    Budgets go: they were measured on the weights before.
    Returns     bytes written
    Raises      ValueError if the folder would exceed 24 MB
    """
    model = load_model(work)
    pipeline = WanPipeline(
        tokenizer=build_tokenizer(),
        text_encoder=model.text,
        vae=load_vae(work),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=SHIFT),
        transformer=model.dit,
        expand_timesteps=True,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        fresh = Path(temporary)
        pipeline.save_pretrained(fresh, safe_serialization=True)
        size = sum(path.stat().st_size for path in fresh.rglob("*") if path.is_file())
        if size > MAX_BYTES:
            raise ValueError(f"The folder has {size} bytes; at most {MAX_BYTES} may be shipped.")
        for path in fresh.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (folder / BUDGETS_FILE).unlink(missing_ok=True)
        # model_index.json last: whoever waits for it finds the parts in place.
        for source in sorted(fresh.iterdir(), key=lambda path: path.name == "model_index.json"):
            target = folder / source.name
            if target.is_dir():
                shutil.rmtree(target)
            source.replace(target)
    return size


def load_t2v(folder: Path) -> WanPipeline:
    """The stock text-to-video pipeline on a shipped folder."""
    pipeline = WanPipeline.from_pretrained(folder)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def load_i2v(pipeline: WanPipeline) -> WanImageToVideoPipeline:
    """The stock image-to-video pipeline on the same modules."""
    parts = {
        name: getattr(pipeline, name)
        for name in ("tokenizer", "text_encoder", "vae", "scheduler", "transformer")
    }
    i2v = WanImageToVideoPipeline(
        **parts, image_encoder=None, image_processor=None, expand_timesteps=True
    )
    i2v.set_progress_bar_config(disable=True)
    return i2v


def _take_average(module: nn.Module, state: dict[str, Any]) -> None:
    with torch.no_grad():
        for weight, mean in zip(module.parameters(), state["average"]["mean"], strict=True):
            weight.copy_(mean)
