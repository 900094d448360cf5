"""What sparse attention costs on a CPU against dense attention, and which block sizes suit it.

Run:  python -m benchmarks.attention [--pairs 5] [--quick]
One thread, CPU time of the process, random queries and keys. Each pair runs dense SDPA and every
sparse arm one after the other, so that a disturbance hits both; a ratio is dense over sparse of one
pair. A sparse arm pays for everything: permuting queries, keys, values and result, the router, the
proxies and the executor. flex reads the same lists and is compiled beforehand.
"""

import argparse
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attention import (
    Grid,
    Layout,
    Selection,
    TopK,
    executor,
    inverse_order,
    layout_order,
    make_proxies,
    select,
)
from attention.layout import priorities
from attention.patterns import Compensate
from benchmarks.report import OUT, report, write_report

GRIDS = {4096: Grid(4, 32, 32), 8192: Grid(8, 32, 32), 32_760: Grid(21, 30, 52)}
SCALING = [Grid(frames, 32, 32) for frames in (1, 2, 4, 8, 16)] + [GRIDS[32_760]]
TOY_GRIDS = [Grid(9, 12, 12), Grid(21, 12, 12)]
TOY_BLOCKS = [(16, 16), (32, 16), (48, 16), (64, 16), (64, 32), (128, 32)]
WAN_BLOCKS = [(64, 64), (128, 64), (256, 64), (128, 128)]
FIXED_BLOCKS = 16  # key blocks read in the scaling runs, whatever the length
COMPENSATIONS: tuple[Compensate, ...] = ("none", "mean", "mean_var")
PARTS = ("order", "router", "proxies", "executor")


@dataclass(frozen=True, slots=True)
class Case:
    """One row to measure.

    arms  "none", "mean", "mean_var": the cpu executor so compensated; "flex"
    """

    grid: Grid
    dtype: torch.dtype = torch.float32
    density: float = 0.125
    blocks: tuple[int, int] = (128, 64)
    heads: int = 1
    head_dim: int = 128
    arms: tuple[str, ...] = COMPENSATIONS

    @property
    def work(self) -> float:
        """About the operations of one pair, for the time that remains."""
        dense = 4.0 * self.grid.tokens**2 * self.heads * self.head_dim
        return dense * (1 + 1.4 * self.density * len(self.arms)) + 3e8 * (1 + len(self.arms))

    def __str__(self) -> str:
        size = f"{self.blocks[0]}x{self.blocks[1]}"
        return f"{self.grid.tokens:,} tokens, {_name(self.dtype)}, {self.density:g}, {size}"


@dataclass(slots=True)
class Clock:
    """Says on stderr what runs and about how long the rest will take."""

    total: float
    done: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def say(self, what: str) -> None:
        spent = time.monotonic() - self.began
        left = f"{spent / self.done * (self.total - self.done):.0f} s left" if self.done else ""
        print(f"[{100 * self.done / self.total:3.0f} %] {what} {left}", file=sys.stderr, flush=True)


