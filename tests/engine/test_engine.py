"""The engine's promises beside golden parity: isolation, determinism, stopping, keeping work."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.cases import CASES, Case, golden, inputs_of, lora, make_plan, picture, pixels
from vidgen.clip import Clip
from vidgen.decode import decode_groups
from vidgen.embeddings import EmbeddingCache
from vidgen.engine import Engine
from vidgen.errors import BadOutput, BadRequest, Cancelled, DoesNotFit
from vidgen.events import CancelToken, Preview, Progress
from vidgen.families import family
from vidgen.inputs import Inputs
from vidgen.latents import load_latents
from vidgen.residency import Residency
from vidgen.tiny import tiny_components, tiny_model

T2V = Case(family("wan2.1-t2v"), "t2v")
TWO = Case(family("wan2.2-t2v-a14b"), "t2v")
TOY = Case(family("toyworld"), "t2v")


class Keep:
    """A sink that keeps what it gets."""

    def __init__(self, recipe: dict[str, Any]) -> None:
        self.recipe = recipe
        self.groups: list[Any] = []
        self.aborted = False

    def write(self, frames: Any) -> None:
        self.groups.append(frames.copy())

    def abort(self) -> None:
        self.aborted = True


def engine(case: Case, **options: Any) -> Engine:
    return Engine(tiny_model(case.family), tiny_components(case.family), **options)


def state(parts: Any) -> dict[str, torch.Tensor]:
    return {
        f"{i}.{name}": value.clone()
        for i, expert in enumerate(parts.transformers)
        for name, value in expert.state_dict().items()
    }


@pytest.mark.parametrize("case", [T2V, TWO], ids=lambda case: case.name)
def test_golden_again_after_other_requests(case: Case, tmp_path: Path) -> None:
    run = engine(case)
    made, inputs = make_plan(case), inputs_of(case)
    wanted = golden(case, run.components, made, inputs)
    before = state(run.components)
    path = lora(tmp_path / "a.safetensors", {"blocks.0.attn1.to_q": (48, 48)})
    other = run.run(make_plan(case, loras=[f"{path}:0.8"]), inputs)
    assert (other.latents - wanted).abs().max() > 1e-4
    run.run(make_plan(case, width=96, height=32, num_frames=5), inputs)
    token = CancelToken()
    with pytest.raises(Cancelled):
        run.run(made, inputs, cancel=token, on=lambda _: token.cancel())
    with pytest.raises(BadRequest):
        run.run(make_plan(case, loras=[lora(tmp_path / "b.safetensors", {"x.y": (8, 8)})]), inputs)
    after = state(run.components)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert torch.equal(run.run(made, inputs).latents, wanted)


def test_lora_counts_partial_and_none(tmp_path: Path) -> None:
    run = engine(T2V)
    names = {"blocks.0.attn1.to_q": (48, 48), "blocks.9.attn1.to_q": (48, 48)}
    path = lora(tmp_path / "partial.safetensors", names)
    clip = run.run(make_plan(T2V, loras=[path]))
    assert [(item["matched"], item["unmatched"]) for item in clip.trace.loras] == [(1, 1)]
    assert [item["field"] for item in clip.recipe["adjustments"]] == ["loras"]
    with pytest.raises(BadRequest, match="strict"):
        run.run(make_plan(T2V, loras=[path], strict=True))
    none = lora(tmp_path / "none.safetensors", {"blocks.9.attn1.to_q": (48, 48)})
    with pytest.raises(BadRequest, match="matches none"):
        run.run(make_plan(T2V, loras=[none]))
    misfit = lora(tmp_path / "misfit.safetensors", {"blocks.0.attn1.to_q": (40, 48)})
    with pytest.raises(BadRequest, match="does not fit"):
        run.run(make_plan(T2V, loras=[misfit]))


def test_lora_goes_to_the_expert_it_names(tmp_path: Path) -> None:
    run = engine(TWO)
    path = lora(tmp_path / "a.safetensors", {"blocks.0.attn1.to_q": (48, 48)}, scale=0.6)
    latents = {
        target: run.run(make_plan(TWO, loras=[f"{path}:1.0:{target}"])).latents
        for target in ("both", "high", "low")
    }
    assert not torch.equal(latents["both"], latents["high"])
    assert not torch.equal(latents["low"], latents["high"])


def test_lora_equals_diffusers_own_loading(tmp_path: Path) -> None:
    import diffusers

    run = engine(T2V)
    path = lora(tmp_path / "a.safetensors", {"blocks.1.attn1.to_k": (48, 48)})
    made = make_plan(T2V, loras=[f"{path}:0.7"])
    mine = run.run(made).latents
    parts = tiny_components(T2V.family)
    loader = diffusers.WanPipeline(
        tokenizer=parts.tokenizer, text_encoder=None, vae=parts.vae,
        transformer=parts.transformer, scheduler=None,
    )  # fmt: skip
    loader.load_lora_weights(path, adapter_name="a")
    loader.set_adapters(["a"], [0.7])
    assert torch.equal(mine, golden(T2V, parts, made, Inputs()))


def test_item_of_many_equals_one_alone() -> None:
    run = engine(T2V)
    many = make_plan(T2V, n=4)
    assert many.seeds == (11, 12, 13, 14)
    first = run.run(many, index=0)
    third = run.run(many, index=2)
    assert torch.equal(first.latents, run.run(make_plan(T2V)).latents)
    assert torch.equal(third.latents, run.run(make_plan(T2V, seed=13)).latents)
    assert third.recipe["request"]["seed"] == 13


@pytest.mark.parametrize("name", ["toyworld", "wan2.1-t2v", "wan2.2-ti2v"])
def test_streamed_decode_equals_diffusers(name: str) -> None:
    case = Case(family(name), "t2v")
    run = engine(case)
    clip = run.run(make_plan(case))
    vae = run.components.vae
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape)
    std = 1.0 / torch.tensor(vae.config.latents_std).view(shape)
    with torch.no_grad():
        whole = vae.decode(clip.latents.unsqueeze(0) / std + mean, return_dict=False)[0]
    wanted = (whole * 0.5 + 0.5).clamp(0, 1)[0].permute(1, 2, 3, 0).numpy()
    assert clip.frames is not None
    assert clip.frames.shape == (9, 64, 64, 3)
    assert np.array_equal(clip.frames, wanted)
    groups = decode_groups(vae, clip.latents, tiled=False, cancel=CancelToken())
    assert [len(group) for group in groups] == [1, 4, 4]


def test_embeddings_with_and_without_cache_are_equal(tmp_path: Path) -> None:
    plain = engine(T2V).run(make_plan(T2V))
    assert plain.trace.cache_hits == 0
    kept = engine(T2V, cache=EmbeddingCache(tmp_path))
    assert torch.equal(kept.run(make_plan(T2V)).latents, plain.latents)
    from_memory = kept.run(make_plan(T2V))
    from_disk = engine(T2V, cache=EmbeddingCache(tmp_path)).run(make_plan(T2V))
    for clip in (from_memory, from_disk):
        assert clip.trace.cache_hits == 2
        assert torch.equal(clip.latents, plain.latents)
    for path in tmp_path.iterdir():
        path.write_bytes(b"damaged")
    damaged = engine(T2V, cache=EmbeddingCache(tmp_path)).run(make_plan(T2V))
    assert damaged.trace.cache_hits == 0
    assert torch.equal(damaged.latents, plain.latents)


@pytest.mark.parametrize("name", ["toyworld", "wan2.2-ti2v"])
def test_pinned_frames_hold(name: str) -> None:
    """The given latent frames come out as the VAE itself encodes them; the others do not."""
    row = family(name)
    for task, given in (("flf2v", {0, 2}), ("last", {2}), ("prefix", {0, 1})):
        case = Case(row, task)  # type: ignore[arg-type]
        run = engine(case)
        inputs = inputs_of(case)
        latents = run.run(make_plan(case), inputs).latents
        wanted = encoded(run, inputs)
        assert set(wanted) == given
        held = {t for t in range(3) if t in wanted and torch.equal(latents[:, t], wanted[t])}
        assert held == given
        other = run.run(make_plan(case, seed=99), inputs).latents
        assert {t for t in range(3) if torch.equal(latents[:, t], other[:, t])} == given


def encoded(run: Engine, inputs: Inputs) -> dict[int, torch.Tensor]:
    """Latent frames that inputs stand for, straight from the VAE: a last frame as a still."""
    vae = run.components.vae
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape)
    inverse = 1.0 / torch.tensor(vae.config.latents_std).view(shape)

    def encode(frames: list[Any]) -> torch.Tensor:
        pixels_bcfrw = torch.tensor(np.stack(frames)).permute(3, 0, 1, 2).unsqueeze(0) * 2 - 1
        with torch.no_grad():
            return ((vae.encode(pixels_bcfrw).latent_dist.mode() - mean) * inverse)[0]

    found = {}
    if inputs.image is not None:
        found[0] = encode([inputs.image])[:, 0]
    if inputs.last_image is not None:
        found[2] = encode([inputs.last_image] * 5)[:, 1]
    if inputs.video is not None:
        prefix = encode(list(inputs.video))
        found |= {t: prefix[:, t] for t in range(prefix.shape[1])}
    return found


LAST = [case for case in CASES if case.task == "last" and case.family.token_times]


@pytest.mark.parametrize("case", LAST, ids=lambda case: case.name)
def test_last_frame_reads_back(case: Case) -> None:
    """What is decoded at the end follows the still that was given there."""
    run = engine(case)
    still = Inputs(last_image=pixels(picture(5)))
    ends = [run.run(make_plan(case, given), given).frames for given in (still, inputs_of(case))]
    assert ends[0] is not None
    assert ends[1] is not None
    assert np.abs(ends[0][-4:] - ends[1][-4:]).mean() > 1e-4


def test_progress_previews_and_order() -> None:
    run = engine(TOY)
    events: list[Any] = []
    run.run(make_plan(TOY, num_inference_steps=3), on=events.append)
    steps = [(e.stage, e.done, e.total) for e in events if isinstance(e, Progress)]
    assert steps == [
        ("encode", 1, 1), ("denoise", 1, 3), ("denoise", 2, 3), ("denoise", 3, 3),
        ("decode", 1, 3), ("decode", 2, 3), ("decode", 3, 3),
    ]  # fmt: skip
    assert all(e.eta >= 0 for e in events if isinstance(e, Progress))
    previews = [e for e in events if isinstance(e, Preview)]
    assert previews
    assert previews[0].frames.shape == (3, 8, 8, 3)
    assert previews[0].frames.dtype == np.uint8
    plain = run.run(make_plan(TOY, preview="off"), on=events.append)
    assert torch.equal(plain.latents, run.run(make_plan(TOY)).latents)


def test_cancel_stops_within_one_step() -> None:
    run = engine(TOY)
    token = CancelToken()

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and event.stage == "denoise" and event.done == 3:
            token.cancel()

    plan = make_plan(TOY, num_inference_steps=10)
    with pytest.raises(Cancelled, match="step 4 of 10"):
        run.run(plan, cancel=token, on=stop)
    assert run.run(plan).trace.forwards == 20


def test_cancel_during_decode_keeps_latents(tmp_path: Path) -> None:
    run = engine(TOY)
    token = CancelToken()
    path = tmp_path / "clip.latents.safetensors"

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and event.stage == "decode":
            token.cancel()

    with pytest.raises(Cancelled, match="decoding latent frame 2 of 3"):
        run.run(make_plan(TOY), cancel=token, on=stop, latents_path=path)
    again = run.decode(load_latents(path))
    whole = run.run(make_plan(TOY))
    assert frames_equal(again, whole)
    assert torch.equal(again.latents, whole.latents)


def frames_equal(a: Clip, b: Clip) -> bool:
    assert a.frames is not None
    assert b.frames is not None
    return np.array_equal(a.frames, b.frames)


def test_not_finite_latents_stop_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = engine(TOY)
    expert = run.components.transformer
    stock = expert.forward
    calls = 0

    def poisoned(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        out = stock(*args, **kwargs)
        return (out[0] * float("nan"),) if calls == 3 else out

    monkeypatch.setattr(expert, "forward", poisoned)
    path = tmp_path / "x.safetensors"
    with pytest.raises(BadOutput, match="step 2 of 3") as caught:
        run.run(make_plan(TOY), latents_path=path)
    assert caught.value.code == "nan_latents"
    assert calls == 4
    assert not path.exists()


def test_decode_is_retried_in_tiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = engine(TOY)
    vae = run.components.vae
    stock = vae.decoder.forward
    failures = 1

    def hungry(*args: Any, **kwargs: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise torch.OutOfMemoryError("no memory")
        return stock(*args, **kwargs)

    monkeypatch.setattr(vae.decoder, "forward", hungry)
    clip = run.run(make_plan(TOY))
    assert clip.trace.vae_tiled
    assert [item.field for item in clip.trace.adjustments] == ["vae_tiling"]
    assert clip.frames is not None
    assert clip.frames.shape == (9, 64, 64, 3)
    failures = 99  # every further call
    path = tmp_path / "clip.latents.safetensors"
    with pytest.raises(DoesNotFit, match="latents are kept"):
        run.run(make_plan(TOY), latents_path=path)
    failures = 0
    assert torch.equal(run.decode(load_latents(path)).latents, clip.latents)


@pytest.mark.parametrize("offload", ["model", "group"])
def test_offload_changes_no_bit(offload: str) -> None:
    case = Case(family("wan2.2-i2v-a14b"), "i2v")
    plain = engine(case).run(make_plan(case), inputs_of(case))
    moved = engine(case, offload=offload).run(make_plan(case, offload=offload), inputs_of(case))
    assert torch.equal(plain.latents, moved.latents)
    assert frames_equal(plain, moved)


def test_model_offload_has_one_part_on_the_device_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The device is called cpu:0, which torch moves to like any other, and the host cpu."""
    case = Case(family("wan2.2-i2v-a14b"), "i2v")
    run = engine(case, device="cpu:0", offload="model")
    parts = run.components
    named = {"high": parts.transformer, "low": parts.transformer_2, "vae": parts.vae}
    where = dict.fromkeys(named, "cpu")
    used: list[str] = []

    def watch(name: str, module: Any, called: Any, method: str) -> None:
        stock = getattr(called, method)
        stock_to = module.to

        def to(device: Any) -> Any:
            where[name] = str(device)
            return stock_to(device)

        def call(*args: Any, **kwargs: Any) -> Any:
            assert [n for n in named if where[n] == "cpu:0"] == [name]
            used.append(name)
            return stock(*args, **kwargs)

        monkeypatch.setattr(module, "to", to)
        monkeypatch.setattr(called, method, call)

    watch("high", parts.transformer, parts.transformer, "forward")
    watch("low", parts.transformer_2, parts.transformer_2, "forward")
    watch("vae", parts.vae, parts.vae.decoder, "forward")
    plain = engine(case).run(make_plan(case), inputs_of(case))
    moved = run.run(make_plan(case, offload="model"), inputs_of(case))
    assert list(dict.fromkeys(used)) == ["high", "low", "vae"]
    assert set(where.values()) == {"cpu"}
    assert torch.equal(plain.latents, moved.latents)


