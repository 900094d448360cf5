"""LoRAs for one run: loaded into the experts, counted, and taken out again whatever happens."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from vidgen.adjustment import Adjustment
from vidgen.clip import Trace
from vidgen.errors import BadRequest, NotFound, Unsupported
from vidgen.request import LoraSpec

_SUFFIX = re.compile(
    r"\.(lora_A|lora_B|lora_down|lora_up|alpha|diff|diff_b|dora_scale)(\.default)?(\.weight|\.bias)?$"
)


@dataclass(frozen=True, slots=True)
class LoraReport:
    """How much of a LoRA found its place.

    matched, unmatched   modules of the file that are, or are not, modules of the expert
    """

    path: str
    expert: str
    weight: float
    matched: int
    unmatched: int
    examples: tuple[str, ...]


def lora_file(path_text: str) -> Path:
    """Return the safetensors file that a LoRA's path means.

    Raises  NotFound, or Unsupported for a pickle
    """
    path = Path(path_text).expanduser()
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if len(files) != 1:
            raise NotFound(
                f"{path} holds {len(files)} safetensors files; name the one to use.",
                field="loras",
            )
        path = files[0]
    if not path.is_file():
        raise NotFound(f"LoRA {path_text} does not exist.", field="loras")
    if path.suffix != ".safetensors":
        raise Unsupported(
            f"LoRA {path_text} is not a safetensors file; convert it first, since a pickle can run "
            "code when opened.",
            field="loras",
        )
    return path


def read_lora(pipe: Any, path_text: str) -> tuple[dict[str, torch.Tensor], set[str]]:
    """Return a LoRA's tensors under diffusers' names, and the modules that the file itself names.

    pipe   a pipeline, or its class, with diffusers' own conversion of foreign names
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = lora_file(path_text)
    try:
        raw = load_file(path)
        converted: dict[str, torch.Tensor] = pipe.lora_state_dict(dict(raw))
    except (SafetensorError, KeyError, ValueError, IndexError, RuntimeError) as error:
        raise BadRequest(
            f"LoRA {path_text} is not one that Wan's layers understand "
            f"({type(error).__name__}: {error}).",
            field="loras",
        ) from error
    return converted, {_SUFFIX.sub("", key) for key in raw}


def match(
    converted: dict[str, torch.Tensor], named: set[str], expert: Any, spec: LoraSpec, label: str
) -> tuple[dict[str, torch.Tensor], LoraReport]:
    """Keep the tensors whose module exists in an expert, and count the others.

    A module that the conversion itself dropped counts as unmatched too.
    """
    modules = {name for name, _ in expert.named_modules()}
    kept: dict[str, torch.Tensor] = {}
    lost: set[str] = set()
    found: set[str] = set()
    for key, tensor in converted.items():
        module = _SUFFIX.sub("", key).removeprefix("transformer.")
        if module in modules:
            kept[key] = tensor
            found.add(module)
        else:
            lost.add(module)
    dropped = max(0, len(named) - len(found) - len(lost))
    report = LoraReport(
        path=spec.path,
        expert=label,
        weight=spec.weight,
        matched=len(found),
        unmatched=len(lost) + dropped,
        examples=tuple(sorted(lost)[:3]),
    )
    return kept, report


@contextmanager
def applied(
    pipe: Any, experts: dict[str, Any], specs: tuple[LoraSpec, ...], trace: Trace, *, strict: bool
) -> Iterator[None]:
    """Have LoRAs in the experts for a while.

    experts  "high" and, in a two-expert model, "low"
    Raises   BadRequest when a LoRA matches nothing, or in part under `strict`
    """
    if not specs:
        yield
        return
    try:
        for index, spec in enumerate(specs):
            _load(pipe, experts, spec, f"lora{index}", trace, strict=strict)
        _weigh(experts, specs)
        yield
    finally:
        for expert in experts.values():
            if getattr(expert, "peft_config", None):
                expert.unload_lora()


def _load(
    pipe: Any, experts: dict[str, Any], spec: LoraSpec, name: str, trace: Trace, *, strict: bool
) -> None:
    converted, named = read_lora(pipe, spec.path)
    for label, expert in experts.items():
        if spec.target not in ("both", label):
            continue
        kept, report = match(converted, named, expert, spec, label)
        trace.loras.append(asdict(report))
        if report.matched == 0:
            raise BadRequest(
                f"LoRA {spec.path} matches none of the model's layers (0 of {report.unmatched}); "
                "it is made for another model.",
                field="loras",
            )
        if report.unmatched:
            total = report.matched + report.unmatched
            change = Adjustment(
                "loras",
                spec.path,
                f"{report.matched} of {total} modules",
                f"the others are not in this model, e.g. {', '.join(report.examples) or 'norms'}",
            )
            if strict:
                raise BadRequest(f"strict: {change}.", field="loras")
            trace.adjustments.append(change)
        try:
            pipe.load_lora_weights(kept, adapter_name=name, load_into_transformer_2=label == "low")
        except (RuntimeError, ValueError) as error:
            raise BadRequest(
                f"LoRA {spec.path} does not fit the model's layers: "
                f"{str(error).strip().splitlines()[-1]}",
                field="loras",
            ) from error


def _weigh(experts: dict[str, Any], specs: tuple[LoraSpec, ...]) -> None:
    for label, expert in experts.items():
        chosen = [(i, spec) for i, spec in enumerate(specs) if spec.target in ("both", label)]
        if chosen:
            names = [f"lora{i}" for i, _ in chosen]
            expert.set_adapters(names, [spec.weight for _, spec in chosen])
