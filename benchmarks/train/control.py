"""The control: the same architecture and VAE with weights that were never trained."""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from transformers import UMT5EncoderModel

from benchmarks.train.export import load_t2v


def write_untrained(folder: Path, target: Path, seed: int = 0) -> None:
    """Write a copy of a pipeline folder whose transformer and text encoder are random."""
    pipeline = load_t2v(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        pipeline.register_modules(
            transformer=WanTransformer3DModel.from_config(pipeline.transformer.config).eval(),
            text_encoder=UMT5EncoderModel(pipeline.text_encoder.config).eval(),
        )
    pipeline.save_pretrained(target, safe_serialization=True)
