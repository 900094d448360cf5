"""What a stranger gives by mistake: one sentence, before anything is computed."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from attention import (
    AttentionError,
    Dense,
    Grid,
    Layout,
    TopK,
    Window,
    executor,
    inverse_order,
    make_proxies,
    select,
)
from attention.selection import select_all

GRID = Grid(2, 4, 4)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Grid(0, 1, 1), "frames=0 is not a whole number from 1 on"),
    (lambda: Grid(1, 2.5, 1), "rows=2.5 is not a whole number"),  # type: ignore[arg-type]
    (lambda: Layout(GRID, query_block=1.5), "query_block=1.5"),  # type: ignore[arg-type]
    (lambda: Layout(GRID, text_tokens=-3), "text_tokens=-3"),
    (lambda: Layout(GRID, order="zzz"), "order='zzz' is not one of raster, hilbert"),  # type: ignore[arg-type]
    (lambda: TopK(score="zz"), "score='zz' is not one of mean, subblock, mass"),  # type: ignore[arg-type]
    (lambda: TopK(compensate="zz"), "compensate='zz' is not one of none, mean, mean_var"),  # type: ignore[arg-type]
    (lambda: TopK(budgets=()), "hold no layer"),
    (lambda: TopK(neighbours=-1), "neighbours=-1"),
    (lambda: TopK(sub_block=0), "sub_block=0"),
    (lambda: Window(frame_cells=math.nan), "frame_cells=nan"),
    (lambda: executor("zz"), "backend='zz' is not one of cpu"),
    (lambda: make_proxies(torch.ones(1, 1, 4, 2), torch.ones(1, 1, 4, 2), 2, "zz"), "'zz'"),  # type: ignore[arg-type]
    (lambda: select(*_tokens(1), Layout(GRID), Dense()), "Dense selects no blocks"),  # type: ignore[arg-type]
    (lambda: inverse_order(torch.tensor([0, 2, 2])), r"order is no permutation of 0\.\.2"),
    (lambda: select(*_tokens(0), Layout(GRID), TopK()), r"\(0, 2, 32, 8\) are empty"),
]


def _tokens(batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 2, 32, 8), torch.randn(batch, 2, 32, 8)


@pytest.mark.parametrize(("make", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_mistake_is_told(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(AttentionError, match=said):
        make()


def test_there_is_no_gradient() -> None:
    q = torch.randn(1, 1, 32, 8, requires_grad=True)
    with pytest.raises(AttentionError, match=r"no gradient.*no_grad"):
        executor("cpu")(q, q, q, select_all(32, 32, 16, 16))
    with torch.no_grad():
        executor("cpu")(q, q, q, select_all(32, 32, 16, 16))
