"""Sparse attention on an NVIDIA GPU: is it right, how fast is it, and what does a step gain?

Run:  python -m benchmarks.gpu [--budget 360] [--parts check,kernels] [--shapes AB]
Every cell is checked on sampled rows before it is timed; its arms run in turns. The results file is
written anew after every cell, so that a run that is cut off keeps what it has. Without a GPU the
program says what it would do.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import gpu_cells as cells
from benchmarks.gpu_cells import SHAPES, Arm, Cell, Shape

PARTS = ("check", "kernels", "pieces", "tune", "step")
LAYOUTS = ((128, 64), (128, 128), (64, 64))
RESERVED = {"pieces": 40.0, "tune": 30.0, "step": 60.0}  # seconds kept back from the kernel table


@dataclass(slots=True)
class Run:
    """A run under way: its deadline and what it found."""

    options: argparse.Namespace
    began: float = field(default_factory=time.monotonic)
    found: dict[str, Any] = field(default_factory=dict)

    def left(self) -> float:
        """Return the seconds left."""
        return float(self.options.budget) - (time.monotonic() - self.began)

    def save(self) -> None:
        """Write what was found so far."""
        from benchmarks.report import report, write_report

        self.found["seconds"] = round(time.monotonic() - self.began, 1)
        command = " ".join(["python -m benchmarks.gpu", *sys.argv[1:]])
        write_report(self.options.out, report(command, **self.found))


def describe(options: argparse.Namespace) -> str:
    """Return what the benchmark would do."""
    chosen = shapes(options.shapes)
    names = ", ".join(f"{shape.name} {shape.heads}x{shape.tokens:,}" for shape in chosen)
    densities = ", ".join(f"{density:g}" for density in (1.0, *cells.DENSITIES))
    return (
        "make gpu: no NVIDIA GPU here, nothing was measured. On one it would, in "
        f"{options.budget:g} s at most,\n"
        f"  check sampled rows against a float32 softmax and time attention of shapes {names}\n"
        f"  at densities {densities}, dense and sparse, ours beside torch's and others' kernels,\n"
        "  then router, order and proxies apart, other kernel shapes, and a transformer forward;\n"
        "  and write benchmarks/results/gpu-<device>-<date>.json."
    )


def shapes(letters: str) -> tuple[Shape, ...]:
    """Return the shapes of these names."""
    return tuple(shape for shape in SHAPES if shape.name in letters)


def check(arm: Arm, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
    """Compute an arm once; return its error on sampled rows and whether that is allowed."""
    off, torch_off = cells.sampled_error(arm, arm.call(), q, k, v)
    return {"off": off, "torch_off": torch_off, "right": off <= cells.allowed(torch_off)}


def measure_cell(cell: Cell, best_dense: dict[str, float], *, peers: bool) -> dict[str, Any]:
    """Check and time the arms of a cell; a wrong arm is reported and not timed.

    best_dense  milliseconds by shape; the dense cells fill it
    """
    from triton.runtime.errors import TritonError

    from benchmarks.gpu_timing import interleaved, summary

    q, k, v = cells.inputs(cell.shape, "cuda")
    layouts = LAYOUTS if cell.mask == "random" else LAYOUTS[:1]
    arms = cells.our_arms(cell, q, k, v, layouts)
    missing: dict[str, str] = {}
    if cell.density == 1:
        arms += cells.dense_arms(cell, q, k, v)
    if peers:
        others, missing = cells.peer_arms(cell, q, k, v)
        arms += others
    rows: dict[str, Any] = {}
    ready = []
    for arm in arms:
        try:
            rows[arm.name] = check(arm, q, k, v)
        except (
            RuntimeError,
            ValueError,
            TritonError,
        ) as error:  # a kernel that this GPU or torch cannot run
            rows[arm.name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
            continue
        if rows[arm.name]["right"]:
            ready.append(arm)
    times, clocks = interleaved([arm.call for arm in ready])
    for arm, row in zip(ready, times, strict=True):
        rows[arm.name] |= {**summary(row), **rates(arm, summary(row)["ms"])}
    if cell.density == 1:
        dense = [rows[arm.name]["ms"] for arm in ready if arm.selection is None]
        if dense:
            best_dense[cell.shape.name] = min(dense)
    for row in rows.values():
        if "ms" in row and cell.shape.name in best_dense:
            row["over_dense"] = round(best_dense[cell.shape.name] / row["ms"], 3)
    return {"cell": cell.name, "arms": rows, "left_out": missing, "clocks_mhz": clocks}


def rates(arm: Arm, milliseconds: float) -> dict[str, float]:
    """Return useful and executed Tflop/s."""
    return {
        "useful_tflops": round(arm.useful / milliseconds / 1e9, 1),
        "executed_tflops": round(arm.flops / milliseconds / 1e9, 1),
    }


def kernel_table(run: Run) -> None:
    """Measure cells in order of weight until the time is up."""
    best_dense: dict[str, float] = {}
    run.found["kernels"], run.found["not_run"] = [], []
    reserve = sum(RESERVED.get(part, 0.0) for part in run.options.parts)
    wanted = cells.cells(shapes(run.options.shapes))
    peers_at = {"A-0.125-random", "B-0.125-random", "C-0.125-random"}
    for cell in wanted:
        if run.left() < reserve + 10:
            run.found["not_run"].append(cell.name)
            continue
        found = measure_cell(cell, best_dense, peers=cell.name in peers_at)
        torch.cuda.empty_cache()
        run.found["kernels"].append(found)
        print("\n".join(lines(found)), flush=True)
        run.save()


def lines(found: dict[str, Any]) -> list[str]:
    """Return a cell's rows as text."""
    clocks = [clock for clock in found["clocks_mhz"] if clock]
    text = [
        f"{found['cell']}  (clock {min(clocks)}-{max(clocks)} MHz)" if clocks else found["cell"]
    ]
    for name, row in found["arms"].items():
        if "ms" in row:
            gain = f", {row['over_dense']:.2f}x dense" if "over_dense" in row else ""
            text.append(
                f"  {name:24} {row['ms']:9.3f} ms ({row['p10']:.3f}-{row['p90']:.3f}), useful "
                f"{row['useful_tflops']:.0f}, executed {row['executed_tflops']:.0f} Tflop/s{gain}"
            )
        else:
            said = (
                row.get("failed") or f"WRONG: off by {row['off']:.3g}, torch {row['torch_off']:.3g}"
            )
            text.append(f"  {name:24} {said}")
    text += [f"  {name:24} left out: {why}" for name, why in found["left_out"].items()]
    return text


