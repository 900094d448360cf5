"""Sparse attention attached to every family: right at density 1, gone afterwards, counted."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from attention import TopK
from tests.engine.cases import CASES, Case, engine_for, inputs_of, lora, make_plan
from vidgen.attention_plan import AttentionPlan
from vidgen.denoise import Watch
from vidgen.density import Density
from vidgen.errors import BadRequest
from vidgen.families import family
from vidgen.sparse import Moment, SparseProcessor, SparseSession
from vidgen.tiny import tiny_components

pytestmark = pytest.mark.usefixtures("one_thread")
EVERYWHERE = {
    "attention": "topk", "min_tokens": 0, "query_block": 8, "key_block": 8, "dense_steps": 0,
    "dense_layers": "none",
}  # fmt: skip
WHOLE = {**EVERYWHERE, "density": 1.0, "compensate": "none"}
T2V = Case(family("wan2.1-t2v"), "t2v")


def latents(case: Case, **fields: Any) -> torch.Tensor:
    return engine_for(case).run(make_plan(case, **fields), inputs_of(case)).latents


def off(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Relative error in the 2-norm."""
    return float((found - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_density_one_through_the_sparse_executor_equals_dense(case: Case, backend: str) -> None:
    dense = latents(case)
    clip = engine_for(case).run(
        make_plan(case, **WHOLE, attention_backend=backend), inputs_of(case)
    )
    assert clip.trace.density == 1.0
    assert not torch.equal(clip.latents, dense)  # it went another way
    assert off(clip.latents, dense) < 1e-5
    assert torch.equal(latents(case), dense)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_executed_blocks_are_those_planned(case: Case) -> None:
    made = make_plan(case, **EVERYWHERE, density=0.25)
    clip = engine_for(case).run(made, inputs_of(case))
    references = len(inputs_of(case).references)
    tokens = made.grid.tokens + references * made.grid.rows * made.grid.columns
    blocks = -(-tokens // 8)
    kept = max(1, int(0.25 * blocks + 0.5))
    assert clip.trace.density == pytest.approx(kept / blocks)
    assert off(clip.latents, latents(case)) > 1e-5


def test_processors_and_hooks_are_gone_even_after_an_error() -> None:
    parts = tiny_components(T2V.family)
    transformer = parts.transformer
    stock = dict(transformer.attn_processors)
    session = SparseSession(AttentionPlan(TopK(0.5), "reference", "", 8, 8))

    def fail() -> None:
        with session.attached(transformer):
            assert isinstance(transformer.blocks[0].attn1.processor, SparseProcessor)
            assert not isinstance(transformer.blocks[0].attn2.processor, SparseProcessor)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert transformer.attn_processors == stock
    for module in transformer.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_the_guard_keeps_noisy_steps_and_named_layers_dense() -> None:
    made = make_plan(T2V, **{**EVERYWHERE, "dense_steps": 1.0}, density=0.25)
    clip = engine_for(T2V).run(made, inputs_of(T2V))
    assert clip.trace.density == 1.0
    assert torch.equal(clip.latents, latents(T2V))  # the stock path, bit for bit
    layers = int(made.model.configs.transformer["num_layers"])
    every = ",".join(str(layer) for layer in range(layers))
    permuted = make_plan(T2V, **{**EVERYWHERE, "dense_layers": every}, density=0.25)
    clip = engine_for(T2V).run(permuted, inputs_of(T2V))
    assert clip.trace.density == 1.0
    assert off(clip.latents, latents(T2V)) < 1e-5


def test_half_of_the_schedule_dense_is_judged_by_noise_level() -> None:
    made = make_plan(
        T2V, **{**EVERYWHERE, "dense_steps": 0.5}, density=0.25, flow_shift=4.0,
        num_inference_steps=8, scheduler="euler",
    )  # fmt: skip
    # After half of its steps a schedule of shift 4 stands at 4 * 0.5 / (1 + 3 * 0.5).
    assert made.attention.dense_above == pytest.approx(0.8)
    clip = engine_for(T2V).run(made, inputs_of(T2V))
    sparse = make_plan(T2V, **EVERYWHERE, density=0.25)
    share = engine_for(T2V).run(sparse, inputs_of(T2V)).trace.density
    assert clip.trace.density == pytest.approx(0.5 + 0.5 * share)


def test_a_lora_works_beside_it_and_leaves_with_the_request(tmp_path: Path) -> None:
    style = lora(tmp_path / "style.safetensors", {"blocks.0.attn1.to_q": (48, 48)})
    plain, styled = latents(T2V), latents(T2V, loras=[style])
    assert off(styled, plain) > 1e-4
    assert off(latents(T2V, **WHOLE, loras=[style]), styled) < 1e-5
    assert off(latents(T2V, **WHOLE), plain) < 1e-5


def test_a_step_cache_sees_tokens_in_one_order() -> None:
    """FirstBlockCache compares residuals of the first block; both sides must be in one order."""
    from diffusers import FirstBlockCacheConfig

    parts = tiny_components(T2V.family)
    transformer = parts.transformer
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(1, 16, 3, 8, 8, generator=generator)
    text = torch.randn(1, 8, 32, generator=generator)

    def run() -> list[torch.Tensor]:
        transformer.enable_cache(FirstBlockCacheConfig(threshold=0.5))
        found = []
        try:
            for step, time in enumerate((900, 890, 880)):
                with torch.no_grad(), transformer.cache_context("cond"):
                    out = transformer(x * (1 - 0.01 * step), torch.tensor([time]), text)
                found.append(out.sample)
        finally:
            transformer.disable_cache()
        return found

    calls = []
    handle = transformer.blocks[1].attn1.register_forward_hook(lambda *_: calls.append(1))
    dense = run()
    assert len(calls) < 3  # the cache did skip
    whole = AttentionPlan(TopK(1.0, compensate="none", sub_block=4), "reference", "", 8, 8)
    with SparseSession(whole).attached(transformer):
        sparse = run()
    handle.remove()
    for one, other in zip(sparse, dense, strict=True):
        assert off(one, other) < 1e-5


def test_both_experts_are_sparse() -> None:
    case = Case(family("wan2.2-t2v-a14b"), "t2v")
    clip = engine_for(case).run(make_plan(case, **EVERYWHERE, density=0.25), inputs_of(case))
    assert clip.trace.density < 0.5
    one = make_plan(case, **EVERYWHERE, density=0.25, boundary_ratio=0.0)
    assert engine_for(case).run(one, inputs_of(case)).trace.density == clip.trace.density


def test_a_selection_is_reused_for_as_many_steps_as_asked() -> None:
    parts = tiny_components(T2V.family)
    transformer, generator = parts.transformer, torch.Generator().manual_seed(5)
    steps = [torch.randn(1, 16, 3, 8, 8, generator=generator) for _ in range(4)]
    text = torch.randn(1, 8, 32, generator=generator)

    def run(reuse: int) -> list[torch.Tensor]:
        moment = [Moment(0, 0.5)]
        pattern = TopK(0.5, neighbours=0, sub_block=4)
        plan = AttentionPlan(pattern, "reference", "", 8, 8, reuse_steps=reuse)
        found = []
        with SparseSession(plan, lambda _: moment[0]).attached(transformer), torch.no_grad():
            for step, x in enumerate(steps):
                moment[0] = Moment(step, 0.5)
                found.append(transformer(x, torch.tensor([500]), text).sample)
        return found

    fresh, kept = run(1), run(2)
    same = [torch.equal(one, other) for one, other in zip(fresh, kept, strict=True)]
    assert same == [True, False, True, False]


def test_the_density_counts_shared_and_dense_lists() -> None:
    found = Density()
    assert found.share == 1.0
    found.add_dense(100)
    assert found.blocks == 100
    assert found.share == 1.0


def test_a_moment_comes_from_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Moment] = []
    stock = Watch.moment

    def noted(self: Watch, pipe: Any) -> Moment:
        seen.append(stock(self, pipe))
        return seen[-1]

    monkeypatch.setattr(Watch, "moment", noted)
    latents(T2V, **EVERYWHERE, num_inference_steps=2)
    assert [(moment.step, moment.branch) for moment in seen] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert seen[0].sigma == seen[1].sigma > seen[2].sigma == seen[3].sigma > 0


def test_budgets_of_other_weights_are_refused() -> None:
    engine, made = engine_for(T2V), make_plan(T2V, **EVERYWHERE, density=0.25)
    assert isinstance(made.attention.pattern, TopK)
    config = made.model.configs.transformer
    layers = ((0.25,) * config["num_attention_heads"],) * config["num_layers"]
    for weights, refused in ((engine.weights, False), ("another", True)):
        pattern = dataclasses.replace(made.attention.pattern, budgets=layers)
        attention = dataclasses.replace(made.attention, pattern=pattern, budgets_of=weights)
        changed = dataclasses.replace(made, attention=attention)
        if refused:
            with pytest.raises(BadRequest, match=r"other weights \(another\) than are"):
                engine.run(changed, inputs_of(T2V))
        else:
            engine.run(changed, inputs_of(T2V))
