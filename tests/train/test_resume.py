"""Resuming: a training killed at any moment goes on from its last whole checkpoint."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.train import dit
from benchmarks.train.data import write_shard
from benchmarks.train.world import BASE_SHAPE

pytestmark = pytest.mark.slow

STEPS = 24  # of the run that nobody interrupts
# A checkpoint as often as wished; the rest is the training as it always runs.
DRIVER = """
import sys
from pathlib import Path
import torch
from benchmarks.train import dit, run
torch.set_num_threads(1)
run.CHECKPOINT_SECONDS = float(sys.argv[2])
{extra}
settings = dit.Settings(batch=4, layers=2, log_every=1)
dit.train(Path(sys.argv[1]), 600.0, settings, warm_up_steps=2, seed=3)
"""
# The second checkpoint is cut off in the middle of its file, as by a power cut.
CUT_OFF = """
import os, signal
whole, saved = torch.save, []
def cut_off(state, path):
    if saved:
        path.write_bytes(b"half a checkpoint")
        os.kill(os.getpid(), signal.SIGKILL)
    saved.append(path)
    whole(state, path)
torch.save = cut_off
"""


def losses(work: Path, first_row: int = 0) -> dict[int, float]:
    """Loss by step of the whole rows of a log, from a row on."""
    path = work / "dit.csv"
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1].splitlines()
    rows = list(csv.DictReader(whole))[first_row:]
    return {int(row["step"]): float(row["loss"]) for row in rows}


def start(work: Path, checkpoint_seconds: float, extra: str = "") -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER.format(extra=extra), str(work), str(checkpoint_seconds)],
        env=environment, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def kill_when(process: "subprocess.Popen[bytes]", reached: "object") -> None:
    """Send SIGKILL as soon as a condition holds."""
    deadline = time.monotonic() + 1200
    while not reached():  # type: ignore[operator]
        assert process.poll() is None, "the training ended by itself"
        assert time.monotonic() < deadline, "the training made no progress"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()


def saved_step(work: Path) -> int:
    state = torch.load(work / "dit.pt", map_location="cpu", weights_only=True)
    return int(state["counts"]["step"])


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Losses of a run that goes through."""
    work = tmp_path_factory.mktemp("unkilled")
    write_shard(work, BASE_SHAPE, 0, num_clips=32)
    kill_when(start(work, 1e9), lambda: len(losses(work)) >= STEPS)
    return losses(work)


def test_a_killed_run_goes_on_as_if_never_stopped(
    tmp_path: Path, unkilled: dict[int, float]
) -> None:
    write_shard(tmp_path, BASE_SHAPE, 0, num_clips=32)
    checkpoint = tmp_path / "dit.pt"
    kill_when(start(tmp_path, 0.7), lambda: checkpoint.exists() and len(losses(tmp_path)) >= 10)
    began, before = saved_step(tmp_path), len(losses(tmp_path))
    assert 0 < began <= before

    def went_on() -> bool:
        return max(losses(tmp_path, before), default=0) >= STEPS

    kill_when(start(tmp_path, 1e9), went_on)
    resumed = losses(tmp_path, before)
    assert min(resumed) == began + 1
    # The same weights, batch, noise and words: equal at first. Later the rate, which rises anew
    # after a start, sets the two apart a little.
    assert resumed[began + 1] == pytest.approx(unkilled[began + 1], abs=2e-5)
    shared = sorted(set(resumed) & set(unkilled))
    gaps = np.array([resumed[step] / unkilled[step] - 1 for step in shared])
    assert abs(gaps.mean()) < 0.1
    assert np.abs(gaps).max() < 0.25


def test_a_half_written_checkpoint_never_replaces_a_good_one(tmp_path: Path) -> None:
    write_shard(tmp_path, BASE_SHAPE, 0, num_clips=32)
    process = start(tmp_path, 0.0, CUT_OFF)
    assert process.wait(timeout=1200) == -signal.SIGKILL
    assert saved_step(tmp_path) == 1
    assert (tmp_path / "dit.part").read_bytes() == b"half a checkpoint"
    settings = dit.Settings(batch=4, layers=2, log_every=1)
    run = dit.train(tmp_path, 0.1, settings, seed=3)
    assert run.step > 1
    assert saved_step(tmp_path) == run.step