def check_shapes(run: Run) -> None:
    """Check one sparse mask of every shape before anything is timed."""
    run.found["check"] = {}
    for shape in shapes(run.options.shapes):
        cell = Cell(shape, 0.125, "random")
        q, k, v = cells.inputs(shape, "cuda")
        for arm in cells.our_arms(cell, q, k, v, LAYOUTS[:1]):
            row = check(arm, q, k, v)
            run.found["check"][f"{shape.name} {arm.name}"] = row
            said = "right" if row["right"] else "WRONG"
            print(f"check {shape.name} {arm.name}: off by {row['off']:.2e}, {said}", flush=True)
        run.save()


def main() -> int:
    """Run the parts asked for; return 1 if any result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=360, help="seconds for the whole run")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--shapes", default="ABCDE")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(describe(options))
        return 0
    from benchmarks.gpu_pieces import measure_pieces, tune
    from benchmarks.gpu_step import measure_step

    if options.out is None:
        name = re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")
        file = f"gpu-{name}-{time.strftime('%Y-%m-%d')}.json"
        options.out = Path(__file__).parent / "results" / file
    run = Run(options)
    run.found["device"] = {"name": torch.cuda.get_device_name(), "torch": torch.__version__}
    parts: dict[str, Callable[[], Any]] = {
        "check": lambda: check_shapes(run),
        "kernels": lambda: kernel_table(run),
        "pieces": lambda: measure_pieces(shapes(options.shapes), run.left),
        "tune": lambda: tune(shapes(options.shapes)[0], run.left),
        "step": measure_step,
    }
    for part in options.parts:
        found = parts[part]()
        if found is not None:
            run.found[part] = found
            print(f"{part}: {found}", flush=True)
        run.save()
    print(f"written: {options.out}")
    wrong = [row for row in run.found.get("check", {}).values() if not row["right"]]
    rows = (row for cell in run.found.get("kernels", []) for row in cell["arms"].values())
    wrong += [row for row in rows if not row.get("right", True)]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
