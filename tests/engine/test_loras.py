"""LoRA files: every spelling loads as diffusers loads it, nothing is lost in silence, wrong files
are refused before any weights are read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.cases import Case, make_plan
from vidgen.cli.show import plan_text
from vidgen.clip import Trace
from vidgen.engine import Engine
from vidgen.errors import BadRequest, NotFound, Unsupported, VidgenError
from vidgen.families import FAMILIES, family
from vidgen.lora_files import LoraMatch, count_matches, expected_modules, inspect_lora
from vidgen.loras import applied, match, read_lora
from vidgen.request import parse_request
from vidgen.request_values import LoraSpec
from vidgen.tiny import tiny_components, tiny_model

T2V = family("wan2.1-t2v")
TWO = family("wan2.2-t2v-a14b")
LAYERS = ("blocks.0.attn1.to_q", "blocks.1.attn2.to_out.0")


def tensors(prefix: str, layers: tuple[str, ...] = LAYERS, rank: int = 4) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    made = {}
    for name in layers:
        made[f"{prefix}{name}.lora_A.weight"] = torch.randn(rank, 48, generator=generator) * 0.3
        made[f"{prefix}{name}.lora_B.weight"] = torch.randn(48, rank, generator=generator) * 0.3
    return made


def write(path: Path, made: dict[str, Any], metadata: dict[str, Any] | None = None) -> str:
    text = None if metadata is None else {"lora_adapter_metadata": json.dumps(metadata)}
    save_file(made, path, metadata=text)
    return str(path)


def specs(*paths: str) -> tuple[LoraSpec, ...]:
    return parse_request({"prompt": "x", "loras": list(paths)}).loras


def pipeline(parts: Any) -> Any:
    more = {} if parts.transformer_2 is None else {"transformer_2": parts.transformer_2}
    return diffusers.WanPipeline(
        tokenizer=None, text_encoder=None, vae=parts.vae, transformer=parts.transformer,
        scheduler=None, **more,
    )  # fmt: skip


def forward(expert: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        out: torch.Tensor = expert(
            hidden_states=torch.randn(1, 16, 2, 4, 4, generator=generator),
            timestep=torch.tensor([500]),
            encoder_hidden_states=torch.randn(1, 8, 32, generator=generator),
            return_dict=False,
        )[0]
    return out


def ours(*paths: str, strict: bool = True) -> tuple[torch.Tensor, Trace]:
    parts, trace = tiny_components(T2V), Trace()
    experts = {"high": parts.transformer}
    with applied(pipeline(parts), experts, specs(*paths), trace, strict=strict):
        return forward(parts.transformer), trace


def theirs(path: str, weight: float = 1.0) -> torch.Tensor:
    parts = tiny_components(T2V)
    pipe = pipeline(parts)
    pipe.load_lora_weights(path, adapter_name="a")
    pipe.set_adapters(["a"], [weight])
    return forward(parts.transformer)


def test_names_without_the_prefix_load_as_with_it(tmp_path: Path) -> None:
    plain = forward(tiny_components(T2V).transformer)
    with_prefix, _ = ours(write(tmp_path / "a.safetensors", tensors("transformer.")))
    without, trace = ours(write(tmp_path / "b.safetensors", tensors("")))
    assert (trace.loras[0]["matched"], trace.loras[0]["unmatched"]) == (2, 0)
    assert not torch.equal(without, plain)
    assert torch.equal(without, with_prefix)
    assert torch.equal(without, theirs(str(tmp_path / "a.safetensors")))


def test_foreign_names_load_as_diffusers_loads_them(tmp_path: Path) -> None:
    made = {}
    for key, tensor in tensors("diffusion_model.", ("blocks.0.self_attn.q",)).items():
        made[key.replace("lora_A", "lora_down").replace("lora_B", "lora_up")] = tensor
    made["diffusion_model.blocks.0.self_attn.q.alpha"] = torch.tensor(8.0)
    path = write(tmp_path / "a.safetensors", made)
    assert torch.equal(ours(path)[0], theirs(path))
    assert inspect_lora(path).foreign
    assert count_matches(path, tiny_model(T2V)) is None


def test_alpha_in_the_header_counts(tmp_path: Path) -> None:
    """A pipeline saves the adapter's alpha in the header; here it doubles the LoRA."""
    config = {"r": 4, "lora_alpha": 8, "target_modules": list(LAYERS)}
    doubled = {f"transformer.{key}": value for key, value in config.items()}
    path = write(tmp_path / "a.safetensors", tensors("transformer."), doubled)
    bare = write(tmp_path / "b.safetensors", tensors("transformer."))
    mine, _ = ours(path)
    assert torch.equal(mine, theirs(path))
    assert not torch.equal(mine, ours(bare)[0])
    assert torch.allclose(mine, theirs(bare, weight=2.0), atol=1e-5)
    assert torch.equal(ours(write(tmp_path / "c.safetensors", tensors(""), config))[0], mine)


