"""Proxies: exact where a block's keys are equal, closer with their variance where they are not."""

import pytest
import torch

from attention.proxies import block_means, make_proxies
from attention.reference import attend_reference, reference_weights
from attention.selection import select_all
from tests.attention.tensors import lists, tokens

BLOCK = 8


def test_nothing_is_made_for_none() -> None:
    _, k, v = tokens((1, 1, 20, 4))
    assert make_proxies(k, v, BLOCK, "none") is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("number", [64, 61, 5])
def test_means_and_variances_with_a_short_last_block(dtype: torch.dtype, number: int) -> None:
    _, k, v = tokens((2, 3, number, 4), dtype)
    proxies = make_proxies(k, v, BLOCK, "mean_var")
    assert proxies is not None
    assert proxies.variances_bhkd is not None
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    assert proxies.keys_bhkd.dtype == proxies.values_bhkd.dtype == wide
    for index, (keys, values) in enumerate(zip(k.split(BLOCK, 2), v.split(BLOCK, 2), strict=True)):
        assert torch.allclose(proxies.keys_bhkd[:, :, index], keys.to(wide).mean(2), atol=1e-6)
        assert torch.allclose(proxies.values_bhkd[:, :, index], values.to(wide).mean(2), atol=1e-6)
        spread = keys.to(wide).var(2, correction=0)
        assert torch.allclose(proxies.variances_bhkd[:, :, index], spread, atol=1e-5)
    assert int(proxies.sizes_k.sum()) == number


def test_block_means_of_strided_tokens() -> None:
    x = torch.randn(2, 30, 3, 4).transpose(1, 2)
    assert torch.allclose(block_means(x, 10), x.contiguous().view(2, 3, 3, 10, 4).mean(3))


@pytest.mark.parametrize("compensate", ["mean", "mean_var"])
def test_exact_where_all_keys_of_a_block_are_equal(compensate: str) -> None:
    q, k, v = tokens((2, 2, 77, 16), torch.float64)
    k = block_means(k, BLOCK).repeat_interleave(BLOCK, dim=2)[:, :, :77]
    selection = lists((2, 2), 77, 77, (16, BLOCK), most=4, least=1)
    proxies = make_proxies(k, v, BLOCK, compensate)  # type: ignore[arg-type]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    assert torch.allclose(attend_reference(q, k, v, selection, proxies), expected, atol=1e-12)
    assert not torch.allclose(attend_reference(q, k, v, selection), expected, atol=1e-2)


@pytest.mark.parametrize("compensate", ["none", "mean", "mean_var"])
def test_all_weights_sum_to_one(compensate: str) -> None:
    q, k, v = tokens((1, 2, 77, 16), torch.float64)
    selection = lists((1, 2), 77, 77, (16, BLOCK), most=4, least=1)
    weights = reference_weights(q, k, selection, make_proxies(k, v, BLOCK, compensate))  # type: ignore[arg-type]
    total = weights.keys_bhnm.sum(-1) + weights.proxies_bhnk.sum(-1)
    assert torch.allclose(total, torch.ones_like(total), atol=1e-12)
    read = selection.mask_bhqk().repeat_interleave(16, dim=2)[:, :, :77]
    assert not weights.proxies_bhnk.shape[-1] or (weights.proxies_bhnk[read] == 0).all()


def test_the_variance_corrects_the_mass_of_gaussian_keys() -> None:
    """A block's mass is estimated closer than by its mean alone, which is too low by Jensen."""
    torch.manual_seed(0)
    q = torch.randn(1, 1, 64, 32, dtype=torch.float64)
    centres = torch.randn(1, 1, 8, 32, dtype=torch.float64)
    k = centres.repeat_interleave(64, dim=2) + torch.randn(1, 1, 512, 32, dtype=torch.float64)
    v = torch.randn(1, 1, 512, 32, dtype=torch.float64)
    everything = select_all(64, 512, 64, 64)
    dense = reference_weights(q, k, everything).lse_bhn
    only = lists((1, 1), 64, 512, (64, 64), most=1, least=1)
    off = {}
    for compensate in ("mean", "mean_var"):
        proxies = make_proxies(k, v, 64, compensate)  # type: ignore[arg-type]
        off[compensate] = reference_weights(q, k, only, proxies).lse_bhn - dense
    assert off["mean"].mean() < -0.1
    assert off["mean_var"].abs().mean() < 0.5 * off["mean"].abs().mean()
