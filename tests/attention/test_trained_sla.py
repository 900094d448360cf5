"""SLA against its published formula, written out token by token."""

import math

import pytest
import torch
from torch import Tensor

from attention import AttentionError, Grid, executor
from attention.trained import Sla, attend_sla, prepare, select_sla
from tests.attention.naive import attend_one, best, mean, some


def blocks_of(tokens: int, block: int) -> list[list[int]]:
    return [list(range(start, min(start + block, tokens))) for start in range(0, tokens, block)]


def feature(x_d: Tensor, kind: str) -> list[float]:
    values = [float(value) for value in x_d]
    if kind == "softmax":
        total = sum(math.exp(value) for value in values)
        return [math.exp(value) / total for value in values]
    if kind == "relu":
        return [max(value, 0.0) for value in values]
    return [value + 1 if value > 0 else math.exp(value) for value in values]


def published(x: list[Tensor], weight: Tensor, bias: Tensor, pattern: Sla) -> Tensor:
    """Return SLA of one head: queries, keys, values [n, d]."""
    q, k, v = x
    tokens, dim = q.shape
    middle = mean(k, list(range(tokens)))
    key_blocks = blocks_of(tokens, pattern.key_block)
    key_means = [mean(k, block) - middle for block in key_blocks]
    kept = int(pattern.topk_ratio * len(key_blocks))
    features = [torch.tensor(feature(row, pattern.feature_map), dtype=torch.float64) for row in k]
    out = torch.zeros_like(q)
    for block in blocks_of(tokens, pattern.query_block):
        scores = [float(mean(q, block) @ key) for key in key_means]
        read = [token for place in best(scores, kept) for token in key_blocks[place]]
        for token in block:
            mine = torch.tensor(feature(q[token], pattern.feature_map), dtype=torch.float64)
            sums, mass = torch.zeros(dim).double(), 0.0
            for other, value in zip(features, v, strict=True):
                sums += float(mine @ other) * value
                mass += float(mine @ other)
            linear = sums / (1e-5 + mass)
            projected = torch.stack([weight[i] @ linear + bias[i] for i in range(dim)])
            out[token] = attend_one(q[token], k, v, read) + projected
    return out


def run(x: list[Tensor], weight: Tensor, bias: Tensor, pattern: Sla, backend: str) -> Tensor:
    q, k, v = (y[None, None] for y in x)
    return attend_sla(q, k, v, weight, bias, pattern, executor(backend)).out[0, 0]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("tokens", "blocks"), [(105, (16, 8)), (96, (16, 16)), (70, (8, 16))], ids=str
)
def test_equals_the_published_formula(tokens: int, blocks: tuple[int, int], backend: str) -> None:
    x = [some(tokens, 8, seed=seed) for seed in range(3)]
    weight, bias = some(8, 8, seed=3), some(8, seed=4)
    pattern = Sla(0.35, *blocks)
    expected = published(x, weight, bias, pattern)
    torch.testing.assert_close(run(x, weight, bias, pattern, backend), expected)


@pytest.mark.parametrize("kind", ["elu", "relu"])
def test_other_feature_maps(kind: str) -> None:
    x = [some(40, 8, seed=seed) for seed in range(3)]
    weight, bias = some(8, 8, seed=3), some(8, seed=4)
    pattern = Sla(0.5, 8, 8, feature_map=kind)  # type: ignore[arg-type]
    expected = published(x, weight, bias, pattern)
    torch.testing.assert_close(run(x, weight, bias, pattern, "reference"), expected)


def test_without_projection_and_with_all_blocks_it_is_dense() -> None:
    x = [some(50, 8, seed=seed) for seed in range(3)]
    dense = torch.stack([attend_one(row, x[1], x[2], list(range(50))) for row in x[0]])
    none = torch.zeros(8, 8).double(), torch.zeros(8).double()
    torch.testing.assert_close(run(x, *none, Sla(1.0, 16, 8), "reference"), dense)


@pytest.mark.parametrize(
    ("ratio", "blocks", "kept"),
    [(0.1, 10, 1), (0.1, 19, 1), (0.1, 20, 2), (0.15, 13, 1), (1, 7, 7)],
)
def test_the_count_is_rounded_down(ratio: float, blocks: int, kept: int) -> None:
    assert Sla(ratio).kept(blocks) == kept


def test_a_ratio_that_keeps_nothing_is_refused() -> None:
    q = torch.zeros(1, 1, 64 * 9, 8)
    with pytest.raises(AttentionError, match=r"0\.1 of 9 key blocks keeps none") as caught:
        select_sla(q, q, Sla(0.1))
    assert caught.value.field == "attention"


def test_equal_scores_are_taken_from_the_left() -> None:
    same = torch.ones(1, 1, 64, 8)
    assert select_sla(same, same, Sla(0.5, 32, 16)).blocks_bhqs.tolist() == [[[[0, 1]] * 2]]


def test_a_short_last_block_is_averaged_over_its_own_tokens() -> None:
    """The last key block holds one token, the strongest; padded with zeros it would lose."""
    q = torch.ones(1, 1, 33, 1).double()
    k = torch.zeros(1, 1, 33, 1).double()
    k[:, :, :8], k[:, :, 32] = 3.0, 4.0
    assert select_sla(q, k, Sla(0.2, 33, 8)).blocks_bhqs.tolist() == [[[[4]]]]


def test_what_all_keys_share_is_taken_off_before_rounding() -> None:
    """Without it, the means of the last three blocks would be equal in bfloat16."""
    q = torch.ones(1, 1, 64, 1).bfloat16()
    k = torch.full((8, 8), 64.0)
    for block in range(8):
        k[block, :block] = 64.5
    found = select_sla(q, k.view(1, 1, 64, 1).bfloat16(), Sla(0.2, 64, 8))
    assert found.blocks_bhqs.tolist() == [[[[7]]]]


def test_the_order_is_the_models_own() -> None:
    assert prepare(Sla(), Grid(2, 3, 5)).order_n.tolist() == list(range(30))


def test_the_blocks_are_the_published_ones() -> None:
    selection = select_sla(*(torch.zeros(1, 1, 1300, 8) for _ in range(2)), Sla())
    assert (selection.query_block, selection.key_block) == (128, 64)
    assert selection.blocks_bhqs.shape == (1, 1, 11, 2)


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1.5])
def test_a_ratio_outside_is_refused(ratio: float) -> None:
    with pytest.raises(AttentionError):
        Sla(ratio)
