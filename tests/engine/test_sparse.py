"""Sparse attention attached to every family: right at density 1, gone afterwards, counted."""

import dataclasses
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attention import Dense, Selection, TopK, proxies, router
from tests.engine.cases import CASES, Case, engine_for, inputs_of, lora, make_plan
from vidgen import sparse
from vidgen.attention_plan import AttentionPlan
from vidgen.denoise import Watch
from vidgen.density import Density
from vidgen.errors import BadRequest
from vidgen.events import Progress
from vidgen.families import family
from vidgen.sparse import LayerPlace, Moment, SparseProcessor, SparseSession
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


def lists(heads: int, *counts: int) -> Selection:
    """Lists over 4 key blocks, one for each query block; which blocks does not matter."""
    found = torch.tensor(counts, dtype=torch.int32).expand(1, heads, -1).contiguous()
    blocks = torch.zeros(1, heads, len(counts), 4, dtype=torch.int32)
    return Selection(blocks, found, 16, 8, 16 * len(counts), 32)


def test_the_density_counts_shared_and_dense_lists() -> None:
    found = Density()
    assert found.share == 1.0
    found.add_dense(100)
    assert (found.blocks, found.share) == (100, 1.0)
    pairs = 2 * 3 * 2 * 4  # batch, heads, query blocks, key blocks
    found.add(lists(1, 1, 3), pairs)  # one list for all batches and heads
    assert found.blocks == 100 + 2 * 3 * 4
    found.add(lists(3, 1, 2), pairs // 2)
    assert found.blocks == 100 + 24 + 9
    assert (found.possible, found.dense) == (100 + 48 + 24, 100)
    assert found.share == pytest.approx(133 / 172)


class Waits(TorchDispatchMode):
    """Counts how often a value is asked of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_the_density_of_any_number_of_layers_is_asked_for_once() -> None:
    found = Density()
    with Waits() as waits:
        for _ in range(30):
            found.add(lists(1, 1, 3), 8)
        assert waits.count == 0
        assert found.blocks == 120
    assert waits.count == 1


def test_layers_that_a_step_cache_skips_are_not_counted_as_dense() -> None:
    from diffusers import FirstBlockCacheConfig

    transformer = tiny_components(T2V.family).transformer
    made = torch.Generator().manual_seed(5)
    x, text = torch.randn(1, 16, 3, 8, 8, generator=made), torch.randn(1, 8, 32, generator=made)
    ran = []
    for block in transformer.blocks:
        block.attn1.register_forward_hook(lambda *_: ran.append(1))
    plan = AttentionPlan(TopK(0.5), "reference", "", 8, 8, dense_above=-1.0)
    session = SparseSession(plan, lambda _: Moment(0, 0.5))
    with session.attached(transformer), torch.no_grad():
        transformer.enable_cache(FirstBlockCacheConfig(threshold=0.5))
        for time in (900, 890, 880):
            with transformer.cache_context("cond"):
                transformer(x, torch.tensor([time]), text)
    assert len(ran) < 9  # the cache did skip
    assert session.density.possible == session.density.dense == len(ran) * 2 * 6 * 6


def test_a_kept_selection_is_its_own_layer_s() -> None:
    """VACE's first control block runs before the first main one, which has the same layer."""
    transformer = tiny_components(family("wan2.1-vace")).transformer
    made = torch.Generator().manual_seed(5)
    x, control = (torch.randn(1, size, 3, 8, 8, generator=made) for size in (16, 96))
    text = torch.randn(1, 8, 32, generator=made)

    def run(reuse: int) -> torch.Tensor:
        pattern = TopK(0.25, neighbours=0, sub_block=4)
        plan = AttentionPlan(pattern, "reference", "", 8, 8, reuse_steps=reuse)
        session = SparseSession(plan, lambda _: Moment(0, 0.5))
        with session.attached(transformer), torch.no_grad():
            out = transformer(x, torch.tensor([500]), text, control_hidden_states=control)
        found: torch.Tensor = out.sample
        return found

    assert torch.equal(run(2), run(1))


@pytest.mark.parametrize("word", ["topk", "window"])
def test_what_follows_from_the_layout_is_made_once(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        stock = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made[name] += 1
            return stock(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in ("row_counts", "priorities", "block_sizes", "window"):
        counted(sparse, name)
        counted(proxies if name == "block_sizes" else router, name)
    latents(T2V, **{**EVERYWHERE, "attention": word, "compensate": None}, num_inference_steps=4)
    # Eight forwards of three layers; how many blocks a row reads is asked once for each layer.
    once = {"row_counts": 3, "priorities": 1} if word == "topk" else {"window": 1, "priorities": 1}
    assert made == {**once, "block_sizes": 1}


@pytest.mark.gpu
@pytest.mark.parametrize("budgets", [None, ((0.25, 0.5), (0.5, 0.25))])
@pytest.mark.parametrize("top_p", [None, 0.6])
def test_on_a_gpu_nothing_waits_once_a_run_is_under_way(budgets: Any, top_p: float | None) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    pattern = TopK(0.25, budgets=budgets, top_p=top_p)
    session = SparseSession(AttentionPlan(pattern, "triton", ""), lambda _: Moment(0, 0.5))
    config = SimpleNamespace(patch_size=(1, 2, 2), attention_head_dim=64)
    hidden = torch.zeros(1, 16, 9, 32, 48, device="cuda")
    tokens = 9 * 16 * 24
    q, k, v = (torch.randn(1, tokens, 2, 64, device="cuda").bfloat16() for _ in range(3))

    def forward() -> None:
        session.begin(SimpleNamespace(config=config), hidden, torch.zeros(1))
        for layer in range(2):
            session.attend(q, k, v, LayerPlace(0, layer))

    with session.attached(tiny_components(T2V.family).transformer):
        forward()  # compiles, and makes what is made once
        torch.cuda.synchronize()
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            forward()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    assert 0 < session.density.share < 1


def test_a_dense_backend_that_was_asked_for_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def flash_attn_func(q: Any, k: Any, v: Any, softmax_scale: Any = None) -> Any:
        calls.append(tuple(q.shape))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, scale=softmax_scale
        ).transpose(1, 2)

    monkeypatch.setitem(sys.modules, "flash_attn", SimpleNamespace(flash_attn_func=flash_attn_func))
    made = make_plan(T2V)
    attention = AttentionPlan(Dense(), "flash", "asked for")
    clip = engine_for(T2V).run(dataclasses.replace(made, attention=attention), inputs_of(T2V))
    assert len(calls) == 3 * 2 * 3  # steps, branches, layers
    assert set(calls) == {(1, 3 * 4 * 4, 2, 24)}
    assert clip.trace.attention_backend == "flash"
    assert off(clip.latents, latents(T2V)) < 1e-5
    assert len(calls) == 18  # and it is gone afterwards


def test_a_run_says_as_it_goes_what_attention_has_read_by_whom_and_why() -> None:
    made = make_plan(T2V, **{**EVERYWHERE, "dense_steps": 0.5}, density=0.25, scheduler="euler")
    seen: list[Progress] = []
    clip = engine_for(T2V).run(made, inputs_of(T2V), on=seen.append, previews=False)
    steps = [event for event in seen if event.stage == "denoise"]
    shares = [event.density for event in steps]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == clip.trace.density < 1
    assert {event.attention_backend for event in steps} == {"cpu"}
    assert {event.attention_reason for event in steps} == {made.attention.reason}
    assert all(event.density is None for event in seen if event.stage != "denoise")
    assert clip.trace.attention_reason == made.attention.reason
    assert clip.recipe["trace"]["attention_reason"] == made.attention.reason


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
