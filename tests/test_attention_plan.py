"""What planning decides about attention: choices with reasons, refusals, adjustments, its cost."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attention import TopK
from vidgen.attention_plan import noise_level
from vidgen.attention_share import attention_share, attention_spread
from vidgen.budgets import DENSITIES, Recall, save_budgets
from vidgen.cli.show import plan_text
from vidgen.device import cpu_profile, named
from vidgen.errors import BadRequest
from vidgen.plan import Plan, plan
from vidgen.request import parse_request

WAN = {"model": "wan2.1-t2v-1.3b", "prompt": "a cat"}
TOY = {"model": "toyworld", "prompt": "a red ball"}
CPU = cpu_profile(2, 2**34)


def made(fields: dict[str, Any], device: str = "nvidia-h200", **changes: Any) -> Plan:
    profile = CPU if device == "cpu" else named(device)
    return plan(parse_request({**fields, **changes}), profile)


def test_dense_is_the_default_and_golden() -> None:
    found = made(WAN)
    assert (found.attention.name, found.attention.backend) == ("dense", "sdpa")
    assert found.attention.as_dict()["sparse"] == {}
    assert found.fidelity.startswith("L0")


def test_a_sparse_plan_is_complete() -> None:
    found = made(WAN, attention="topk")
    attention = found.attention
    assert attention.backend == "triton"
    assert attention.reason == "sm90, bfloat16, head dimension 128"
    assert (attention.query_block, attention.key_block) == (128, 64)
    assert attention.dense_layers == (0,)
    assert attention.dense_above == pytest.approx(noise_level(0.2, found.flow_shift))
    assert attention.layout(found.grid).tokens == 32760
    assert found.fidelity.startswith("L2")
    assert (
        None
        not in {
            key: value for key, value in attention.as_dict()["sparse"].items() if key != "top_p"
        }.values()
    )
    assert made(TOY, "cpu", attention="topk").attention.backend == "cpu"


def test_what_stays_dense_is_told() -> None:
    usual = made(WAN, attention="topk", dense_steps=0.2)
    assert usual.sparse_part == pytest.approx(0.8 * 29 / 30)  # 40 of 50 steps, layer 0 of 30
    assert "; sparse in 77 % of the self-attentions, dense above" in plan_text(usual)
    assert "; compensate mean" in plan_text(usual)
    assert made(WAN).sparse_part == 0
    for dense in ({"dense_steps": 1.0}, {"dense_layers": ",".join(map(str, range(30)))}):
        found = made(WAN, attention="topk", **dense)
        assert found.fidelity == "L1: every step or layer stays dense, over tokens in another order"
        assert "sparse in 0 % of the self-attentions" in plan_text(found)
    told = plan_text(made(WAN, attention="topk", compensate="none", top_p=0.9, sink_frames=2))
    assert "; compensate none; top_p 0.9; sink frames 2" in told
    told = plan_text(made(WAN, attention="window"))
    assert "sparse in" in told
    assert "compensate" not in told


def test_each_family_judges_blocks_its_own_way() -> None:
    toyworld = made(TOY, "cpu", attention="topk").attention.as_dict()["sparse"]
    wan = made(WAN, attention="topk").attention.as_dict()["sparse"]
    assert (toyworld["score"], toyworld["sub_block"]) == ("mass", 4)
    assert (wan["score"], wan["sub_block"]) == ("subblock", 16)


def test_the_work_of_a_sparse_run_is_counted_by_hand() -> None:
    found = made(WAN, attention="topk", compensate="none", dense_steps=0.2)
    dense = made(WAN)
    share = found.estimate.flops["attention"] / dense.estimate.flops["attention"]
    # 64 of 512 key blocks and the router's 1/512; layer 0 of 30 and 10 of 50 steps are dense.
    layer = 1 / 30 + 29 / 30 * (64 / 512 + 0.5 / 256)
    assert share == pytest.approx(0.2 + 0.8 * layer, rel=1e-6)
    assert found.estimate.flops["linear"] == dense.estimate.flops["linear"]
    assert found.estimate.seconds["denoise"].middle < dense.estimate.seconds["denoise"].middle


def test_judging_blocks_costs_what_each_way_of_it_multiplies() -> None:
    found = made(WAN, attention="topk", dense_steps=0, dense_layers="none", compensate="none")

    def judging(backend: str, score: Any) -> float:
        pattern = dataclasses.replace(found.attention.pattern, score=score)
        changed = dataclasses.replace(found.attention, pattern=pattern, backend=backend)
        share = attention_share(changed, found.model, found.grid, (0, 50), found.flow_shift)
        return share - 64 / 512

    for backend, score, wanted in (
        ("triton", "subblock", 0.5 / 256),
        ("triton", "mass", 2 * 0.5 / 256),  # its sums are made in a pass of their own
        ("cpu", "mass", 0.5 / 256),
        ("triton", "mean", 0.5 / (128 * 64)),  # parts are whole blocks
    ):
        assert judging(backend, score) == pytest.approx(wanted, rel=1e-6)


def test_top_p_widens_the_time_by_what_it_may_read() -> None:
    plain = made(WAN, attention="topk", dense_steps=0.2)
    loose = made(WAN, attention="topk", dense_steps=0.2, top_p=0.9)
    assert loose.estimate.flops == plain.estimate.flops
    dense = made(WAN).estimate.flops["attention"]
    # 32 to 96 of 512 key blocks, in 40 of 50 steps and 29 of 30 layers.
    spread = 0.8 * 29 / 30 * 32 / 512
    work = (loose.attention, loose.model, loose.grid, (0, 50), loose.flow_shift)
    assert attention_spread(*work) == pytest.approx(spread, rel=1e-6)
    middle = plain.estimate.flops["attention"] / dense
    for density, end in ((32 / 512, "low"), (96 / 512, "high")):
        exact = made(WAN, attention="topk", dense_steps=0.2, density=density).estimate
        assert getattr(loose.estimate.seconds["denoise"], end) == pytest.approx(
            getattr(exact.seconds["denoise"], end), rel=1e-6
        )
        off = abs(exact.flops["attention"] / dense - middle)
        assert off == pytest.approx(spread, rel=1e-6)
    assert any("op-p decides while it runs" in note for note in loose.estimate.notes)
    assert not any("op-p" in note for note in plain.estimate.notes)


def test_dense_layers_of_vace_are_control_blocks_too() -> None:
    vace = {**WAN, "model": "wan2.1-vace-1.3b"}
    plans = [made(vace, attention="topk", dense_steps=0, dense_layers=layers) for layers in
             ("none", "0", "1")]  # fmt: skip
    sparse, control, main = (
        found.estimate.flops["attention"] / made(vace).estimate.flops["attention"]
        for found in plans
    )
    # 30 blocks and 15 control blocks: layer 0 has one of each, layer 1 none of the latter.
    assert control == pytest.approx(2 / 45 + 43 / 45 * sparse, rel=1e-6)
    assert main == pytest.approx(1 / 45 + 44 / 45 * sparse, rel=1e-6)


def test_a_short_clip_stays_dense_and_says_so() -> None:
    short = {"width": 256, "height": 256, "num_frames": 17}
    found = made(WAN, attention="topk", **short)
    assert found.attention.name == "dense"
    (change,) = [item for item in found.adjustments if item.field == "attention"]
    assert "below the floor of 8,192" in change.why
    assert "attention_backend" not in {item.field for item in found.adjustments}
    asked = made(WAN, attention="topk", attention_backend="triton", **short)
    assert asked.attention.backend == "sdpa"
    changes = {item.field: (item.asked, item.used) for item in asked.adjustments}
    assert changes["attention"] == ("topk", "dense")
    assert changes["attention_backend"] == ("triton", "sdpa")
    assert "below the floor of 8,192" in asked.attention.reason
    with pytest.raises(BadRequest, match="strict"):
        made(WAN, attention="topk", strict=True, **short)
    assert made(WAN, attention="topk", min_tokens=0, **short).attention.name == "topk"


@pytest.mark.parametrize(
    ("fields", "match", "field"),
    [
        ({"density": 0.2}, "density=0.2 does nothing with attention=dense", "density"),
        ({"attention": "window", "top_p": 0.9}, "top_p=0.9 does nothing with", "top_p"),
        ({"attention": "window", "compensate": "mean"}, "use attention=topk", "compensate"),
        ({"budgets": "b.json"}, "budgets=b.json does nothing", "budgets"),
        ({"attention": "topk", "dense_layers": "1,30"}, "outside 0..29", "dense_layers"),
        ({"attention": "topk", "attention_backend": "cpu"}, "needs a CPU", "attention_backend"),
        ({"attention": "topk", "attention_backend": "sdpa"}, "cannot leave", "attention_backend"),
        ({"attention_backend": "triton"}, "computes sparse attention", "attention_backend"),
        ({"attention_backend": "flash"}, "not installed", "attention_backend"),
        ({"attention": "topk", "dtype": "float32"}, "float16, asked for float32", None),
    ],
)
def test_what_cannot_run_or_does_nothing_is_refused(
    fields: dict[str, Any], match: str, field: str | None
) -> None:
    with pytest.raises(BadRequest, match=match) as caught:
        made(WAN, **fields)
    assert field is None or caught.value.field == field


@pytest.mark.parametrize(
    ("text", "layers"), [("none", ()), ("0", (0,)), (2, (2,)), ("3,1", (1, 3)), ([0, 2], (0, 2))]
)
def test_layers_are_read_in_every_form(text: Any, layers: tuple[int, ...]) -> None:
    assert made(WAN, attention="topk", dense_layers=text).attention.dense_layers == layers


@pytest.mark.parametrize("text", ["", "a", "-1", "1;2", [-1], True])
def test_what_are_no_layers_is_one_sentence(text: Any) -> None:
    with pytest.raises(BadRequest, match="dense_layers"):
        parse_request({**WAN, "dense_layers": text})


def test_given_first_frames_are_always_read(tmp_path: Any) -> None:
    from PIL import Image

    path = tmp_path / "a.png"
    Image.new("RGB", (96, 96)).save(path)
    given = made({**WAN, "model": "wan2.1-i2v-14b-480p"}, attention="topk", image=str(path))
    assert given.attention.sink_frames == 1
    assert made(WAN, attention="topk").attention.sink_frames == 0
    assert made(WAN, attention="topk", sink_frames=2).attention.sink_frames == 2
    toyworld = made(TOY, "cpu", attention="topk", image=str(path))
    assert toyworld.attention.sink_frames == 0


def test_planning_sparse_attention_loads_no_torch() -> None:
    code = (
        "import sys; from vidgen.plan import plan; from vidgen.request import parse_request; "
        "from vidgen.device import named; "
        "plan(parse_request({'prompt': 'x', 'model': 'wan2.1-t2v-14b', 'attention': 'topk'}), "
        "named('nvidia-h200')); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("model", "rows"), [("wan2.2-t2v-a14b", 80), ("wan2.1-vace-14b", 48), ("wan2.1-t2v-14b", 40)]
)
def test_each_self_attention_has_its_own_budgets(tmp_path: Path, model: str, rows: int) -> None:
    fields = {**WAN, "model": model, "attention": "topk", "dense_layers": "0"}
    path, heads = tmp_path / "b.json", 40
    grid = str(made(fields).grid)
    flat = tuple(DENSITIES)
    sharp = tuple(min(1.0, 30 * density) for density in DENSITIES)
    kept = tuple((sharp if row % 3 else flat,) * heads for row in range(rows))
    save_budgets(path, [Recall(model, "w", grid, 128, 64, DENSITIES, kept)])
    pattern = made(fields, budgets=str(path)).attention.pattern
    assert isinstance(pattern, TopK)
    assert pattern.budgets is not None
    dense = {"wan2.2-t2v-a14b": {0, 40}, "wan2.1-vace-14b": {0, 40}, "wan2.1-t2v-14b": {0}}[model]
    assert {row for row, found in enumerate(pattern.budgets) if not found} == dense
    experts = 2 if rows == 80 else 1
    for expert in range(experts):
        part = pattern.budgets[expert * rows // experts : (expert + 1) * rows // experts]
        densities = [density for row in part for density in row]
        assert sum(densities) / len(densities) == pytest.approx(0.125)

    save_budgets(path, [Recall(model, "w", grid, 128, 64, DENSITIES, kept[:39])])
    with pytest.raises(BadRequest, match=f"39 self-attentions for {model}, which has {rows}"):
        made(fields, budgets=str(path))


def test_a_recipe_tells_budgets_apart(tmp_path: Path) -> None:
    curve = tuple(min(1.0, 3 * density) for density in DENSITIES)
    sharp = tuple(min(1.0, 20 * density) for density in DENSITIES)
    layers = int(made(TOY).model.configs.transformer["num_layers"])
    named_as = []
    for number, heads in enumerate(((curve, curve), (curve, sharp))):
        path = tmp_path / f"{number}.json"
        found = made(TOY, "cpu", attention="topk")
        grid, blocks = str(found.grid), (found.attention.query_block, found.attention.key_block)
        save_budgets(path, [Recall("toyworld", "w", grid, *blocks, DENSITIES, (heads,) * layers)])
        sparse = made(TOY, "cpu", attention="topk", budgets=str(path)).attention
        assert sparse.budgets_of == "w"
        named_as.append(sparse.as_dict()["sparse"]["budgets"])
    assert all(name.startswith("per head ") for name in named_as)
    assert named_as[0] != named_as[1]


def test_a_model_s_own_budgets_are_used_when_they_pay_or_are_asked_for() -> None:
    """toyworld ships some, which gain nothing there; a WAN folder ships none."""

    def densities(**fields: Any) -> Any:
        return made(TOY, "cpu", attention="topk", **fields).attention.pattern.budgets

    assert densities() is None
    assert densities(budgets="uniform") is None
    assert len(densities(budgets="own")) == 6
    with pytest.raises(BadRequest, match=r"has no budgets for toyworld at 2x4x4 tokens"):
        densities(budgets="own", num_frames=5, width=64, height=64)
    with pytest.raises(BadRequest, match="has no budgets of its own"):
        made(WAN, attention="topk", budgets="own")


def test_more_sink_frames_than_the_clip_has_are_refused() -> None:
    asked = {"attention": "topk", "num_frames": 9}
    assert made(TOY, "cpu", sink_frames=3, **asked).attention.sink_frames == 3
    with pytest.raises(BadRequest, match=r"sink_frames=4 is more than the clip's 3 latent") as no:
        made(TOY, "cpu", sink_frames=4, **asked)
    assert no.value.field == "sink_frames"
