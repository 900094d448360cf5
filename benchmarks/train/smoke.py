"""The smoke run: every step of the training for a few seconds, to prove that the chain holds."""

from __future__ import annotations

from pathlib import Path

from benchmarks.train import dit, vae
from benchmarks.train.data import write_shard
from benchmarks.train.evaluate import Numbers, evaluate
from benchmarks.train.export import export
from benchmarks.train.tables import markdown
from benchmarks.train.world import BASE_SHAPE


def smoke(work: Path) -> None:
    """Latents, VAE, transformer (stopped and resumed), export, evaluation, in about a minute."""
    write_shard(work, BASE_SHAPE, 0, num_clips=64)
    vae.train(work, 8.0, vae.Settings(log_every=5))
    settings = dit.Settings(log_every=5)
    first = dit.train(work, 4.0, settings, warm_up_steps=40)
    again = dit.train(work, 4.0, settings)
    assert again.step > first.step, "the second session did not go on where the first ended"
    folder = work / "pipeline"
    size = export(work, folder)
    few = Numbers(t2v=2, i2v=1, large=0, long=0, pinned=1, control=0, checks=4)
    result = evaluate(folder, few, num_steps=2, sheets=work)
    print(markdown(result))
    print(f"smoke run passed: {again.step} transformer steps, folder of {size / 1e6:.1f} MB")
