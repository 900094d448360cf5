"""Clips of the stock diffusers pipelines on an exported folder; each clip has a seed of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from diffusers import WanPipeline
from numpy.typing import NDArray
from PIL import Image

from benchmarks.train.export import load_i2v
from benchmarks.train.text import MAX_LENGTH
from benchmarks.train.world import BASE_SHAPE, Video

Shape = tuple[int, int, int]  # frames, height, width
BATCH = 8


def call_options(shape: Shape, num_steps: int, guidance: float) -> dict[str, Any]:
    """Return what every call of a stock pipeline on toyworld is told."""
    frames, height, width = shape
    return {
        "height": height,
        "width": width,
        "num_frames": frames,
        "num_inference_steps": num_steps,
        "guidance_scale": guidance,
        "max_sequence_length": MAX_LENGTH,
    }


def text_to_video(
    pipeline: WanPipeline,
    prompts: Sequence[str],
    *,
    shape: Shape = BASE_SHAPE,
    num_steps: int = 20,
    guidance: float = 3.0,
    seed: int = 0,
) -> Iterator[Video]:
    """Clips one by one; clip i has the seed `seed + i`, whatever the batch.

    Larger shapes run in smaller batches, so that memory stays as it is.
    """
    batch = max(1, BATCH * int(np.prod(BASE_SHAPE)) // int(np.prod(shape)))
    for start in range(0, len(prompts), batch):
        part = list(prompts[start : start + batch])
        generators = [torch.Generator().manual_seed(seed + start + i) for i in range(len(part))]
        output = pipeline(
            prompt=part,
            generator=generators,
            output_type="np",
            **call_options(shape, num_steps, guidance),
        )
        yield from (np.asarray(clip, np.float32) for clip in output.frames)


def image_to_video(
    pipeline: WanPipeline,
    prompts: Sequence[str],
    pictures: Sequence[NDArray[np.float32]],
    *,
    num_steps: int = 20,
    guidance: float = 3.0,
    seed: int = 0,
) -> Iterator[Video]:
    """Clips one by one from first frames in 0..1."""
    i2v = load_i2v(pipeline)
    for i, (prompt, picture) in enumerate(zip(prompts, pictures, strict=True)):
        output = i2v(
            image=Image.fromarray((picture * 255).round().astype(np.uint8)),
            prompt=prompt,
            generator=torch.Generator().manual_seed(seed + i),
            output_type="np",
            **call_options(BASE_SHAPE, num_steps, guidance),
        )
        yield np.asarray(output.frames[0], np.float32)
