"""Growing: more blocks for a trained transformer, which at first change nothing."""

from __future__ import annotations

import torch
from diffusers import WanTransformer3DModel
from torch import nn


@torch.no_grad()
def copy_grown(source: WanTransformer3DModel, target: WanTransformer3DModel) -> None:
    """Copy the source's weights into a target of as many blocks or more.

    The new blocks come before the last one and start as copies of it whose outputs are zero, so
    that target and source give the same results.
    """
    old, new = len(source.blocks), len(target.blocks)
    if new < old:
        raise ValueError(
            f"The target has {new} blocks, the source {old}; blocks are never dropped."
        )
    weights = {k: v for k, v in source.state_dict().items() if not k.startswith("blocks.")}
    target.load_state_dict(weights, strict=False)
    for index, block in enumerate(target.blocks):
        kept = index if index < old - 1 else old - 1
        block.load_state_dict(source.blocks[kept].state_dict())
        if old - 1 <= index < new - 1:
            for layer in (block.attn1.to_out[0], block.attn2.to_out[0], block.ffn.net[2]):
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)
