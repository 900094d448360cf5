"""How many blocks a row reads where a share of the mass decides: halves are rounded up."""

import pytest
import torch

from attention import Grid, Layout, TopK, select
from tests.attention.tensors import tokens

LAYOUT = Layout(Grid(4, 8, 12), query_block=32, key_block=16)  # 12 x 24 blocks


@pytest.mark.parametrize(("blocks", "least", "most"), [(5, 3, 7), (1, 1, 1), (24, 12, 24)])
def test_no_less_than_half_and_no_more_than_one_and_a_half(
    blocks: int, least: int, most: int
) -> None:
    q, k, _ = tokens((1, 1, 384, 32))
    for top_p, wanted in ((1e-6, least), (1.0, most)):
        pattern = TopK(density=blocks / 24, top_p=top_p)
        found = select(0.01 * q, k, LAYOUT, pattern).counts_bhq
        assert torch.equal(found, torch.full_like(found, wanted))


@pytest.mark.parametrize(("top_p", "wanted"), [(0.24, 6), (0.26, 7), (0.30, 8)])
def test_a_row_reads_the_fewest_blocks_that_hold_the_share(top_p: float, wanted: int) -> None:
    same = torch.zeros(1, 1, 384, 32)  # every block holds 1/24 of the mass
    counts = select(same, same, LAYOUT, TopK(density=6 / 24, top_p=top_p)).counts_bhq
    assert torch.equal(counts, torch.full_like(counts, wanted))
