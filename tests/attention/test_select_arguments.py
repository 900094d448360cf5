"""What `select` is given and must pass on: the scale of the products, and who scores."""

from typing import Any

import torch

from attention import Grid, Layout, TopK, select
from tests.attention.tensors import tokens

LAYOUT = Layout(Grid(4, 8, 12), query_block=32, key_block=16)  # 12 x 24 blocks


def test_a_scale_is_the_same_as_larger_queries() -> None:
    q, k, _ = tokens((1, 2, 384, 32))
    pattern = TopK(density=0.25, neighbours=0)
    scaled = select(q, k, LAYOUT, pattern, scale=8 * 32**-0.5).blocks_bhqs
    assert torch.equal(scaled, select(8 * q, k, LAYOUT, pattern).blocks_bhqs)
    assert not torch.equal(scaled, select(q, k, LAYOUT, pattern).blocks_bhqs)


def test_the_scorer_that_is_given_decides() -> None:
    q, k, _ = tokens((1, 2, 384, 32))

    def later_is_better(q: Any, _k: Any, layout: Layout, *_more: Any) -> torch.Tensor:
        place = torch.arange(layout.key_blocks, dtype=torch.float32)
        return place.expand(*q.shape[:2], layout.query_blocks, -1)

    pattern = TopK(density=4 / 24, neighbours=0)
    found = select(q, k, LAYOUT, pattern, score=later_is_better).blocks_bhqs
    for row in range(11):
        assert found[:, :, row].tolist() == [[[2 * row, 2 * row + 1, 22, 23]] * 2]