def test_what_a_transformer_saves_itself_loads(tmp_path: Path) -> None:
    """diffusers' save_lora_adapter writes names and header without the prefix."""
    from peft import LoraConfig

    expert = tiny_components(T2V).transformer
    torch.manual_seed(1)
    expert.add_adapter(
        LoraConfig(r=4, lora_alpha=12, target_modules=["to_q", "to_v"], init_lora_weights=False)
    )
    wanted = forward(expert)
    expert.save_lora_adapter(str(tmp_path))
    mine, trace = ours(str(tmp_path))
    assert trace.loras[0]["matched"] == 12
    assert torch.equal(mine, wanted)


def test_two_loras_and_a_part_of_one(tmp_path: Path) -> None:
    first = write(tmp_path / "a.safetensors", tensors("transformer."))
    second = write(tmp_path / "b.safetensors", tensors("", (LAYERS[0], "blocks.0.norm2")))
    mine, trace = ours(first, second, strict=False)
    assert [(item["matched"], item["unmatched"]) for item in trace.loras] == [(2, 0), (1, 1)]
    assert "e.g. blocks.0.norm2" in trace.adjustments[0].why
    assert not torch.equal(mine, ours(first)[0])
    with pytest.raises(BadRequest, match="strict"):
        ours(second)


def test_unknown_names_are_not_made_up(tmp_path: Path) -> None:
    made = tensors("diffusion_model.", ("blocks.0.self_attn.q",))
    made["diffusion_model.blocks.0.norm3.diff"] = torch.zeros(48)
    _, trace = ours(write(tmp_path / "a.safetensors", made), strict=False)
    assert trace.adjustments[0].why == "the others are not in this model"


def test_a_failed_load_leaves_the_expert_as_it_was(tmp_path: Path) -> None:
    parts = tiny_components(T2V)
    before = forward(parts.transformer)
    names = [name for name, _ in parts.transformer.named_modules()]
    misfit = {key: value[:, :40].contiguous() if "lora_A" in key else value
              for key, value in tensors("transformer.").items()}  # fmt: skip
    path = write(tmp_path / "a.safetensors", misfit)
    with (
        pytest.raises(BadRequest, match="does not fit"),
        applied(pipeline(parts), {"high": parts.transformer}, specs(path), Trace(), strict=False),
    ):
        pass
    assert [name for name, _ in parts.transformer.named_modules()] == names
    assert not hasattr(parts.transformer, "peft_config")
    assert torch.equal(forward(parts.transformer), before)


def test_layers_that_diffusers_passes_over_are_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", tensors("transformer."))
    parts = tiny_components(T2V)
    pipe = pipeline(parts)
    pipe.load_lora_into_transformer = lambda *_, **__: None
    with (
        pytest.raises(BadRequest, match="did not reach 2 of 2"),
        applied(pipe, {"high": parts.transformer}, specs(path), Trace(), strict=False),
    ):
        pass


def test_alpha_beside_diffusers_names_is_refused(tmp_path: Path) -> None:
    made = tensors("transformer.") | {f"transformer.{LAYERS[0]}.alpha": torch.tensor(8.0)}
    with pytest.raises(BadRequest, match="alpha"):
        ours(write(tmp_path / "a.safetensors", made))


@pytest.mark.parametrize("half", ["lora_A", "lora_B"])
def test_half_a_layer_is_not_completed_with_random_numbers(half: str, tmp_path: Path) -> None:
    made = tensors("transformer.")
    made.pop(f"transformer.{LAYERS[0]}.{half}.weight")
    with pytest.raises(BadRequest, match=f"for 1 layers, e.g. {LAYERS[0]}"):
        ours(write(tmp_path / "a.safetensors", made))


def test_the_low_expert_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", tensors(""))
    parts, trace = tiny_components(TWO), Trace()
    experts = dict(zip(("high", "low"), parts.transformers, strict=True))
    with applied(pipeline(parts), experts, specs(f"{path}:1:low"), trace, strict=True):
        assert not hasattr(parts.transformer, "peft_config")
        assert list(parts.transformer_2.peft_config) == ["lora0"]
    assert [item["expert"] for item in trace.loras] == ["low"]
    assert not hasattr(parts.transformer_2, "peft_config")


