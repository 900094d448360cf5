"""The weights that trained patterns add to a model: their names, and the refusal without them."""

import re
from collections.abc import Iterable

from attention.errors import AttentionError
from attention.trained.patterns import Sla, Trained, Vsa

# Where published checkpoints keep them inside a block. Cross-attention may have weights of the same
# name, and blocks of other stacks too, so that nothing else is taken.
_HOMES = ("", "attn1.", "attn1.attn_impl.", "self_attn.attn_op.local_attn.")
_NAME = re.compile(r"(?:^|\.)blocks\.(\d+)\.((?:[^.]+\.)*?)([^.]+\.(?:weight|bias))")


def extra_weights(pattern: Trained) -> tuple[str, ...]:
    """Return the names of the weights that a pattern needs in every layer; none for most.

    to_gate_compress  of VSA: from the layer's normalised hidden states to one gate a channel
    proj_l            of SLA: from a head's linear attention to what is added, the same for all
    """
    if isinstance(pattern, Vsa):
        return ("to_gate_compress.weight", "to_gate_compress.bias")
    if isinstance(pattern, Sla):
        return ("proj_l.weight", "proj_l.bias")
    return ()


def layer_and_part(pattern: Trained, name: str) -> tuple[int, str] | None:
    """Return the layer and the name in `extra_weights` of a checkpoint's tensor, None for others.

    Known are the names of FastVideo (`blocks.3.to_gate_compress.weight`, or inside `attn1`;
    `blocks.3.attn1.attn_impl.proj_l.weight`) and of TurboDiffusion
    (`blocks.3.self_attn.attn_op.local_attn.proj_l.weight`), after any prefix.
    """
    found = _NAME.search(name)
    if found is None or found.end() != len(name):
        return None
    layer, home, part = found.groups()
    if home not in _HOMES or part not in extra_weights(pattern):
        return None
    return int(layer), part


def require_weights(pattern: Trained, found_names: Iterable[str], layers: int) -> None:
    """Refuse to start without a pattern's weights.

    found_names  names of a checkpoint's tensors, all or only the extra ones
    layers       how many the model has
    Raises       AttentionError if any layer lacks any
    """
    needed = extra_weights(pattern)
    found = {layer_and_part(pattern, name) for name in found_names}
    missing = [(layer, part) for layer in range(layers) for part in needed
               if (layer, part) not in found]  # fmt: skip
    if missing:
        word = type(pattern).__name__.lower()
        layer, part = missing[0]
        raise AttentionError(
            f"attention={word} needs {needed[0].split('.')[0]} in all {layers} layers and the "
            f"checkpoint lacks {len(missing)} of {layers * len(needed)} tensors, first {part} of "
            f"layer {layer}; use a checkpoint trained with it.",
            field="attention",
        )
