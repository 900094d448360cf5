"""The GPU benchmark without a GPU: its masks, counts, checks and tables, and what it says."""

import json
import sys
import time
from argparse import Namespace
from functools import partial

import pytest
import torch

from attention.grid import Grid
from attention.layout import Layout
from attention.proxies import make_proxies
from attention.reference import attend_reference
from benchmarks import gpu, gpu_cells, gpu_step, gpu_timing
from benchmarks.gpu_cells import Arm, Cell, Shape

SMALL = Shape("S", 2, 300, Grid(5, 6, 10), "a small clip")
SPARSE = Cell(SMALL, 0.4, "random")


def arm(cell, q, k, v, kind="none", blocks=(64, 32)):
    """Return the reference as an arm."""
    selection = gpu_cells.lists(cell, blocks, "cpu")
    proxies = make_proxies(k, v, blocks[1], kind)
    return Arm(kind, partial(attend_reference, q, k, v, selection, proxies), 1.0, 1.0,
               selection, proxies)  # fmt: skip


def test_without_a_gpu_it_says_what_it_would_do(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    assert gpu.main() == 0
    said = capsys.readouterr().out
    assert "nothing was measured" in said
    assert "B 40x75,600" in said
    assert len(said.splitlines()) <= 6


def test_shapes_have_the_tokens_of_their_grids():
    for shape in gpu_cells.SHAPES:
        assert shape.grid is None or shape.grid.tokens == shape.tokens


def test_cells_begin_with_the_dense_ones_and_what_matters_most():
    names = [cell.name for cell in gpu_cells.cells(gpu_cells.SHAPES)]
    assert names[:6] == [
        "A-1-dense", "B-1-dense", "C-1-dense", "D-1-dense", "E-1-dense", "A-0.125-random",
    ]  # fmt: skip
    assert "C-0.125-local" not in names
    assert len(names) == len(set(names)) == 5 + 4 * (5 + 4)


@pytest.mark.parametrize("mask", gpu_cells.MASKS)
@pytest.mark.parametrize("blocks", [(64, 32), (32, 32), (64, 16)])
def test_masks_read_the_share_asked_for(mask, blocks):
    cell = Cell(SMALL, 0.4, mask)
    selection = gpu_cells.lists(cell, blocks, "cpu")
    kept = round(0.4 * -(-300 // blocks[1]))
    assert selection.blocks_bhqs.shape == (1, 2, -(-300 // blocks[0]), kept)
    assert (selection.counts_bhq == kept).all()
    assert (selection.blocks_bhqs.diff(dim=-1) > 0).all()
    heads = selection.blocks_bhqs[0]
    assert not torch.equal(heads[0], heads[1])
    assert float(selection.density()) == pytest.approx(0.4, abs=0.03)


def test_local_masks_hold_the_nearest_blocks():
    cell = Cell(SMALL, 0.4, "local")
    mask = gpu_cells.lists(cell, (32, 32), "cpu").mask_bhqk()
    centres = gpu_cells.block_centres(Layout(SMALL.grid, 32, 32), 32)
    nearest = torch.cdist(centres, centres).argsort(dim=-1)[:, : round(0.7 * 4)]
    assert mask.gather(-1, nearest.expand(1, 2, -1, -1)).all()


def test_counted_operations():
    dense = Cell(SMALL, 1.0, "dense")
    selection = gpu_cells.lists(dense, (64, 32), "cpu")
    assert gpu_cells.useful_flops(dense, selection) == 4 * 128 * 2 * 300 * 300
    assert gpu_cells.executed_flops(dense, selection, False) == 4 * 128 * 2 * 320 * 320
    sparse = gpu_cells.lists(SPARSE, (64, 32), "cpu")
    share = gpu_cells.useful_flops(SPARSE, sparse) / gpu_cells.useful_flops(dense, selection)
    assert share == pytest.approx(float(sparse.density()))
    proxies = gpu_cells.executed_flops(SPARSE, sparse, True)
    assert proxies - gpu_cells.executed_flops(SPARSE, sparse, False) == 4 * 128 * 2 * 300 * 10


@pytest.mark.parametrize("kind", ["none", "mean"])
def test_the_check_passes_the_reference_and_catches_one_wrong_block(kind):
    q, k, v = gpu_cells.inputs(SMALL, "cpu")
    good = arm(SPARSE, q, k, v, kind)
    assert gpu.check(good, q, k, v)["right"]
    other = arm(Cell(SMALL, 0.3, "random"), q, k, v, kind)
    wrong = Arm(kind, other.call, 1.0, 1.0, good.selection, good.proxies)
    assert not gpu.check(wrong, q, k, v)["right"]
    silent = Arm(kind, lambda: torch.full_like(q, torch.nan), 1.0, 1.0, good.selection)
    assert not gpu.check(silent, q, k, v)["right"]


def test_the_check_knows_dense_attention():
    q, k, v = gpu_cells.inputs(SMALL, "cpu")
    dense = Arm("dense", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), 1, 1)
    assert gpu.check(dense, q, k, v)["right"]


def test_summary():
    found = gpu_timing.summary([5.0, 1.0, 3.0, 2.0, 4.0])
    assert found == {"ms": 3.0, "p10": 1.0, "p90": 5.0, "rounds": 5}


@pytest.fixture
def on_cpu(monkeypatch):
    """Let the table be measured on the CPU, by the reference."""

    def once(call, between):
        if between is not None:
            between()
        began = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - began)

    inputs, lists = gpu_cells.inputs, gpu_cells.lists
    monkeypatch.setattr(gpu_timing, "_once", once)
    monkeypatch.setattr(gpu_timing, "clock_mhz", lambda: 1980)
    monkeypatch.setattr(gpu_timing, "MOST_ROUNDS", 5)
    monkeypatch.setattr(gpu_cells, "inputs", lambda shape, _: inputs(shape, "cpu"))
    monkeypatch.setattr(gpu_cells, "lists", lambda cell, blocks, _: lists(cell, blocks, "cpu"))
    monkeypatch.setattr(gpu_cells, "executor", lambda _: attend_reference)
    monkeypatch.setattr(gpu_cells, "SHAPES", (SMALL,))
    monkeypatch.setattr(gpu, "SHAPES", (SMALL,))


def run(tmp_path, budget):
    options = Namespace(budget=budget, parts=["kernels"], shapes="S", out=tmp_path / "gpu.json")
    return gpu.Run(options)


@pytest.mark.usefixtures("on_cpu")
def test_the_table(tmp_path, monkeypatch, capsys):
    pytest.importorskip("triton", reason="triton is not installed")
    wanted = [Cell(SMALL, 1.0, "dense"), SPARSE, Cell(SMALL, 0.4, "local")]
    monkeypatch.setattr(gpu_cells, "cells", lambda _: wanted)
    measured = run(tmp_path, 1000)
    gpu.kernel_table(measured)
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written["command"].startswith("python -m benchmarks.gpu")
    dense, random, local = (cell["arms"] for cell in written["kernels"])
    assert dense["SDPA flash"]["right"]
    assert set(random) == {
        f"ours {rows}x{keys} {kind}" for rows, keys in gpu.LAYOUTS for kind in ("none", "mean")
    }
    assert set(local) == {"ours 128x64 none", "ours 128x64 mean"}
    assert all(row["right"] and row["over_dense"] > 0 for row in random.values())
    said = capsys.readouterr().out
    assert "S-0.4-random  (clock 1980-1980 MHz)" in said
    assert "x dense" in said


@pytest.mark.usefixtures("on_cpu")
def test_what_no_time_is_left_for_is_named(tmp_path):
    measured = run(tmp_path, 5)
    gpu.kernel_table(measured)
    assert measured.found["kernels"] == []
    assert measured.found["not_run"][0] == "S-1-dense"


def test_a_missing_peer_is_named():
    q, k, v = gpu_cells.inputs(SMALL, "cpu")
    _, missing = gpu_cells.peer_arms(SPARSE, q, k, v)
    assert "fastvideo_kernel" in missing["FastVideo Triton"]


@pytest.mark.slow
def test_the_sparse_step_attaches_and_detaches():
    from diffusers import WanTransformer3DModel

    torch.manual_seed(0)
    small = {"num_attention_heads": 2, "attention_head_dim": 32, "ffn_dim": 32, "num_layers": 2,
             "text_dim": 16}  # fmt: skip
    model = WanTransformer3DModel(**{**gpu_step.WAN_1_3B, **small}).eval()
    hidden, text = torch.randn(1, 16, 5, 16, 16), torch.randn(1, 8, 16)

    @torch.no_grad()
    def forward():
        return model(hidden_states=hidden, timestep=torch.tensor([500.0]),
                     encoder_hidden_states=text, return_dict=False)[0]  # fmt: skip

    calls = {"dense": forward}
    assert gpu_step.add_sparse(calls, model, forward, 0.25, backend="cpu") is None
    before, sparse, after = calls["dense"](), calls["sparse"](), calls["dense"]()
    assert torch.equal(before, after)
    assert not torch.equal(before, sparse)


def test_other_kernel_shapes_are_compared_before_they_are_timed(monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed")
    from attention.triton_configs import CONFIGS
    from benchmarks import gpu_pieces

    base, cell, timed = CONFIGS[90, 128], Cell(SMALL, 0.125, "random"), []

    def launch(work, config, out):
        if config.stages == 5:
            raise RuntimeError("out of resource: shared memory")
        if config.stages == 2:
            return  # writes nothing; what another left there must not pass for its own
        seed = 1 if config.rows == 64 else 0  # another mask
        selection = gpu_pieces.lists(cell, (128, 64), "cpu", seed)
        out.copy_(attend_reference(work.q, work.k, work.v, selection))

    def interleaved(calls):
        timed.extend(calls)
        return [[1.0]] * len(calls), []

    inputs = gpu_cells.inputs
    monkeypatch.setattr(gpu_pieces, "inputs", lambda shape, _: inputs(shape, "cpu"))
    monkeypatch.setattr(gpu_pieces, "device_config", lambda _: base)
    monkeypatch.setattr(gpu_pieces, "launch", launch)
    monkeypatch.setattr(gpu_pieces, "interleaved", interleaved)
    found = gpu_pieces.tune(SMALL, lambda: 1000.0)
    ways = {"timed": "ms", "wrong": "wrong", "failed": "failed"}
    said = {way: [row["config"] for row in found if key in row] for way, key in ways.items()}
    assert said["timed"][0] == str(base)
    assert len(timed) == len(said["timed"]) == 5
    assert all(", stages=5" in config for config in said["failed"])
    wrong = [config for config in said["wrong"] if ", stages=2" not in config]
    assert ["rows=64" in config for config in wrong] == [True]
    assert len(said["wrong"]) == 2

    monkeypatch.setattr(gpu_pieces, "launch", lambda _work, _config, out: out.zero_())
    assert [set(row) for row in gpu_pieces.tune(SMALL, lambda: 1000.0)] == [{"config", "wrong"}]
