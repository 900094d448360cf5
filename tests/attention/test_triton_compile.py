"""Every shipped kernel config compiles without spills and within the shared memory of its GPU.

Compiled ahead of time, for GPUs that need not be here; `benchmarks/kernels.py` does the work and
prints the same as a table. Triton keeps what it has compiled, so a second run is quick.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attention.triton_configs import CONFIGS, SHARED_LIMIT, SPILLS

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed; `pip install -e .[kernels]` brings it",
)

ROOT = Path(__file__).resolve().parents[2]
# What a matrix product becomes on each generation.
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


def check(rows: list[list[str]], arch: int) -> None:
    """Fail unless every kernel is free of spills, uses the matrix units and fits."""
    for _, _, _, _, _, _, _, _, stack, shared, instruction, tma in rows:
        assert stack == "0"
        used, limit = shared.removesuffix(")").split(" (")
        assert int(used) <= int(limit)
        assert WANTED[arch] in instruction
        assert tma == ("yes" if arch >= 90 else "no")


@pytest.mark.slow
@pytest.mark.parametrize("arch", WANTED)
def test_head_dim_128(arch: int, tmp_path: Path) -> None:
    options = ("--arch", str(arch), "--head-dim", "128", "--compensate", "mean")
    rows = table(tmp_path, *options)
    assert len(rows) == 1
    check(rows, arch)


def test_the_committed_table_is_of_the_shipped_configs() -> None:
    newest = sorted((ROOT / "benchmarks" / "results").glob("*-kernels.json"))[-1]
    rows = json.loads(newest.read_text("utf-8"))["rows"]
    found = {(row["arch"], row["head_dim"], row["compensate"]): row for row in rows}
    assert len(found) == 3 * len(CONFIGS)
    for (arch, head_dim, kind), row in found.items():
        shape = CONFIGS[arch, head_dim].tile(row["query_block"], row["key_block"])
        for name in ("rows", "keys", "warps", "stages"):
            assert row[name] == getattr(shape, name), f"run `python -m benchmarks.kernels`: {row}"
        assert row["stack"] == SPILLS.get((arch, head_dim, kind), 0)
        assert row["shared"] <= SHARED_LIMIT[arch]
        assert row["tma"] == shape.tma
