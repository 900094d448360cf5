"""The Triton kernels against the reference, without a GPU: the cases of `triton_cases` as tests."""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from tests.attention.triton_cases import CASES

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed; `pip install -e .[kernels]` brings it",
)

OLDEST_INTERPRETER = (3, 7)  # those before fail on numpy 2.4

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def problems() -> dict[str, str]:
    """Run all cases in one process in which Triton interprets; return what each said."""
    version = importlib.metadata.version("triton")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_INTERPRETER:
        pytest.skip(f"triton {version} cannot interpret kernels here; 3.7 or newer can")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.attention.triton_cases"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["name"]: row["problem"] for row in found}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_reference(name: str, problems: dict[str, str]) -> None:
    assert not problems[name], problems[name]


def test_importing_asks_no_gpu() -> None:
    code = (
        "import torch\n"
        "def no(*a, **k): raise AssertionError('asked for a GPU')\n"
        "torch.cuda._lazy_init = torch.cuda.is_available = torch.cuda.device_count = no\n"
        "import attention.triton_blocks, attention.triton_router\n"
        "assert not torch.cuda.is_initialized()\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_tensors_of_a_cpu_are_refused_in_one_sentence() -> None:
    code = (
        "import torch\n"
        "from attention.selection import select_all\n"
        "from attention.triton_blocks import attend_triton\n"
        "x = torch.zeros(1, 1, 64, 32, dtype=torch.bfloat16)\n"
        "attend_triton(x, x, x, select_all(64, 64, 64, 64))\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == (
        "attention.errors.AttentionError: The Triton kernel needs tensors on a GPU, these are on "
        "cpu; use attention_backend=cpu."
    )


@pytest.fixture
def cuda() -> str:
    """A GPU to run on."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    return "cuda"


@pytest.mark.gpu
def test_on_the_gpu(cuda: str) -> None:
    from attention.self_test import self_test

    assert not self_test(cuda, ["triton"])["triton"].problem


@pytest.mark.gpu
def test_five_seconds_of_480p_on_the_gpu(cuda: str) -> None:
    from benchmarks import gpu, gpu_cells

    cell = gpu_cells.Cell(gpu_cells.SHAPES[0], 0.125, "random")
    q, k, v = gpu_cells.inputs(cell.shape, cuda)
    for arm in gpu_cells.our_arms(cell, q, k, v, gpu.LAYOUTS):
        found = gpu.check(arm, q, k, v)
        assert found["right"], (arm.name, found)


@pytest.mark.gpu
@pytest.mark.parametrize("score", ["subblock", "mass"])
def test_router_scores_on_the_gpu(cuda: str, score: Literal["subblock", "mass"]) -> None:
    import torch

    from attention import Grid, Layout, TopK
    from attention.router import block_scores
    from attention.triton_router import block_scores_triton

    layout, pattern = Layout(Grid(9, 30, 52)), TopK(score=score)
    q, k = (torch.randn(1, layout.tokens, 4, 128, device=cuda).bfloat16().transpose(1, 2)
            for _ in range(2))  # fmt: skip
    wanted = block_scores(q, k, layout, pattern)
    found = block_scores_triton(q, k, layout, pattern)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=2e-5)
