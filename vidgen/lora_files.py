"""LoRA files as their headers describe them, without torch: enough to refuse a wrong one early.

Loading them is `vidgen.loras`' work.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest, NotFound, Unsupported
from vidgen.flops import TRANSFORMER_DEFAULTS, filled, vace_blocks
from vidgen.home import expanded
from vidgen.models import Model
from vidgen.request_values import LoraSpec
from vidgen.weights_file import safetensors_header

_SUFFIX = re.compile(
    r"\.(lora_A|lora_B|lora_down|lora_up|alpha|diff|diff_b|dora_scale)(\.default)?(\.weight|\.bias)?$"
)
_MARKS = ("lora_A", "lora_B", "lora_down", "lora_up")
_FOREIGN = ("diffusion_model.", "lora_unet_")  # diffusers translates these names while loading
PREFIX = "transformer."


@dataclass(frozen=True, slots=True)
class LoraFacts:
    """What a LoRA's header says.

    modules   names of the layers it changes, as the file has them
    ranks     of its layers, ascending
    foreign   the names are not diffusers' own, so what they match is known only when translated
    metadata  what the writer added
    """

    path: Path
    modules: frozenset[str]
    ranks: tuple[int, ...]
    foreign: bool
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LoraMatch:
    """How much of a LoRA finds its place.

    matched, unmatched  modules of the file that are, or are not, modules of the model
    examples            up to three that are not
    """

    path: str
    matched: int
    unmatched: int
    examples: tuple[str, ...]

    def adjustment(self) -> Adjustment | None:
        """Return what has to be told of a LoRA that matches in part, None of one that fits.

        Raises  BadRequest when it matches nothing
        """
        total = self.matched + self.unmatched
        if self.matched == 0:
            raise BadRequest(
                f"LoRA {self.path} matches none of the model's layers (0 of {total}); it is made "
                "for another model.",
                field="loras",
            )
        if self.unmatched == 0:
            return None
        named = f", e.g. {', '.join(self.examples)}" if self.examples else ""
        used = f"{self.matched} of {total} modules"
        return Adjustment("loras", self.path, used, f"the others are not in this model{named}")


def lora_file(path_text: str) -> Path:
    """Return the safetensors file that a LoRA's path means.

    Raises  NotFound, or Unsupported for a pickle
    """
    path = expanded(path_text)
    try:
        if path.is_dir():
            files = sorted(path.glob("*.safetensors"))
            if len(files) != 1:
                raise NotFound(
                    f"{path} holds {len(files)} safetensors files; name the one to use.",
                    field="loras",
                )
            path = files[0]
        there = path.is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        there = False
    if not there:
        raise NotFound(f"LoRA {path_text} does not exist.", field="loras")
    if path.suffix != ".safetensors":
        raise Unsupported(
            f"LoRA {path_text} is not a safetensors file; convert it first, since a pickle can run "
            "code when opened.",
            field="loras",
        )
    return path


def module_of(key: str) -> str:
    """Return the name of the layer that a tensor of a LoRA belongs to, as the file has it."""
    return _SUFFIX.sub("", key)


def lora_facts(path: Path) -> LoraFacts | None:
    """Return what a safetensors file's header says of a LoRA, None if it is none.

    Raises  BadRequest when the file is damaged or cut short
    """
    header = safetensors_header(path, field="loras")
    if path.stat().st_size != header.whole_bytes:
        raise BadRequest(
            f"{path} has {path.stat().st_size:,} bytes, its header asks for "
            f"{header.whole_bytes:,}; fetch or save it again.",
            field="loras",
        )
    if not any(mark in key for key in header.shapes for mark in _MARKS):
        return None
    downs = [
        shape
        for key, shape in header.shapes.items()
        if ("lora_A" in key or "lora_down" in key) and len(shape) > 1
    ]
    return LoraFacts(
        path=path,
        modules=frozenset(map(module_of, header.shapes)),
        ranks=tuple(sorted({shape[0] for shape in downs})),
        foreign=any(key.startswith(_FOREIGN) for key in header.shapes),
        metadata=header.metadata,
    )


def inspect_lora(path_text: str) -> LoraFacts:
    """Return what the header of a LoRA says.

    path_text  a file, or a folder with one
    Raises     NotFound, Unsupported for a pickle, BadRequest for a damaged file or no LoRA
    """
    facts = lora_facts(lora_file(path_text))
    if facts is None:
        raise BadRequest(
            f"{path_text} is not a LoRA: it has no tensor named lora_A or lora_down.",
            field="loras",
        )
    return facts


def expected_modules(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the layers that a LoRA can change in a Wan transformer.

    config  of WanTransformer3DModel or WanVACETransformer3DModel
    """
    full = filled(config, TRANSFORMER_DEFAULTS)
    attention = ("to_q", "to_k", "to_v", "to_out.0")
    inner = [f"{part}.{name}" for part in ("attn1", "attn2") for name in attention]
    inner += ["ffn.net.0.proj", "ffn.net.2"]
    if full["added_kv_proj_dim"] is not None:
        inner += ["attn2.add_k_proj", "attn2.add_v_proj"]
    blocks = [f"blocks.{index}" for index in range(int(full["num_layers"]))]
    names = ["patch_embedding", "proj_out", "condition_embedder.time_proj"]
    names += [
        f"condition_embedder.{part}_embedder.linear_{index}"
        for part in ("time", "text")
        for index in (1, 2)
    ]
    if full["image_dim"] is not None:
        names += [f"condition_embedder.image_embedder.ff.{n}" for n in ("net.0.proj", "net.2")]
    if vace_blocks(config):
        control = [f"vace_blocks.{index}" for index in range(vace_blocks(config))]
        names += ["vace_patch_embedding", "vace_blocks.0.proj_in"]
        names += [f"{block}.proj_out" for block in control]
        blocks += control
    return frozenset(names) | {f"{block}.{name}" for block in blocks for name in inner}


def count_matches(path_text: str, model: Model) -> LoraMatch | None:
    """Return how much of a LoRA finds its place in a model.

    Returns  None when the names are foreign: what they match is known only when translated
    Raises   as `inspect_lora` does
    """
    facts = inspect_lora(path_text)
    if facts.foreign:
        return None
    asked = {name.removeprefix(PREFIX) for name in facts.modules}
    missing = sorted(asked - expected_modules(model.configs.transformer))
    return LoraMatch(path_text, len(asked) - len(missing), len(missing), tuple(missing[:3]))


def match_loras(
    specs: Iterable[LoraSpec], model: Model, found: list[Adjustment]
) -> tuple[LoraMatch, ...]:
    """Return how much of each LoRA finds its place, as far as headers and configs tell.

    found   takes an adjustment for each LoRA that matches in part
    Raises  as `inspect_lora` does; BadRequest for a LoRA that matches nothing
    """
    matches = {spec.path: count_matches(spec.path, model) for spec in specs}
    known = tuple(match for match in matches.values() if match is not None)
    for match in known:
        change = match.adjustment()
        if change is not None:
            found.append(change)
    return known
