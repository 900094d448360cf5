"""Every shipped kernel config compiles without spills and within the shared memory of its GPU.

`benchmarks/kernels.py` compiles ahead of time, for GPUs that need not be here, and commits what it
found as a table. The table is judged here whole, and is void once the kernels' text or configs are
others; what costs the most registers on two generations is compiled anew.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from attention.triton_configs import CONFIGS, SHARED_LIMIT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed; `pip install -e .[kernels]` brings it",
)

ROOT = Path(__file__).resolve().parents[2]
# What a matrix product becomes on each generation.
STALE = "run `python -m benchmarks.kernels --out benchmarks/results/DATE-kernels.json`"
WANTED = {80: "mma.sync", 89: "mma.sync", 90: "wgmma", 100: "tcgen05", 120: "mma.sync"}


def table(folder: Path, *options: str) -> list[list[str]]:
    """Return the rows of the table of compiled kernels, cell by cell."""
    environment = {**os.environ, "TRITON_DEFAULT_FP_FUSION": "1"}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kernels", "--out", str(folder / "out.json"), *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in done.stdout.splitlines()
        if line.startswith("| sm_")
    ]
    assert rows, done.stderr[-3000:]
    assert done.returncode == 0, done.stdout
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("arch", [80, 90])
def test_what_needs_most_registers_compiles_without_spills(arch: int, tmp_path: Path) -> None:
    options = ("--arch", str(arch), "--head-dim", "128", "--compensate", "mean_var")
    (row,) = table(tmp_path, *options)
    _, _, _, _, _, _, _, _, stack, shared, instruction, tma = row
    used, limit = shared.removesuffix(")").split(" (")
    assert stack == "0"
    assert int(used) <= int(limit)
    assert WANTED[arch] in instruction
    assert tma == ("yes" if arch >= 90 else "no")


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    """The newest committed table."""
    newest = sorted((ROOT / "benchmarks" / "results").glob("*-kernels.json"))[-1]
    found: dict[str, Any] = json.loads(newest.read_text("utf-8"))
    return found


def test_the_committed_table_is_of_the_shipped_kernels_and_configs(
    committed: dict[str, Any],
) -> None:
    text = (ROOT / "attention" / "triton_kernels.py").read_bytes()
    source = hashlib.sha256(text).hexdigest()[:16]
    assert committed["source"] == source, STALE
    found = {(row["arch"], row["head_dim"], row["compensate"]) for row in committed["rows"]}
    kinds = ("none", "mean", "mean_var")
    assert found == {(*key, kind) for key in CONFIGS for kind in kinds}
    for row in committed["rows"]:
        shape = CONFIGS[row["arch"], row["head_dim"]].tile(row["query_block"], row["key_block"])
        config = {name: row[name] for name in asdict(shape) if name != "programs"}
        expected = {name: value for name, value in asdict(shape).items() if name != "programs"}
        assert config == expected, f"{STALE}: {row}"


def test_no_shipped_config_spills_and_all_fit(committed: dict[str, Any]) -> None:
    for row in committed["rows"]:
        assert row["stack"] == 0, row
        assert row["shared"] <= SHARED_LIMIT[row["arch"]], row
        assert WANTED[row["arch"]] in row["instruction"], row