def damaged(path: Path, how: str) -> str:
    write(path, tensors("transformer."))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    path.write_bytes({
        "empty": b"",
        "short header": data[: size // 2],
        "cut": data[:-100],
        "longer": data + b"x",
        "huge": (2**40).to_bytes(8, "little") + data[8:],
        "no JSON": data[:8] + b"x" * size + data[8 + size :],
        "a list": (2).to_bytes(8, "little") + b"[]",
        "no shape": (8).to_bytes(8, "little") + b'{"a":{}}',
    }[how])  # fmt: skip
    return str(path)


KINDS = ("empty", "short header", "cut", "longer", "huge", "no JSON", "a list", "no shape")


@pytest.mark.parametrize("how", KINDS)
def test_damaged_files_are_one_sentence(how: str, tmp_path: Path) -> None:
    path = damaged(tmp_path / "a.safetensors", how)
    with pytest.raises(BadRequest, match="again") as caught:
        inspect_lora(path)
    assert caught.value.field == "loras"
    assert "\n" not in caught.value.message
    with pytest.raises(VidgenError):
        read_lora(diffusers.WanPipeline, path)


def test_wrong_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    save_file({"x": torch.zeros(2)}, tmp_path / "none.safetensors")
    cases: list[tuple[str, type[VidgenError], str]] = [
        (str(tmp_path / "absent.safetensors"), NotFound, "does not exist"),
        ("x" * 5000 + ".safetensors", NotFound, "does not exist"),
        (str(tmp_path / "empty"), NotFound, "holds 0"),
        (str(tmp_path / "a.bin"), Unsupported, "pickle"),
        (str(tmp_path / "none.safetensors"), BadRequest, "not a LoRA"),
    ]
    for path, error, words in cases:
        with pytest.raises(error, match=words):
            inspect_lora(path)


def test_a_damaged_header_entry_is_one_sentence(tmp_path: Path) -> None:
    save_file(tensors(""), tmp_path / "a.safetensors", metadata={"lora_adapter_metadata": "{"})
    with pytest.raises(BadRequest, match="Wan's layers"):
        read_lora(diffusers.WanPipeline, str(tmp_path / "a.safetensors"))
    write(tmp_path / "b.safetensors", tensors(""), {"r": 4, "no_such_option": 1})
    with pytest.raises(BadRequest, match="does not fit"):
        ours(str(tmp_path / "b.safetensors"))


@pytest.mark.parametrize("name", [row.name for row in FAMILIES])
def test_expected_modules_are_those_of_the_real_class(name: str) -> None:
    row = family(name)
    config = tiny_model(row).configs.transformer
    with torch.device("meta"):
        expert = getattr(diffusers, row.transformer)(**config)
    kinds = (torch.nn.Linear, torch.nn.Conv3d)
    real = {path for path, module in expert.named_modules() if isinstance(module, kinds)}
    assert expected_modules(config) == real


def test_counts_without_torch_equal_those_with_it(tmp_path: Path) -> None:
    model, expert = tiny_model(T2V), tiny_components(T2V).transformer
    layers = (*LAYERS, "blocks.0.norm2", "blocks.9.attn1.to_q", "layers.wq")
    for prefix in ("", "transformer."):
        path = write(tmp_path / "a.safetensors", tensors(prefix, layers))
        (spec,) = specs(path)
        _, report = match(read_lora(diffusers.WanPipeline, path), expert, spec, "high")
        found = count_matches(path, model)
        assert found == LoraMatch(path, report.matched, report.unmatched, report.examples)
        assert (found.matched, found.unmatched) == (2, 3)
        assert found.examples == ("blocks.0.norm2", "blocks.9.attn1.to_q", "layers.wq")
        assert found.adjustment() == report.adjustment()


def test_checking_files_loads_neither_torch_nor_diffusers() -> None:
    code = (
        "import sys, vidgen.lora_files; "
        "print([name for name in ('torch', 'diffusers', 'safetensors') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "a.safetensors", tensors("transformer."))
    facts = inspect_lora(str(tmp_path))
    assert (str(facts.path), facts.ranks, facts.foreign) == (path, (4,), False)
    assert facts.modules == {f"transformer.{name}" for name in LAYERS}
    assert read_lora(diffusers.WanPipeline, path).tensors.keys() == load_file(path).keys()


def test_the_plan_counts_what_matches_and_the_engine_does_not_repeat_it(tmp_path: Path) -> None:
    case = Case(T2V, "t2v")
    part = write(tmp_path / "part.safetensors", tensors("", (LAYERS[0], "blocks.9.attn1.to_q")))
    made = make_plan(case, loras=[part], num_inference_steps=1)
    assert made.lora_matches == (LoraMatch(part, 1, 1, ("blocks.9.attn1.to_q",)),)
    assert [item.used for item in made.adjustments] == ["1 of 2 modules"]
    assert "(1 of 2 modules match)" in plan_text(made)
    clip = Engine(tiny_model(T2V), tiny_components(T2V)).run(made)
    assert [item["used"] for item in clip.recipe["adjustments"]] == ["1 of 2 modules"]
    with pytest.raises(BadRequest, match="strict"):
        make_plan(case, loras=[part], strict=True)
    with pytest.raises(BadRequest, match="matches none"):
        make_plan(case, loras=[write(tmp_path / "no.safetensors", tensors("", ("x.y",)))])
    foreign = write(tmp_path / "f.safetensors", tensors("diffusion_model.", ("blocks.0.cross.q",)))
    told = make_plan(case, loras=[foreign])
    assert (told.lora_matches, told.adjustments) == ((), ())
