"""The sparsity benchmark on tiny shapes: its arms, what it counts, what it compares and shows."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from attention import Grid, Vsa, layout_order
from attention.reference import attend_reference
from attention.selection import Selection
from benchmarks import arm_sheet, sparse_arms, sparsity, sparsity_parts
from benchmarks.executed import forward_flops, sparse_density, watched, works
from benchmarks.intervals import mean_of, paired
from benchmarks.rendered import compared, render
from benchmarks.sparse_arms import (
    BASE,
    FEWER,
    Arm,
    arms_of,
    base_over_dense,
    denoise_flops,
    num_tiles,
    planned,
)
from benchmarks.tile_session import session_of
from benchmarks.trajectories import State, keys_read, masses_kept, velocity_error
from vidgen.budgets import DENSITIES, Recall, save_budgets
from vidgen.engine import Engine
from vidgen.models import resolve
from vidgen.sparse import LayerPlace

SHAPE = (17, 96, 96)  # 5x6x6 tokens
GRID = Grid(5, 6, 6)


@pytest.fixture(scope="module")
def arms() -> dict[str, Arm]:
    return {arm.name: arm for arm in arms_of(SHAPE, "cpu")}


@pytest.fixture(scope="module")
def engine() -> Engine:
    torch.set_num_threads(1)
    return Engine.load(resolve("toyworld"))


@pytest.fixture(scope="module")
def state(engine: Engine) -> State:
    """A late forward of a short dense run."""
    transformer = engine.components.transformer
    with watched(transformer) as seen:
        render(engine, "a red ball", SHAPE, 1, num_steps=2)
    assert len(seen.levels) == 4  # two steps of two branches
    with torch.no_grad():
        velocity = transformer(**seen.inputs, return_dict=False)[0]
    return State(seen.levels[-1], seen.inputs, velocity)


def random_heads(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(1, 2, GRID.tokens, 8, generator=generator) for _ in range(2))
    return q, k


def test_the_base_is_what_a_user_gets(arms: dict[str, Arm]) -> None:
    asked = planned(SHAPE, attention="topk", attention_backend="cpu").attention
    assert arms[BASE].plan == asked
    more = planned(SHAPE, attention="topk", attention_backend="cpu", density=0.25).attention
    assert arms["topk 0.25"].plan == more
    assert dataclasses.replace(more.pattern, density=0.125, budgets=asked.pattern.budgets) == (
        asked.pattern
    )


def test_every_other_arm_differs_from_the_base_and_says_how(arms: dict[str, Arm]) -> None:
    base = arms[BASE].plan
    for name, arm in arms.items():
        assert arm.differs
        assert (arm.plan == base) == (name == BASE)
    blocks = {(arm.plan.query_block, arm.plan.key_block) for arm in arms.values()}
    assert blocks == {(16, 16), (48, 16), (64, 32)}


def test_budgets_of_the_model_s_folder_are_an_arm_of_the_same_mean_density(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = resolve("toyworld")
    rising = [tuple(density ** (1 / (head + 1)) for density in DENSITIES) for head in range(4)]
    recall = Recall("toyworld", "", str(GRID), 16, 16, DENSITIES, (tuple(rising),) * 6)
    save_budgets(tmp_path / "budgets.json", [recall])
    moved = dataclasses.replace(model, folder=tmp_path)
    monkeypatch.setattr("vidgen.plan.resolve", lambda _name: moved)
    made = {arm.name: arm for arm in arms_of(SHAPE, "cpu")}
    assert made[BASE].plan.pattern.budgets is None
    given = [density for row in made["own budgets"].plan.pattern.budgets for density in row]
    assert len(set(given)) > 1
    assert np.mean(given) == pytest.approx(0.125)
    assert "own budgets" not in {arm.name for arm in arms_of((9, 64, 64), "cpu")}


def test_tiles_compute_what_the_base_does_padding_included(arms: dict[str, Arm]) -> None:
    # 180 tokens: 12 blocks of 16, of which 2 are read (32 keys), 12 proxies, and a router of half
    # a product for each pair of 45 parts. A cube of 4x2x2 fills 18 of 16 slots each.
    assert num_tiles(GRID, (4, 2, 2)) == 2 * 3 * 3
    share = 2 / 12 + 1 / 16 + 0.5 / 16
    kept = round(share * 180**2 / (18 * 16 * 16))
    tiles = arms["vsa tiles 4x2x2"]
    assert isinstance(tiles.plan.pattern, Vsa)
    assert tiles.plan.pattern.kept(18) == kept == 2
    assert tiles.plan.dense_above == arms[BASE].plan.dense_above


def test_a_tile_arm_is_exact_attention_over_the_best_cubes() -> None:
    base = planned(SHAPE, attention="topk", attention_backend="cpu").attention
    plan = dataclasses.replace(base, pattern=Vsa(1 - 2.5 / 18))
    arm = Arm("tiles", plan, "", (4, 2, 2))
    q, k = random_heads(3)
    v = random_heads(4)[0]
    session = session_of(arm)
    config = SimpleNamespace(patch_size=(1, 2, 2), attention_head_dim=8)
    session.begin(SimpleNamespace(config=config), torch.zeros(1, 16, 5, 12, 12), torch.zeros(1))
    ordered = [session.to_order(x.transpose(1, 2)) for x in (q, k, v)]
    out = session.attend_trained(*ordered, torch.zeros(1), LayerPlace(0, 1))
    found = session.from_order(out).transpose(1, 2)

    place = torch.cartesian_prod(torch.arange(5), torch.arange(6), torch.arange(6))
    cube = place[:, 0] // 4 * 9 + place[:, 1] // 2 * 3 + place[:, 2] // 2
    means = [torch.stack([x[:, :, cube == i].mean(2) for i in range(18)], 2) for x in (q, k)]
    best = (means[0] @ means[1].mT).topk(3).indices  # [1, 2, 18, 3]
    read = (best[:, :, cube][..., None, :] == cube[None, None, None, :, None]).any(-1)
    scores = (q.double() @ k.double().mT / math.sqrt(8)).masked_fill(~read, -torch.inf)
    torch.testing.assert_close(found.double(), scores.softmax(-1) @ v.double(), rtol=0, atol=1e-5)
    assert session.density.share == pytest.approx(3 / 18)
    assert torch.equal(keys_read(q, k, arm, GRID, 1, slice(None)), read)


def test_the_keys_that_count_as_read_are_those_attended(arms: dict[str, Arm]) -> None:
    arm = arms["blocks 48x16"]
    q, k = random_heads(5)
    read = keys_read(q, k, arm, GRID, 1, slice(None, None, 7))
    order = layout_order(arm.plan.layout(GRID))
    values = torch.eye(GRID.tokens).expand(1, 2, -1, -1)[:, :, order]
    blocks = torch.tensor([[[[0, 3], [1, 4], [2, 5], [6, 7]]] * 2], dtype=torch.int32)
    shown = Selection(blocks, torch.full((1, 2, 4), 2, dtype=torch.int32), 48, 16, 180, 180)
    weights = attend_reference(q[:, :, order], k[:, :, order], values, shown)
    # The helper's own selection is another one; what is compared is how blocks become tokens.
    from benchmarks.trajectories import _blocks_of, _expanded

    rows = _blocks_of(order, torch.arange(180), 48)
    columns = _blocks_of(order, torch.arange(180), 16)
    inverse = torch.argsort(order)
    assert torch.equal(_expanded(shown, rows, columns), weights[:, :, inverse] > 0)
    assert read.shape == (1, 2, 26, 180)
    assert read.float().mean() == pytest.approx(2 / 12, abs=0.02)


def test_an_arm_attached_from_outside_gives_the_engine_s_own_bits(engine: Engine) -> None:
    made = planned(SHAPE, 3, prompt="a red ball", seed=1, attention="topk")
    clip = engine.run(made, previews=False)
    session = session_of(Arm(BASE, made.attention, ""))
    frames = render(engine, "a red ball", SHAPE, 1, session, num_steps=3)
    assert np.array_equal(frames, clip.frames)
    assert session.density.share == clip.trace.density < 1
    assert not np.array_equal(frames, render(engine, "a red ball", SHAPE, 1, num_steps=3))


def test_the_floor_is_rounding_and_less_density_is_more_error(
    engine: Engine, state: State, arms: dict[str, Arm]
) -> None:
    transformer = engine.components.transformer
    names = ("dense, permuted", "topk 0.5", BASE)
    floor, half, eighth = (
        velocity_error(transformer, session_of(arms[name]), state) for name in names
    )
    assert 0 < floor < 1e-5 < half < eighth
    masses = masses_kept(transformer, [arms[name] for name in names], state, GRID)
    assert masses["dense, permuted"] == pytest.approx(1, abs=1e-5)
    assert 1 > masses["topk 0.5"] > masses[BASE] > 2 / 12


def test_a_dense_state_has_no_error_and_no_mass(
    engine: Engine, state: State, arms: dict[str, Arm]
) -> None:
    transformer = engine.components.transformer
    early = dataclasses.replace(state, sigma=1.0)
    assert velocity_error(transformer, session_of(arms[BASE]), early) == 0
    assert masses_kept(transformer, [arms[BASE]], early, GRID) == {}
    guarded = dataclasses.replace(arms[BASE].plan, dense_above=-1.0)
    with session_of(Arm("guarded", guarded, "")).attached(transformer), torch.no_grad():
        found = transformer(**state.inputs, return_dict=False)[0]
    assert torch.equal(found, state.velocity)


def test_work_is_counted_as_the_model_counts_it(
    engine: Engine, state: State, arms: dict[str, Arm]
) -> None:
    transformer, made = engine.components.transformer, planned(SHAPE)
    dense = denoise_flops(made) / 40
    assert forward_flops(transformer, state.inputs) == pytest.approx(dense, rel=1e-9)
    attention = made.estimate.flops["attention"] / 40
    names = (FEWER, BASE, "own budgets", "no guard", "no dense layer", "compensate none",
             "compensate mean_var")  # fmt: skip
    some = [arms[name] for name in names]
    levels = [1.0, 0.5, 0.4, 0.3]
    found = works(transformer, some, levels, state.inputs, attention)
    fewer = arms[FEWER].num_steps / 20
    assert found[FEWER].flops == pytest.approx(fewer * 4 * dense)
    assert found[FEWER].saved == pytest.approx(1 - fewer)
    assert found[FEWER].attention == pytest.approx(fewer)
    # Two of twelve blocks, twelve proxies in one row of sixteen, half a product for 45x45 parts;
    # the last blocks are filled up: 192 queries. One layer of six and one level of four is dense.
    pairs = 192 * (2 + 1) * 16 + 0.5 * 45**2
    layers = 1 / 6 + 5 / 6 * pairs / 180**2
    assert found[BASE].attention == pytest.approx(0.25 + 0.75 * layers, rel=0.01)
    assert found["own budgets"].attention == pytest.approx(found[BASE].attention, rel=0.02)
    assert found[BASE].attention == pytest.approx(0.25 + 0.75 * found["no guard"].attention)
    assert found["compensate none"].flops < found[BASE].flops
    assert found["compensate mean_var"].flops > found[BASE].flops
    assert found["no dense layer"].saved > found[BASE].saved


def test_density_is_that_of_the_sparse_layers(engine: Engine, arms: dict[str, Arm]) -> None:
    session = session_of(arms[BASE])
    render(engine, "a red ball", SHAPE, 1, session, num_steps=2)
    assert sparse_density(session.density) == pytest.approx(2 / 12)
    session = session_of(arms[FEWER])
    render(engine, "a red ball", SHAPE, 1, session, num_steps=1)
    assert sparse_density(session.density) is None


def test_fewer_dense_steps_cost_what_the_base_does_within_half_a_step() -> None:
    for shape in ((33, 192, 192), (81, 192, 192)):
        base = planned(shape, attention="topk")
        fewer = next(arm for arm in arms_of(shape, "cpu") if arm.name == FEWER)
        step = denoise_flops(planned(shape)) / 20
        assert abs(fewer.num_steps * step - denoise_flops(base)) <= step / 2
        assert base_over_dense(base) == pytest.approx(denoise_flops(base) / step / 20)
        found = sparsity_parts._fewer_steps(shape, [fewer])[FEWER]
        assert found["flops"] == pytest.approx(fewer.num_steps * step)
        assert found["flops of base"] == pytest.approx(denoise_flops(base))


def test_both_parts_run_to_a_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (sparse_arms, sparsity_parts):
        monkeypatch.setattr(module, "NUM_STEPS", 2)
    monkeypatch.setattr(sparsity, "SHAPES", {"1296": SHAPE})
    sheet = tmp_path / "sheet.png"
    arms = ["--arms", BASE, "vsa tiles 4x2x2", FEWER]
    sparsity.main(["velocity", "--prompts", "2", "--states", "2", *arms])
    said = capsys.readouterr()
    assert "ETA" in said.err
    assert "| topk 0.125 |" in said.out
    assert "| velocity error | velocity error against base | mass kept |" in said.out
    assert FEWER not in said.out
    out = tmp_path / "found.json"
    sparsity.main(["rendered", "--prompts", "1", *arms, "--sheet", str(sheet), "--out", str(out)])
    table = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in table] == [
        "| arm", "|---|---|---|---|---|---|---|---|---|".split("x")[0], "| dense",
        "| topk 0.125", "| vsa tiles 4x2x2", f"| {FEWER}",
    ]  # fmt: skip
    assert '"remaining difference"' in out.read_text()
    assert Image.open(sheet).size == (150 + 404, 48 + 4 * (128 + 20))


def test_an_unknown_arm_is_named() -> None:
    with pytest.raises(SystemExit, match=r"no arm 'topk 3'; known are .*window"):
        sparsity.main(["rendered", "--arms", "topk 3"])


def test_the_sheet_shows_first_middle_and_last_frames(tmp_path: Path) -> None:
    clip = np.stack([np.full((8, 8, 3), grey, np.float32) for grey in (0.0, 0.2, 0.4, 0.6, 1.0)])
    strip = arm_sheet.strip_of(clip, "PSNR 20.0 dB")
    arm_sheet.write_sheet(tmp_path / "s.png", ["one", "two"], {"a": [strip, strip]})
    with Image.open(tmp_path / "s.png") as sheet:
        greys = [sheet.getpixel((150 + 404 + i * 132 + 64, 48 + 64)) for i in range(3)]
    assert greys == [(0, 0, 0), (102, 102, 102), (255, 255, 255)]


def test_clips_are_compared_over_all_frames() -> None:
    golden = np.zeros((3, 16, 16, 3), np.float32)
    other = golden.copy()
    other[1] += 0.1
    assert compared(other, golden)["psnr"] == pytest.approx(-10 * math.log10(0.01 / 3), abs=1e-4)
    assert compared(golden, golden) == {"psnr": 100.0, "ssim": pytest.approx(1)}


def test_intervals_are_student_s_and_pairs_take_the_spread_of_items_out() -> None:
    found = mean_of([1.0, 2.0, 3.0, 6.0])
    assert (found.mean, found.n) == (3.0, 4)
    assert found.half == pytest.approx(3.182 * math.sqrt(14 / 3) / 2)
    assert paired([11.0, 101.0, 1001.0], [10.0, 100.0, 1000.0]).half == 0