class Inputs:
    """One case's tensors, and everything that a run makes once: order, layout, priorities."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.layout = Layout(case.grid, *case.blocks)
        generator = torch.Generator().manual_seed(0)
        shape = (1, case.heads, case.grid.tokens, case.head_dim)
        self.q, self.k, self.v = (
            torch.randn(shape, generator=generator).to(case.dtype) for _ in range(3)
        )
        self.order = layout_order(self.layout)
        self.inverse = inverse_order(self.order)
        self.first_kept = priorities(self.layout, TopK().neighbours)

    def dense(self) -> float:
        """Return CPU seconds of dense attention."""
        began = time.process_time()
        scaled_dot_product_attention(self.q, self.k, self.v)
        return time.process_time() - began

    def sparse(self, arm: str) -> tuple[list[float], Selection]:
        """Return CPU seconds of each of PARTS."""
        compensate: Compensate = "none" if arm == "flex" else _compensation(arm)
        attend = executor("flex" if arm == "flex" else "cpu")
        pattern = TopK(density=self.case.density, compensate=compensate)
        moments = [time.process_time()]
        q, k, v = (x.index_select(2, self.order) for x in (self.q, self.k, self.v))
        moments.append(time.process_time())
        selection = select(q, k, self.layout, pattern, first_kept=self.first_kept)
        moments.append(time.process_time())
        proxies = make_proxies(k, v, self.layout.key_block, compensate)
        moments.append(time.process_time())
        out = attend(q, k, v, selection, proxies)
        moments.append(time.process_time())
        _restored(out, self.inverse)
        moments.append(time.process_time())
        parts = [b - a for a, b in itertools.pairwise(moments)]
        return [parts[0] + parts[4], *parts[1:4]], selection


def _restored(out: Tensor, inverse: Tensor) -> Tensor:
    return out.index_select(2, inverse)


def _compensation(arm: str) -> Compensate:
    return next(name for name in COMPENSATIONS if name == arm)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def measure(case: Case, pairs: int, clock: Clock) -> dict[str, Any]:
    """Run a case's pairs and return its figures."""
    inputs = Inputs(case)
    clock.say(f"{case}: warm-up")
    compile_seconds = 0.0
    density = 0.0
    for arm in case.arms:
        began = time.perf_counter()
        density = float(inputs.sparse(arm)[1].density())
        if arm == "flex":
            compile_seconds = time.perf_counter() - began
    dense: list[float] = []
    parts: dict[str, list[list[float]]] = {arm: [] for arm in case.arms}
    for index in range(pairs):
        arms = case.arms if index % 2 == 0 else case.arms[::-1]
        if index % 2 == 0:
            dense.append(inputs.dense())
        for arm in arms:
            parts[arm].append(inputs.sparse(arm)[0])
        if index % 2:
            dense.append(inputs.dense())
        clock.done += case.work
        clock.say(f"{case}: pair {index + 1} of {pairs}")
    row: dict[str, Any] = {
        "tokens": case.grid.tokens,
        "grid": str(case.grid),
        "dtype": _name(case.dtype),
        "heads": case.heads,
        "head_dim": case.head_dim,
        "blocks": f"{case.blocks[0]}x{case.blocks[1]}",
        "density": round(density, 4),
        "pairs": pairs,
        "dense_seconds": round(statistics.median(dense), 4),
        "arms": {arm: _figures(dense, parts[arm]) for arm in case.arms},
    }
    reached = ", ".join(f"{arm} {found['speed_up']}x" for arm, found in row["arms"].items())
    clock.say(f"{case}: {reached}")
    if compile_seconds:
        row["flex_first_call_wall_seconds"] = round(compile_seconds, 1)
    return row


def _figures(dense: list[float], runs: list[list[float]]) -> dict[str, Any]:
    """Return an arm's ratios to dense, and where its time goes."""
    totals = [sum(run) for run in runs]
    ratios = [over / under for over, under in zip(dense, totals, strict=True)]
    alone = [over / run[3] for over, run in zip(dense, runs, strict=True)]
    shares = [(run[0] + run[1]) / total for run, total in zip(runs, totals, strict=True)]
    medians = [statistics.median(column) for column in zip(*runs, strict=True)]
    return {
        "speed_up": round(statistics.median(ratios), 2),
        "range": [round(min(ratios), 2), round(max(ratios), 2)],
        "executor_speed_up": round(statistics.median(alone), 2),
        "seconds": {name: round(x, 5) for name, x in zip(PARTS, medians, strict=True)},
        "order_and_router_percent": round(100 * statistics.median(shares), 1),
    }


