"""Whole clips of toyworld, sparse against dense: pictures compared and read by the detector."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.train.detector import detect
from benchmarks.train.world import Scene
from vidgen.attention_plan import AttentionPlan
from vidgen.device import this_cpu
from vidgen.engine import Engine
from vidgen.fidelity import psnr_of
from vidgen.plan import plan
from vidgen.request import parse_request

Frames = NDArray[np.float32]


def render(
    engine: Engine,
    prompt: str,
    shape: tuple[int, int, int],
    seed: int,
    attention: AttentionPlan | None = None,
    num_steps: int = 20,
) -> tuple[Frames, float]:
    """Make a clip; returns its frames and the density reached.

    attention  None: dense, by the model's own code
    """
    frames, height, width = shape
    request = parse_request(
        {
            "prompt": prompt, "width": width, "height": height, "num_frames": frames,
            "num_inference_steps": num_steps, "seed": seed, "preview": "off",
        }
    )  # fmt: skip
    made = plan(request, this_cpu())
    if attention is not None:
        made = dataclasses.replace(made, attention=attention)
    clip = engine.run(made, previews=False)
    assert clip.frames is not None
    return clip.frames, clip.trace.density


def compared(frames: Frames, golden: Frames) -> dict[str, float]:
    """Return PSNR in dB (of the whole clip, at most 100) and mean SSIM against the golden clip."""
    from torchmetrics.functional.image import structural_similarity_index_measure

    error = float(np.mean(np.square(frames - golden)))
    found, wanted = (torch.from_numpy(x).permute(0, 3, 1, 2) for x in (frames, golden))
    ssim = structural_similarity_index_measure(found, wanted, data_range=1.0)
    return {"psnr": psnr_of(error), "ssim": float(ssim)}


def read(frames: Frames, scene: Scene) -> dict[str, bool]:
    """Return which attributes of the scene the detector finds."""
    return detect(frames).verdict(scene)


def accuracy(verdicts: Sequence[dict[str, bool]]) -> dict[str, float]:
    """Return the share of clips that show each attribute."""
    names: list[Any] = list(verdicts[0])
    return {name: float(np.mean([verdict[name] for verdict in verdicts])) for name in names}
