"""The weights that trained sparse attention adds to a transformer, read from its checkpoint.

diffusers' classes have no place for them and leave them out, so they are read here by name and
handed to `vidgen.sparse` beside the model.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attention import AttentionError, Sla, Vsa
from attention.trained import Trained, extra_weights, layer_and_part, require_weights
from vidgen.errors import BadRequest, NotFound, Unsupported
from vidgen.weights_file import safetensors_header

if TYPE_CHECKING:
    from torch import Tensor

ExtraWeights = Mapping[int, Mapping[str, "Tensor"]]
"""By layer, then by their names in `attention.trained.extra_weights`."""


def find_extra_weights(
    path: Path, pattern: Trained, *, layers: int
) -> dict[tuple[int, str], tuple[Path, str]]:
    """Return the file and the tensor's name there of every weight that a pattern adds.

    Reads headers only, so that a dry run can ask; empty for a pattern that adds none.
    path    a safetensors file, or the folder of one transformer
    layers  how many the transformer has
    Raises  Unsupported when any is missing, NotFound when there is no such file at all
    """
    if not extra_weights(pattern):
        return {}
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if not files:
        raise NotFound(f"{path} holds no safetensors file; fetch the model again.", field="model")
    found = {}
    for file in files:
        for name in safetensors_header(file, field="model").shapes:
            place = layer_and_part(pattern, name)
            if place is not None and place[0] < layers:
                found[place] = file, name
    try:
        require_weights(pattern, (name for _, name in found.values()), layers)
    except AttentionError as error:
        raise Unsupported(f"{path}: {error}", field=error.field) from None
    return found


def read_extra_weights(path: Path, pattern: Trained, *, layers: int) -> ExtraWeights:
    """Return the weights that a pattern adds, on the CPU, in the checkpoint's own dtype.

    See `find_extra_weights`. Two experts have a folder each, and are read one by one.
    """
    from safetensors import safe_open

    found = find_extra_weights(path, pattern, layers=layers)
    weights: dict[int, dict[str, Tensor]] = {layer: {} for layer in range(layers)}
    for file in sorted({file for file, _ in found.values()}):
        with safe_open(file, framework="pt") as tensors:
            for (layer, part), (home, name) in found.items():
                if home == file:
                    weights[layer][part] = tensors.get_tensor(name)
    return weights


def trained_pattern(folder: Path) -> Trained | None:
    """Return the pattern whose extra weights a transformer's folder holds, None without any.

    Reads headers only; a damaged one holds none, and loading will say so. Its values are those that
    published checkpoints use.
    """
    names: list[str] = []
    for file in sorted(folder.glob("*.safetensors")):
        with suppress(BadRequest):
            names += safetensors_header(file, field="model").shapes
    for pattern in (Vsa(), Sla()):
        if any(layer_and_part(pattern, name) is not None for name in names):
            return pattern
    return None


def assumed_values(pattern: Trained | None, density: float | None) -> tuple[str, ...]:
    """Say, a sentence each, which values of a pattern its weights do not tell.

    density  asked for, None where the pattern's own is taken
    """
    found = []
    if isinstance(pattern, Vsa | Sla) and density is None:
        read = 1 - pattern.sparsity if isinstance(pattern, Vsa) else pattern.topk_ratio
        found.append(
            "The checkpoint does not say which share of the keys it was trained to read; "
            f"density={read:g} is taken, as published ones were."
        )
    if isinstance(pattern, Sla):
        found.append(
            "The checkpoint does not say in which blocks it was trained; "
            f"{pattern.query_block}x{pattern.key_block} tokens are taken, as published ones run."
        )
    return tuple(found)


def spare_words(pattern: Trained | None) -> tuple[str, ...]:
    """Return what the names of the weights have in common that diffusers' class cannot read."""
    if pattern is None:
        return ()
    return tuple({name.split(".")[0] + "." for name in extra_weights(pattern)})
