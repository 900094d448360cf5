"""Sparse attention in its pieces (router, order, proxies, kernel), and other kernel shapes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from triton.runtime.errors import TritonError

from attention.layout import Layout, block_sizes, layout_order, priorities
from attention.patterns import TopK
from attention.proxies import make_proxies
from attention.router import block_scores, row_counts, scorer, select
from attention.selection import select_highest
from attention.triton_blocks import Work, attend_triton, device_config, launch, read_words
from attention.triton_configs import Config
from attention.triton_router import block_scores_triton
from benchmarks.gpu_cells import (
    HEAD_DIM,
    Arm,
    Cell,
    Shape,
    allowed,
    inputs,
    lists,
    sampled_error,
    smooth_inputs,
    useful_flops,
)
from benchmarks.gpu_timing import interleaved, summary

_L2_BYTES = 64 * 2**20
# Two orders of summing differ by about bfloat16's rounding, 0.004; a wrong block in 64 by 0.1.
_MOST_OFF = 0.02


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
    counts = row_counts(layout, pattern, shape.heads, q.device)
    route = partial(select, q, k, layout, pattern, first_kept=first, score=score, counts=counts)
    sizes_k = block_sizes(layout.tokens, layout.key_block, q.device)
    stand_in = partial(make_proxies, k, v, layout.key_block, "mean", sizes_k)
    selection, proxies = route(), stand_in()
    scores = block_scores(q, k, layout, pattern)
    most = selection.blocks_bhqs.shape[-1]

    def whole() -> Tensor:
        return attend_triton(q, k, v, route(), stand_in())

    return {
        "total of a layer": whole,
        "kernel, none": lambda: attend_triton(q, k, v, selection),
        "kernel, mean": lambda: attend_triton(q, k, v, selection, proxies),
        "router": route,
        "scores, Triton": lambda: block_scores_triton(q, k, layout, pattern),
        "top-k": lambda: select_highest(scores, selection.counts_bhq, most),
        "proxies": stand_in,
        "bits of the lists": lambda: read_words(selection.blocks_bhqs, layout.key_blocks),
        "order (once per forward)": lambda: hidden.index_select(1, order_n),
    }


def tune(shape: Shape, left: Callable[[], float]) -> list[dict[str, Any]]:
    """Return the times of other kernel shapes on one cell; a row that beats the first is news.

    The first is checked on sampled rows, the others against its output; a wrong one is not timed.
    """
    cell = Cell(shape, 0.125, "random")
    q, k, v = inputs(shape, "cuda")
    selection = lists(cell, (128, 64), str(q.device))
    work = Work(q, k, v, selection.blocks_bhqs, selection.counts_bhq, None, 128, 64,
                None, None, None, None, HEAD_DIM**-0.5)  # fmt: skip
    base = device_config(q)
    truth, out = torch.empty_like(q), torch.empty_like(q)
    launch(work, base.tile(128, 64), truth)
    off, torch_off = sampled_error(Arm("base", lambda: truth, 0, 0, selection), truth, q, k, v)
    if not off <= allowed(torch_off):
        return [{"config": str(base), "wrong": f"off by {off:.3g}"}]
    found: list[dict[str, Any]] = []
    calls = []
    for config in _candidates(base, -(-shape.tokens // base.rows) * shape.heads):
        if left() < 30:
            break
        call = partial(launch, work, config.tile(128, 64), out)
        refusal = _refusal(call, out, truth)
        if refusal:
            found.append({"config": str(config), **refusal})
        else:
            calls.append((config, call))
    times, _ = interleaved([call for _, call in calls])
    for (config, _), row in zip(calls, times, strict=True):
        rate = useful_flops(cell, selection) / summary(row)["ms"] / 1e9
        found.append({"config": str(config), **summary(row), "useful_tflops": round(rate, 1)})
    return found


def _candidates(base: Config, tiles: int) -> list[Config]:
    """Return the shapes to compare, the one in use first."""
    return [
        base,
        *(replace(base, stages=stages) for stages in (2, 3, 4, 5) if stages != base.stages),
        replace(base, programs=2),
        replace(base, programs=tiles),  # one program per tile, handed out by the hardware
        replace(base, tma=not base.tma),
        replace(base, rows=64, warps=4, programs=2),
    ]


def _refusal(call: Callable[[], Any], out: Tensor, truth: Tensor) -> dict[str, Any]:
    """Run a kernel once; say why it must not be timed, nothing if it may."""
    out.fill_(torch.nan)  # else what another kernel left there would pass for its own
    try:
        call()
        off = worst_row(out, truth)
    except (RuntimeError, TritonError) as error:  # more shared memory than there is
        return {"failed": str(error)[:200]}
    return {} if off <= _MOST_OFF else {"wrong": f"off by {off:.3g}"}


def worst_row(out_bhnd: Tensor, truth_bhnd: Tensor) -> float:
    """Return the relative error of the row that is furthest off; not a number if one is not."""
    off = (out_bhnd.float() - truth_bhnd.float()).norm(dim=-1)
    return float((off / truth_bhnd.float().norm(dim=-1)).max())