@pytest.mark.parametrize("case", [c for c in CASES if c.task != "t2v"], ids=lambda c: c.name)
def test_the_vae_is_on_the_device_whenever_it_encodes(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine(case, offload="model")
    vae, inside = run.components.vae, []
    stock_encode, stock_visit = vae.encode, Residency.on_device

    @contextmanager
    def visit(self: Residency, part: Any) -> Iterator[None]:
        inside.append(part)
        with stock_visit(self, part):
            yield
        inside.remove(part)

    def encode(*args: Any, **kwargs: Any) -> Any:
        assert vae in inside
        return stock_encode(*args, **kwargs)

    monkeypatch.setattr(Residency, "on_device", visit)
    monkeypatch.setattr(vae, "encode", encode)
    run.run(make_plan(case, offload="model", num_inference_steps=2), inputs_of(case))
    assert not inside


def test_previews_show_the_given_frames() -> None:
    case = Case(family("toyworld"), "flf2v")
    run, events = engine(case), []
    run.run(make_plan(case, num_inference_steps=4), inputs_of(case), on=events.append)
    first, *_, last = [event.frames for event in events if isinstance(event, Preview)]
    assert np.array_equal(first[0], last[0])
    assert np.array_equal(first[-1], last[-1])
    assert not np.array_equal(first[1], last[1])


def test_inputs_that_are_not_those_planned_are_refused() -> None:
    case = Case(family("toyworld"), "i2v")
    with pytest.raises(BadRequest, match="inputs"):
        engine(case).run(make_plan(case), Inputs())


def test_vae_tiling_off_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine(TOY)

    def hungry(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(run.components.vae.decoder, "forward", hungry)
    with pytest.raises(DoesNotFit, match=r"^Decoding ran out of memory; decode on"):
        run.run(make_plan(TOY, vae_tiling="off"))


def test_memory_running_out_while_denoising_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = engine(TOY)

    def hungry(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(run.components.transformer, "forward", hungry)
        with pytest.raises(DoesNotFit, match="Denoising ran out of memory"):
            run.run(make_plan(TOY))
    assert run.run(make_plan(TOY)).trace.forwards == 6


def test_a_disk_that_refuses_the_latents_does_not_lose_the_clip(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vidgen.engine.save_latents", full)
    clip = engine(TOY).run(make_plan(TOY), latents_path=tmp_path / "x.safetensors")
    assert clip.frames is not None
    assert [item.field for item in clip.trace.adjustments] == ["keep_latents"]
    with pytest.raises(DoesNotFit, match="cannot be written"):
        engine(TOY).run(make_plan(TOY), latents_path=Path("/proc/none/x.safetensors"))


def test_prompt_beyond_the_limit_is_told_when_it_is_encoded() -> None:
    long = " ".join(["ball"] * 600)
    clip = engine(T2V).run(make_plan(T2V, negative_prompt=long))
    assert [item["field"] for item in clip.recipe["adjustments"]] == ["negative_prompt"]


def test_engine_refuses_a_plan_for_other_weights() -> None:
    with pytest.raises(BadRequest, match="dtype"):
        engine(T2V).run(make_plan(T2V, dtype="bfloat16"))
    with pytest.raises(BadRequest, match="holds"):
        engine(T2V).run(make_plan(TOY))


def test_sink_gets_what_the_clip_would_hold() -> None:
    run, sinks = engine(TOY), []
    streamed = run.run(
        make_plan(TOY), open_sink=lambda recipe: sinks.append(Keep(recipe)) or sinks[0]
    )
    assert streamed.frames is None
    whole = run.run(make_plan(TOY))
    assert np.array_equal(np.concatenate(sinks[0].groups), whole.frames)
    assert sinks[0].recipe["latents_sha256"] == whole.recipe["latents_sha256"]


def test_memory_running_out_in_the_middle_starts_the_file_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, sinks = engine(TOY), []
    stock = run.components.vae.decoder.forward
    calls = 0

    def hungry(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise torch.OutOfMemoryError("no memory")
        return stock(*args, **kwargs)

    monkeypatch.setattr(run.components.vae.decoder, "forward", hungry)

    def open_sink(recipe: dict[str, Any]) -> Keep:
        sinks.append(Keep(recipe))
        return sinks[-1]

    clip = run.run(make_plan(TOY), open_sink=open_sink)
    assert [sink.aborted for sink in sinks] == [True, False]
    assert sum(len(group) for group in sinks[1].groups) == 9
    assert sinks[1].recipe["adjustments"][-1]["field"] == "vae_tiling"
    assert clip.trace.vae_tiled
