"""A tiny random model of the toyworld family as a folder on disk, and ways to run the program."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.folders import save_tiny
from vidgen.cli.main import main

PROMPT = "a big red ball moves left over the sand"


@dataclass(frozen=True)
class Ran:
    """How a run of the program ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> dict[str, Any]:
        """Its last JSON line."""
        return self.lines[-1]


@pytest.fixture(scope="package")
def one_thread() -> Iterator[None]:
    """Compute on one thread, as in the processes that tests start: the cores may be shared."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def tiny(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> str:
    """The folder of a tiny toyworld model."""
    return str(save_tiny(tmp_path_factory.mktemp("tiny") / "model", "toyworld"))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the program in this process, in a fresh folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words: Any) -> Ran:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return call


def spawn(*words: Any, cwd: Path, **environ: str) -> Ran:
    """Run the program as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "vidgen.cli", *(str(word) for word in words)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def small(tiny: str, **changes: Any) -> list[str]:
    """Flags of a request that takes a second: 32x32, 5 frames, 2 steps."""
    values = {
        "model": tiny, "size": "32x32", "frames": 5, "steps": 2, "seed": 7, **changes,
    }  # fmt: skip
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def save_lora(path: Path, modules: list[str], rank: int = 4) -> None:
    """Write a LoRA of zeros for the given modules."""
    import numpy as np
    from safetensors.numpy import save_file

    tensors = {}
    for module in modules:
        tensors[f"transformer.{module}.lora_A.weight"] = np.zeros((rank, 48), np.float32)
        tensors[f"transformer.{module}.lora_B.weight"] = np.zeros((48, rank), np.float32)
    save_file(tensors, path)
