"""LoRAs for one run: loaded into the experts, counted, and taken out again whatever happens.

What can be said of a file without torch is in `vidgen.lora_files`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from vidgen.adjustment import Adjustment
from vidgen.clip import Trace
from vidgen.errors import BadRequest
from vidgen.lora_files import PREFIX, LoraMatch, inspect_lora, module_of
from vidgen.request_values import LoraSpec

_METADATA = "lora_adapter_metadata"  # diffusers' name for the adapter's configuration in the header


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA in memory.

    tensors  under diffusers' names
    modules  as the file itself names them
    config   of the adapter (rank, alpha), under diffusers' names; None when the file has none
    """

    tensors: dict[str, torch.Tensor]
    modules: frozenset[str]
    config: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class LoraReport(LoraMatch):
    """How much of a LoRA found its place in an expert, at which weight."""

    expert: str
    weight: float


def read_lora(pipe: Any, path_text: str) -> Lora:
    """Read a LoRA's tensors and its adapter's configuration.

    pipe    a pipeline, or its class, with diffusers' own conversion of foreign names
    Raises  BadRequest, NotFound or Unsupported
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    facts = inspect_lora(path_text)
    try:
        tensors: dict[str, torch.Tensor] = pipe.lora_state_dict(dict(load_file(facts.path)))
        config = _config(facts.metadata)
    except (SafetensorError, LookupError, ValueError, RuntimeError, TypeError) as error:
        raise BadRequest(
            f"LoRA {path_text} is not one that Wan's layers understand "
            f"({type(error).__name__}: {error}).",
            field="loras",
        ) from error
    return Lora(tensors, facts.modules, config)


def _config(metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the adapter's configuration from a header, with every name under `transformer.`.

    A pipeline saves the names with that prefix, a transformer alone without.
    """
    text = metadata.get(_METADATA)
    if not text:
        return None
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"{_METADATA} is not an object")
    prefixed = {key: value for key, value in data.items() if key.startswith(PREFIX)}
    if not prefixed and "r" in data:
        return {f"{PREFIX}{key}": value for key, value in data.items()}
    return prefixed or None


def match(
    lora: Lora, expert: Any, spec: LoraSpec, label: str
) -> tuple[dict[str, torch.Tensor], LoraReport]:
    """Keep the tensors whose module exists in an expert, and count the others.

    A module that the conversion itself dropped counts as unmatched too.

    Returns  the tensors under `transformer.`, without which diffusers passes over them in silence
    """
    modules = {name for name, module in expert.named_modules() if _takes_lora(module)}
    kept: dict[str, torch.Tensor] = {}
    lost: set[str] = set()
    found: set[str] = set()
    for key, tensor in lora.tensors.items():
        bare = key.removeprefix(PREFIX)
        module = module_of(bare)
        if module in modules:
            kept[PREFIX + bare] = tensor
            found.add(module)
        else:
            lost.add(module)
    dropped = max(0, len(lora.modules) - len(found) - len(lost))
    report = LoraReport(
        path=spec.path,
        expert=label,
        weight=spec.weight,
        matched=len(found),
        unmatched=len(lost) + dropped,
        examples=tuple(sorted(lost)[:3]),
    )
    return kept, report


def _takes_lora(module: torch.nn.Module) -> bool:
    """Whether a LoRA can change a module; one that has a LoRA already carries a base_layer."""
    return isinstance(module, (torch.nn.Linear, torch.nn.Conv3d)) or hasattr(module, "base_layer")


@contextmanager
def applied(
    pipe: Any,
    experts: dict[str, Any],
    specs: tuple[LoraSpec, ...],
    trace: Trace,
    *,
    strict: bool,
    told: tuple[Adjustment, ...] = (),
) -> Iterator[None]:
    """Have LoRAs in the experts for a while.

    experts  "high" and, in a two-expert model, "low"
    told     adjustments that the plan has made already
    Raises   BadRequest when a LoRA matches nothing, or in part under `strict`
    """
    if not specs:
        yield
        return
    try:
        for index, spec in enumerate(specs):
            _load(pipe, experts, spec, f"lora{index}", trace, strict=strict, told=told)
        _weigh(experts, specs)
        yield
    finally:
        for expert in experts.values():
            if hasattr(expert, "peft_config"):  # empty after a failure, with layers still wrapped
                expert.unload_lora()


def _load(
    pipe: Any,
    experts: dict[str, Any],
    spec: LoraSpec,
    name: str,
    trace: Trace,
    *,
    strict: bool,
    told: tuple[Adjustment, ...],
) -> None:
    lora = read_lora(pipe, spec.path)
    for label, expert in experts.items():
        if spec.target not in ("both", label):
            continue
        kept, report = match(lora, expert, spec, label)
        trace.loras.append(asdict(report))
        change = report.adjustment()
        if change is not None and change not in told:
            if strict:
                raise BadRequest(f"strict: {change}.", field="loras")
            trace.adjustments.append(change)
            told = (*told, change)
        _attach(pipe, expert, kept, lora.config, name, spec)


def _attach(
    pipe: Any,
    expert: Any,
    kept: dict[str, torch.Tensor],
    config: dict[str, Any] | None,
    name: str,
    spec: LoraSpec,
) -> None:
    """Put a LoRA into an expert, and see that it sits in every layer that matched."""
    foreign = [key for key in kept if "lora" not in key.removeprefix(PREFIX)]
    if foreign:
        raise BadRequest(
            f"LoRA {spec.path} has {foreign[0]}, which diffusers cannot load beside diffusers' "
            "own names; save it again with its alpha multiplied in.",
            field="loras",
        )
    halves = {
        half: {module_of(key) for key in kept if half in key} for half in ("lora_A", "lora_B")
    }
    alone = sorted(halves["lora_A"] ^ halves["lora_B"])
    if alone:  # peft would fill the other half with random numbers
        raise BadRequest(
            f"LoRA {spec.path} has one of lora_A and lora_B only for {len(alone)} layers, e.g. "
            f"{alone[0].removeprefix(PREFIX)}; fetch or save it again.",
            field="loras",
        )
    try:
        pipe.load_lora_into_transformer(
            kept,
            transformer=expert,
            adapter_name=name,
            metadata=config,
            _pipeline=pipe,
            low_cpu_mem_usage=True,
        )
    except (RuntimeError, ValueError, TypeError, LookupError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise BadRequest(
            f"LoRA {spec.path} does not fit the model's layers: {reason.strip()}", field="loras"
        ) from error
    wanted = {module_of(key.removeprefix(PREFIX)) for key in kept}
    missing = sorted(wanted - _layers_with(expert, name))
    if missing or name not in getattr(expert, "peft_config", {}):
        raise BadRequest(
            f"LoRA {spec.path} did not reach {len(missing)} of {len(wanted)} layers, e.g. "
            f"{missing[0] if missing else 'any'}; diffusers passed over them.",
            field="loras",
        )


def _layers_with(expert: Any, name: str) -> set[str]:
    return {
        path for path, module in expert.named_modules() if name in getattr(module, "lora_A", ())
    }


def _weigh(experts: dict[str, Any], specs: tuple[LoraSpec, ...]) -> None:
    for label, expert in experts.items():
        chosen = [(i, spec) for i, spec in enumerate(specs) if spec.target in ("both", label)]
        if chosen:
            names = [f"lora{i}" for i, _ in chosen]
            expert.set_adapters(names, [spec.weight for _, spec in chosen])
