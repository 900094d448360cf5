"""Training: forward pass equal to the stock one, resumed checkpoints, exports that load."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.train import dit, vae
from benchmarks.train.data import draw_batch, open_shards, write_shard
from benchmarks.train.export import export, load_model, load_t2v
from benchmarks.train.forward import velocity
from benchmarks.train.grow import copy_grown
from benchmarks.train.optim import Average, orthogonalise
from benchmarks.train.stock import image_to_video, text_to_video
from benchmarks.train.world import BASE_SHAPE


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder with one small shard and a few steps of each training."""
    folder = tmp_path_factory.mktemp("work")
    write_shard(folder, BASE_SHAPE, 0, num_clips=16)
    vae.train(folder, 1.0, vae.Settings(log_every=1))
    dit.train(folder, 1.0, dit.Settings(batch=4, layers=2, log_every=1), warm_up_steps=2)
    return folder


def test_the_forward_pass_equals_the_stock_one() -> None:
    torch.manual_seed(0)
    model = dit.Model(layers=2)
    torch.nn.init.normal_(model.dit.proj_out.weight)
    x, sigma, text = torch.randn(2, 16, 5, 12, 12), torch.rand(2, 5), torch.randn(2, 32, 64)
    with torch.no_grad():
        ours = velocity(model.dit, x, sigma, text)
        timesteps = (1000 * sigma).repeat_interleave(36, dim=1)
        stock = model.dit(x, timesteps, text, return_dict=False)[0]
    assert torch.allclose(ours, stock, atol=2e-5, rtol=1e-4)


def test_pins_come_in_all_kinds_and_leave_something_to_predict() -> None:
    pins = dit.draw_pins(np.random.default_rng(0), 4000, 5)
    assert (~pins).any(dim=1).all()
    kinds = {tuple(row) for row in pins.tolist()}
    assert len(kinds) == 6
    assert (~pins).all(dim=1).float().mean() == pytest.approx(0.45, abs=0.03)
    shortest = dit.draw_pins(np.random.default_rng(0), 4000, 2)
    assert {tuple(row) for row in shortest.tolist()} == {
        (False, False),
        (True, False),
        (False, True),
    }


def test_probe_targets_put_tokens_in_the_model_s_order(work: Path) -> None:
    shard = open_shards(work, BASE_SHAPE)
    _, covers, scenes = draw_batch(np.random.default_rng(0), shard, 2)
    targets = dit.probe_targets(scenes, covers)
    assert targets.shape == (2, 180, 7 + len(dit.ATTRIBUTE_VALUES))
    token = (2 * 6 + 3) * 6 + 4  # frame 2, row 3, column 4
    assert targets[0, token, :3].tolist() == pytest.approx([0.0, 0.1, 0.3], abs=1e-5)
    assert torch.equal(targets[0, token, 3:7], covers[0, 2, 6:8, 8:10].flatten())


def test_a_session_resumes_where_the_last_one_ended(work: Path) -> None:
    settings = dit.Settings(batch=4, layers=2, log_every=1)
    trainer = dit.Trainer(settings, "cpu", seed=9)
    state = torch.load(work / "dit.pt", weights_only=True)
    trainer.restore(state)
    twin = dit.Trainer(settings, "cpu", seed=8)
    twin.restore(torch.load(work / "dit.pt", weights_only=True))
    shards = open_shards(work, BASE_SHAPE)
    losses = []
    for each in (trainer, twin):
        torch.set_rng_state(state["torch_rng"])
        latents, covers, scenes = draw_batch(each.rng, shards, 4)
        losses.append(each.step(BASE_SHAPE, latents, covers, scenes, rate=1.0))
    assert losses[0] == pytest.approx(losses[1], rel=0, abs=0, nan_ok=True)
    assert all(
        torch.equal(one, other)
        for one, other in zip(trainer.model.parameters(), twin.model.parameters(), strict=True)
    )
    before = state["counts"]["step"]
    assert dit.train(work, 0.5, settings).step > before


def test_the_export_loads_in_stock_pipelines_with_the_same_results(work: Path) -> None:
    folder = work / "pipeline"
    folder.mkdir()
    for name in ("budgets.json", "README.md"):
        (folder / name).write_text("of the weights before")
    assert export(work, folder) < 24_000_000
    assert not (folder / "budgets.json").exists()
    assert (folder / "README.md").exists()
    pipeline = load_t2v(folder)
    assert pipeline.config.expand_timesteps
    model = load_model(work)
    x, sigma, text = torch.randn(1, 16, 5, 12, 12), torch.rand(1, 5), torch.randn(1, 32, 64)
    with torch.no_grad():
        assert torch.equal(
            velocity(model.dit, x, sigma, text), velocity(pipeline.transformer, x, sigma, text)
        )
    (clip,) = text_to_video(pipeline, ["a red zeppelin moves left"], num_steps=2)
    assert clip.shape == (17, 96, 96, 3)
    (moved,) = image_to_video(pipeline, ["a red ball"], [clip[0]], num_steps=2)
    assert moved.shape == clip.shape


def test_a_grown_transformer_gives_the_same_results() -> None:
    torch.manual_seed(0)
    source, target = dit.Model(layers=2).dit, dit.Model(layers=4).dit
    torch.nn.init.normal_(source.proj_out.weight)
    copy_grown(source, target)
    x, sigma, text = torch.randn(1, 16, 5, 12, 12), torch.rand(1, 5), torch.randn(1, 32, 64)
    with torch.no_grad():
        small, grown = velocity(source, x, sigma, text), velocity(target, x, sigma, text)
    assert torch.allclose(small, grown, atol=1e-5)
    with pytest.raises(ValueError, match="never dropped"):
        copy_grown(target, source)


def test_muon_s_update_is_nearly_orthogonal() -> None:
    for shape in ((2, 16, 48), (2, 48, 16)):
        torch.manual_seed(0)
        values = torch.linalg.svdvals(orthogonalise(torch.randn(shape)))
        assert values.min() > 0.5
        assert values.max() < 1.4


def test_the_average_lies_between_old_and_new_weights() -> None:
    layer = torch.nn.Linear(2, 2)
    average = Average(layer, decay=0.9)
    old = layer.weight.detach().clone()
    with torch.no_grad():
        layer.weight += 1
    average.update()
    mean = average.weights()["weight"]
    assert (mean > old).all()
    assert (mean < layer.weight + 1e-6).all()
