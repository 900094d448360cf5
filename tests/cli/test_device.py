"""Which GPU is meant: torch's index, as CUDA_VISIBLE_DEVICES maps it, asked of nvidia-smi."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PROMPT, small
from vidgen import device
from vidgen.cli import place

_SMI = """#!/bin/sh
case "$2" in
  0) echo "NVIDIA H200, 143771, 9.0" ;;
  1 | GPU-b) echo "NVIDIA GeForce RTX 4090, 24564, 8.9" ;;
  *) echo "No devices were found"; exit 6 ;;
esac
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an nvidia-smi that knows two GPUs in the way, and a torch build for GPUs."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(_SMI, "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(device, "_torch_is_for_cpu", lambda: False)


@pytest.mark.parametrize(
    ("visible", "asked", "name"),
    [
        (None, "auto", "nvidia-h200"),
        (None, "cuda:1", "nvidia-rtx-4090"),
        ("1,0", "auto", "nvidia-rtx-4090"),
        ("1,0", "cuda:1", "nvidia-h200"),
        ("GPU-b", "cuda", "nvidia-rtx-4090"),
        ("", "auto", "cpu"),
        ("-1,0", "auto", "cpu"),
    ],
)
def test_the_gpu_that_torch_would_take_is_planned_for(
    run: Any,
    two_gpus: None,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    asked: str,
    name: str,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    ran = run("generate", PROMPT, "--device", asked, "--dry-run", "--json")
    assert ran.code == 0, ran.out
    assert ran.last["plan"]["device"] == name


def test_a_gpu_that_is_not_there_is_one_sentence(
    run: Any, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    ran = run("generate", PROMPT, "--device", "cuda:9", "--dry-run")
    assert ran.code in (2, 3)
    assert "device=cuda:9 is not here" in ran.err
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert "not here" in run("generate", PROMPT, "--device", "cuda:1", "--dry-run").err


def test_a_gpu_that_torch_cannot_use_stays_idle(
    run: Any, tiny: str, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(place, "torch_can_use", lambda _: False)
    refused = run("generate", PROMPT, *small(tiny), "--device", "cuda", "--out", "a.mp4")
    assert "device=cuda is not here" in refused.err
    ran = run("generate", PROMPT, *small(tiny), "--out", "a.mp4")
    assert ran.code == 0, ran.err
    assert "NVIDIA H200 stays idle" in ran.err
