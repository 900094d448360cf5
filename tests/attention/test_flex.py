"""flex_attention on the same lists: what it refuses, and that it computes the specification."""

import shutil

import pytest
import torch

from attention import AttentionError, make_proxies
from attention.flex import attend_flex, block_mask
from tests.attention.tensors import allowed, exact, lists, plain, tokens


def test_proxies_and_float64_are_refused() -> None:
    q, k, v = tokens((1, 1, 64, 32))
    selection = lists((1, 1), 64, 64, (16, 16), most=2, least=1)
    with pytest.raises(AttentionError, match=r"has no proxies .* use compensate=none"):
        attend_flex(q, k, v, selection, make_proxies(k, v, 16, "mean"))
    with pytest.raises(AttentionError, match="does not compute float64"):
        attend_flex(q.double(), k.double(), v.double(), selection)


def test_the_mask_is_made_of_the_lists() -> None:
    selection = lists((2, 3), 100, 90, (16, 8), most=5, least=1)
    mask = block_mask(selection)
    assert mask.BLOCK_SIZE == (16, 8)
    assert mask.seq_lengths == (100, 90)
    assert torch.equal(mask.to_dense().bool(), selection.mask_bhqk())


@pytest.mark.slow
def test_a_short_last_block_and_rows_of_different_lengths() -> None:
    """Compiles for some seconds, so one shape stands for all."""
    if not any(map(shutil.which, ("c++", "g++", "clang++"))):
        pytest.skip("flex needs a C++ compiler on a CPU")
    q, k, v = tokens((2, 2, 230, 32))
    selection = lists((2, 2), 230, 230, (64, 32), most=5, least=1)
    out = attend_flex(q, k, v, selection, scale=0.3)
    expected = exact(q, k, v, selection, None, 0.3)
    assert allowed(out, expected, plain(q, k, v, selection, None, 0.3))