def exponent(tokens: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the power of the length that the time grows with, by least squares on logarithms."""
    xs, ys = [math.log(n) for n in tokens], [math.log(s) for s in seconds]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - mean_x) ** 2 for x in xs)


def scaling(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Fit the exponents of dense attention and of sparse attention with a fixed number of keys."""
    tokens = [row["tokens"] for row in rows]
    dense = [row["dense_seconds"] for row in rows]
    sparse = [sum(row["arms"]["none"]["seconds"].values()) for row in rows]
    return {
        "tokens": tokens,
        "key_blocks_read": FIXED_BLOCKS,
        "dense_seconds": dense,
        "sparse_seconds": [round(value, 5) for value in sparse],
        "dense_exponent": round(exponent(tokens, dense), 3),
        "sparse_exponent": round(exponent(tokens, sparse), 3),
    }


def cases(*, quick: bool) -> dict[str, list[Case]]:
    """Return what is measured, by table."""
    if quick:
        small = Case(Grid(2, 8, 16), blocks=(32, 16), head_dim=32, heads=2)
        lengths = [replace(small, grid=Grid(frames, 8, 16), arms=("none",)) for frames in (2, 4)]
        return {"speed": [small], "blocks": [small], "toy": [small], "scaling": lengths}
    both, every = (torch.float32, torch.bfloat16), (*COMPENSATIONS, "flex")
    speed = [
        Case(grid, dtype, arms=every if grid.tokens < 10_000 else COMPENSATIONS)
        for grid in GRIDS.values()
        for dtype in both
    ]
    speed += [Case(GRIDS[8192], density=density) for density in (0.25, 0.0625)]
    blocks = [Case(GRIDS[8192], blocks=size, arms=("none", "mean")) for size in WAN_BLOCKS]
    toy = [
        Case(grid, blocks=size, heads=4, head_dim=32) for grid in TOY_GRIDS for size in TOY_BLOCKS
    ]
    lengths = [
        Case(grid, density=min(1.0, FIXED_BLOCKS / -(-grid.tokens // 64)), arms=("none",))
        for grid in SCALING
    ]
    speed.sort(key=lambda case: case.grid.tokens)
    return {"toy": toy, "blocks": blocks, "speed": speed, "scaling": lengths}


def run(pairs: int, *, quick: bool) -> dict[str, Any]:
    """Measure everything."""
    torch.set_num_threads(1)
    tables = cases(quick=quick)
    everything = [case for rows in tables.values() for case in rows]
    clock = Clock(total=sum(_pairs(case, pairs) * case.work for case in everything))
    found: dict[str, Any] = {"threads": 1, "torch": torch.__version__, "clock": "process CPU time"}
    with torch.no_grad():
        for name, rows in tables.items():
            found[name] = [measure(case, _pairs(case, pairs), clock) for case in rows]
    found["scaling"] = scaling(found["scaling"])
    return found


def _pairs(case: Case, pairs: int) -> int:
    """Return how often to measure: the long runs that only fit an exponent, twice."""
    return min(pairs, 2) if case.arms == ("none",) and case.grid.tokens > 10_000 else pairs


def table(rows: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Return the lines of a markdown table."""
    yield (
        "| tokens | dtype | blocks | density | arm | speed-up | range | executor alone "
        "| order + router |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        for arm, figures in row["arms"].items():
            low, high = figures["range"]
            yield (
                f"| {row['tokens']:,} | {row['dtype']} | {row['blocks']} | {row['density']} "
                f"| {arm} | **{figures['speed_up']}x** | {low} to {high} "
                f"| {figures['executor_speed_up']}x | {figures['order_and_router_percent']} % |"
            )


def show(found: dict[str, Any], say: Callable[[str], None] = print) -> None:
    """Print the tables."""
    titles = {
        "speed": "Speed-up over dense SDPA",
        "blocks": "Block sizes, long sequences",
        "toy": "Short sequences, head dimension 32",
    }
    for name, title in titles.items():
        say(f"\n{title} (median of {found[name][0]['pairs']} pairs)\n")
        for line in table(found[name]):
            say(line)
    lengths = found["scaling"]
    say(
        f"\nTime grows with tokens to the power of {lengths['dense_exponent']} (dense) and "
        f"{lengths['sparse_exponent']} ({lengths['key_blocks_read']} key blocks read), "
        f"{lengths['tokens'][0]:,} to {lengths['tokens'][-1]:,} tokens."
    )


def main() -> None:
    """Measure, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to see that it runs")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = run(options.pairs, quick=options.quick)
    command = f"python -m benchmarks.attention --pairs {options.pairs}"
    content = report(command + " --quick" * options.quick, **found)
    name = f"{content['date']}-attention-cpu.json"
    out = options.out or OUT / name
    write_report(out, content)
    print(content["machine"])
    show(found)
    print(f"\nwritten: {out}")


if __name__ == "__main__":
    main()
