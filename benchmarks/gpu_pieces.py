"""Sparse attention in its pieces (router, order, proxies, kernel), and other kernel shapes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from triton.runtime.errors import TritonError

from attention.layout import Layout, layout_order, priorities
from attention.patterns import TopK
from attention.proxies import make_proxies
from attention.router import block_scores, scorer, select
from attention.selection import select_highest
from attention.triton_blocks import Work, attend_triton, device_config, launch, read_words
from attention.triton_configs import Config
from attention.triton_router import block_scores_triton
from benchmarks.gpu_cells import HEAD_DIM, Cell, Shape, inputs, lists, smooth_inputs, useful_flops
from benchmarks.gpu_timing import interleaved, summary

_L2_BYTES = 64 * 2**20


def measure_pieces(shapes: tuple[Shape, ...], left: Callable[[], float]) -> dict[str, Any]:
    """Return milliseconds of each piece for shapes that have a grid, at density 0.125."""
    found: dict[str, Any] = {}
    for shape in shapes:
        if shape.grid is None or shape.name not in "AB" or left() < 20:
            continue
        calls = pieces(shape)
        for call in calls.values():
            call()
        times, clocks = interleaved(list(calls.values()))
        rows: dict[str, Any] = {name: summary(row) for name, row in zip(calls, times, strict=True)}
        other = torch.empty(_L2_BYTES, dtype=torch.uint8, device="cuda")
        cold, _ = interleaved([calls["kernel, none"]], between=partial(other.fill_, 1))
        rows["kernel, none, cold L2"] = summary(cold[0])
        found[shape.name] = {**rows, "clocks_mhz": clocks}
        torch.cuda.empty_cache()
    return found


def pieces(shape: Shape, device: str = "cuda") -> dict[str, Callable[[], Any]]:
    """Return what one layer of sparse attention consists of, each to be called alone."""
    assert shape.grid is not None
    layout, pattern = Layout(shape.grid), TopK(density=0.125)
    q, k = smooth_inputs(shape, device)
    v = inputs(shape, device)[2]
    hidden = torch.randn((1, shape.tokens, shape.heads * HEAD_DIM), device=device).to(q.dtype)
    order_n = layout_order(layout).to(device)
    first = priorities(layout, pattern.neighbours).to(device)
    score = scorer("triton", layout, pattern, HEAD_DIM, q.device)
    selection = select(q, k, layout, pattern, first_kept=first, score=score)
    proxies = make_proxies(k, v, layout.key_block, "mean")
    scores = block_scores(q, k, layout, pattern)
    most = selection.blocks_bhqs.shape[-1]

    def whole() -> Tensor:
        chosen = select(q, k, layout, pattern, first_kept=first, score=score)
        return attend_triton(q, k, v, chosen, make_proxies(k, v, layout.key_block, "mean"))

    return {
        "total of a layer": whole,
        "kernel, none": lambda: attend_triton(q, k, v, selection),
        "kernel, mean": lambda: attend_triton(q, k, v, selection, proxies),
        "router": lambda: select(q, k, layout, pattern, first_kept=first, score=score),
        "scores, Triton": lambda: block_scores_triton(q, k, layout, pattern),
        "top-k": lambda: select_highest(scores, selection.counts_bhq, most),
        "proxies": lambda: make_proxies(k, v, layout.key_block, "mean"),
        "bits of the lists": lambda: read_words(selection.blocks_bhqs, layout.key_blocks),
        "order (once per forward)": lambda: hidden.index_select(1, order_n),
    }


def tune(shape: Shape, left: Callable[[], float]) -> list[dict[str, Any]]:
    """Return the times of other kernel shapes on one cell; a row that beats the first is news."""
    cell = Cell(shape, 0.125, "random")
    q, k, v = inputs(shape, "cuda")
    selection = lists(cell, (128, 64), "cuda")
    work = Work(q, k, v, selection.blocks_bhqs, selection.counts_bhq, None, 128, 64,
                None, None, None, None, HEAD_DIM**-0.5)  # fmt: skip
    base = device_config(q)
    tiles = -(-shape.tokens // base.rows) * shape.heads
    candidates = [
        base,
        *(replace(base, stages=stages) for stages in (2, 3, 4, 5) if stages != base.stages),
        replace(base, programs=2),
        replace(base, programs=tiles),  # one program per tile, handed out by the hardware
        replace(base, tma=not base.tma),
        replace(base, rows=64, warps=4, programs=2),
    ]
    out = torch.empty_like(q)
    found: list[dict[str, Any]] = []
    calls = []
    for candidate in candidates:
        if left() < 30:
            break

        def call(config: Config = candidate) -> None:
            launch(work, config.tile(128, 64), out)

        try:
            call()
            torch.cuda.synchronize()
        except (RuntimeError, TritonError) as error:  # more shared memory than there is
            found.append({"config": str(candidate), "failed": str(error)[:200]})
            continue
        calls.append((candidate, call))
    times, _ = interleaved([call for _, call in calls])
    for (candidate, _), row in zip(calls, times, strict=True):
        rate = useful_flops(cell, selection) / summary(row)["ms"] / 1e9
        found.append({"config": str(candidate), **summary(row), "useful_tflops": round(rate, 1)})
    return found
