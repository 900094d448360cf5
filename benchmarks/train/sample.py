"""Sampling in latent space with the training forward pass: a quick look at a running training.

The shipped numbers come from the stock pipelines (`evaluate.py`), not from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from benchmarks.train.dit import Model
from benchmarks.train.forward import velocity
from benchmarks.train.text import embed, tokenize


def sigma_schedule(num_steps: int, shift: float) -> Tensor:
    """Noise levels from 1 to 0, `num_steps` + 1 of them."""
    even = torch.linspace(1, 0, num_steps + 1)
    return shift * even / (1 + (shift - 1) * even)


@torch.no_grad()
def sample(
    model: Model,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    noise: Tensor,
    *,
    pinned: Tensor | None = None,
    pins: Tensor | None = None,
    num_steps: int = 20,
    guidance: float = 3.0,
    shift: float = 3.0,
) -> Tensor:
    """Scaled latents [b, z, f, r, c] by Euler steps with classifier-free guidance.

    pinned      clean latents of the same shape as noise; used where `pins` (bool [f]) is true
    """
    texts = [*prompts, *[""] * len(prompts)]
    text = embed(model.text, *tokenize(tokenizer, texts))
    free = torch.ones(noise.shape[2]) if pins is None else (~pins).float()
    x = noise
    levels = sigma_schedule(num_steps, shift)
    for now, then in pairwise(levels):
        if pinned is not None and pins is not None:
            x = torch.where(pins.view(1, 1, -1, 1, 1), pinned, x)
        sigma_bf = (now * free).expand(2 * len(prompts), -1)
        told, untold = velocity(model.dit, torch.cat([x, x]), sigma_bf, text).chunk(2)
        x = x + (then - now) * (untold + guidance * (told - untold))
    if pinned is not None and pins is not None:
        x = torch.where(pins.view(1, 1, -1, 1, 1), pinned, x)
    return x
