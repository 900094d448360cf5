"""The specification itself, against dense attention and against a loop over tokens."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention.proxies import make_proxies
from attention.reference import attend_reference
from attention.selection import Selection, select_all
from tests.attention.tensors import lists, tokens


@pytest.mark.parametrize("scale", [None, 0.3])
def test_reading_everything_is_dense_attention(scale: float | None) -> None:
    q, k, v = tokens((2, 3, 70, 16), torch.float64)
    out = attend_reference(q, k, v, select_all(70, 70, 16, 8), scale=scale)
    assert torch.allclose(out, scaled_dot_product_attention(q, k, v, scale=scale), atol=1e-13)


@pytest.mark.parametrize("compensate", ["none", "mean", "mean_var"])
def test_against_a_loop_over_tokens(compensate: str) -> None:
    q, k, v = tokens((1, 1, 13, 4), torch.float64)
    selection = lists((1, 1), 13, 13, (4, 3), most=3, least=1)
    proxies = make_proxies(k, v, 3, compensate)  # type: ignore[arg-type]
    out = attend_reference(q, k, v, selection, proxies)[0, 0]
    for n in range(13):
        row = selection.blocks_bhqs[0, 0, n // 4]
        read = row[: int(selection.counts_bhq[0, 0, n // 4])].tolist()
        total, summed = 0.0, torch.zeros(4, dtype=torch.float64)
        for block in range(5):
            keys, values = k[0, 0, block * 3 : block * 3 + 3], v[0, 0, block * 3 : block * 3 + 3]
            if block in read:
                for key, value in zip(keys, values, strict=True):
                    weight = math.exp(float(q[0, 0, n] @ key) / 2)
                    total, summed = total + weight, summed + weight * value
            elif compensate != "none":
                weight = len(keys) * math.exp(float(q[0, 0, n] @ keys.mean(0)) / 2)
                if compensate == "mean_var":
                    spread = (keys - keys.mean(0)).square().mean(0)
                    weight *= math.exp(float((q[0, 0, n] / 2).square() @ spread) / 2)
                total, summed = total + weight, summed + weight * values.mean(0)
        assert torch.allclose(out[n], summed / total, atol=1e-12)


def test_padding_is_read_by_no_query() -> None:
    q, k, v = tokens((1, 2, 24, 8), torch.float64)
    everything = select_all(24, 24, 8, 8)
    padded = Selection(
        everything.blocks_bhqs, everything.counts_bhq, 8, 8, 24, 24, torch.tensor([8, 5, 2])
    )
    real = [*range(8), *range(8, 13), 16, 17]
    expected = scaled_dot_product_attention(q, k[:, :, real], v[:, :, real])
    assert torch.allclose(attend_reference(q, k, v, padded), expected, atol=1e-13)
