"""Whole clips of toyworld, sparse against dense: pictures compared and read by the detector."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.sparse_arms import NUM_STEPS, Shape, planned
from benchmarks.train.detector import detect
from benchmarks.train.world import Scene
from vidgen.engine import Engine
from vidgen.fidelity import psnr_of
from vidgen.sparse import SparseSession

Frames = NDArray[np.float32]


def render(
    engine: Engine,
    prompt: str,
    shape: Shape,
    seed: int,
    session: SparseSession | None = None,
    num_steps: int = NUM_STEPS,
) -> Frames:
    """Make a clip and return its frames [f, r, w, c].

    session  attached to the engine's transformer for the run, as the engine attaches its own;
             dense, by the model's own code, when omitted
    """
    made = planned(shape, num_steps, prompt=prompt, seed=seed)
    with nullcontext() if session is None else session.attached(engine.components.transformer):
        clip = engine.run(made, previews=False)
    assert clip.frames is not None
    return clip.frames


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
