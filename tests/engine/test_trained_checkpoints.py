"""Checkpoints trained with sparse attention: found by their extra weights, run as trained only."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from attention import Sla, Vsa
from tests.engine.cases import PROMPT
from tests.folders import save_tiny
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.errors import BadRequest, Unsupported
from vidgen.models import resolve
from vidgen.plan import plan
from vidgen.request import parse_request

WIDTH, HEAD, LAYERS = 48, 24, 3


def gates(layer: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(layer)
    name = f"blocks.{layer}.to_gate_compress"
    return {
        f"{name}.weight": torch.randn(WIDTH, WIDTH, generator=generator) * 0.1,
        f"{name}.bias": torch.randn(WIDTH, generator=generator) * 0.1,
    }


def projections(layer: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(layer)
    name = f"blocks.{layer}.attn1.attn_impl.proj_l"
    return {
        f"{name}.weight": torch.randn(HEAD, HEAD, generator=generator) * 0.1,
        f"{name}.bias": torch.zeros(HEAD),
    }


def checkpoint(folder: Path, made: Any, layers: int = LAYERS) -> Path:
    """A tiny Wan with the extra weights of so many layers."""
    save_tiny(folder, "wan2.1-t2v")
    path = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(path)
    for layer in range(layers):
        tensors |= made(layer)
    save_file(tensors, path, metadata={"format": "pt"})
    return folder


def fields(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "model": str(folder), "prompt": PROMPT, "width": 64, "height": 64, "num_frames": 17,
        "num_inference_steps": 2, "seed": 1, "dtype": "float32", **changes,
    }  # fmt: skip


def made_plan(folder: Path, **changes: Any) -> Any:
    return plan(parse_request(fields(folder, **changes)), named("cpu"))


@pytest.mark.parametrize(
    ("made", "word", "pattern"), [(gates, "vsa", Vsa()), (projections, "sla", Sla())]
)
def test_it_runs_as_it_was_trained(tmp_path: Path, made: Any, word: str, pattern: Any) -> None:
    folder = checkpoint(tmp_path / "model", made)
    assert resolve(str(folder)).trained == pattern
    planned = made_plan(folder, density=0.5)
    assert planned.attention.name == word
    assert planned.fidelity.startswith("L2")
    engine = Engine.load(planned.model)
    assert [sorted(layers) for layers in engine.components.extra] == [[0, 1, 2]]
    clip = engine.run(planned)
    assert 0 < clip.trace.density < 1
    again = engine.run(planned)
    assert torch.equal(clip.latents, again.latents)
    # What the extra weights hold matters: without them the clip would be another.
    for layer in engine.components.extra[0].values():
        for weight in layer.values():
            weight.zero_()
    assert not torch.equal(engine.run(planned).latents, clip.latents)


def test_it_does_not_run_otherwise(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model", gates)
    for word in ("dense", "topk", "window", "sla"):
        with pytest.raises(BadRequest, match=r"is not what .* was trained with; .*attention=vsa"):
            made_plan(folder, attention=word)
    with pytest.raises(BadRequest, match=r"dense_steps=0\.5 does nothing with attention=vsa"):
        made_plan(folder, dense_steps=0.5)


@pytest.mark.parametrize("word", ["vsa", "sla"])
def test_others_are_refused_in_one_sentence(tmp_path: Path, word: str) -> None:
    folder = save_tiny(tmp_path / "model", "wan2.1-t2v")
    for model in (str(folder), "wan2.1-t2v-1.3b"):
        with pytest.raises(
            BadRequest, match=f"attention={word} needs a checkpoint that was trained"
        ):
            made_plan(folder, model=model, attention=word)


def test_a_layer_without_its_weights_is_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model", gates, layers=1)
    with pytest.raises(Unsupported, match="lacks 4 of 6 tensors, first"):
        Engine.load(resolve(str(folder)))


def test_too_few_blocks_for_the_ratio_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model", projections)
    with pytest.raises(BadRequest, match="keeps none; use at least"):
        made_plan(folder, num_frames=9, density=0.1)
