"""The CPU executor against the specification: every shape, dtype and list; and what it computes."""

import dataclasses
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attention import Grid, Layout, TopK, inverse_order, layout_order, make_proxies, select
from attention import cpu as module
from attention.cpu import attend_cpu
from attention.errors import AttentionError
from attention.patterns import Compensate
from attention.proxies import Proxies
from attention.reference import attend_reference
from attention.selection import Selection, select_all
from tests.attention.tensors import allowed, exact, lists, plain, tokens

COMPENSATIONS: list[Compensate] = ["none", "mean", "mean_var"]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.fixture(autouse=True)
def _fresh_memory_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read before it is written shows."""
    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, filled(getattr(torch, name)))


def filled(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> torch.Tensor:
        x: torch.Tensor = make(*args, **kwargs)
        return x.fill_(torch.nan) if x.is_floating_point() else x

    return made


def agrees(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, selection: Selection,
    proxies: Proxies | None, scale: float | None = None,
) -> None:  # fmt: skip
    out = attend_cpu(q, k, v, selection, proxies, scale=scale)
    assert out.dtype == q.dtype
    assert out.shape == q.shape
    expected = exact(q, k, v, selection, proxies, scale)
    assert allowed(out, expected, plain(q, k, v, selection, proxies, scale))
    if q.dtype in (torch.float32, torch.float64):
        reference = attend_reference(q, k, v, selection, proxies, scale=scale)
        assert torch.allclose(out, reference, atol=2e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("compensate", COMPENSATIONS)
@pytest.mark.parametrize(
    ("queries", "keys", "blocks", "dim"),
    [
        (96, 96, (16, 8), 32),
        (101, 101, (16, 8), 64),
        (70, 133, (32, 16), 128),
        (5, 90, (16, 64), 32),
    ],
)
def test_every_shape_and_dtype(
    queries: int, keys: int, blocks: tuple[int, int], dim: int, compensate: Compensate,
    dtype: torch.dtype,
) -> None:  # fmt: skip
    q = tokens((2, 3, queries, dim), dtype)[0]
    _, k, v = tokens((2, 3, keys, dim), dtype, seed=1)
    most = min(4, -(-keys // blocks[1]))
    selection = lists((2, 3), queries, keys, blocks, most, least=1)
    agrees(q, k, v, selection, make_proxies(k, v, blocks[1], compensate))


@pytest.mark.parametrize("compensate", COMPENSATIONS)
@pytest.mark.parametrize("shared", [(1, 1), (1, 3), (2, 1)])
def test_shared_lists(shared: tuple[int, int], compensate: Compensate) -> None:
    q, k, v = tokens((2, 3, 75, 32))
    selection = lists(shared, 75, 75, (16, 8), most=5, least=2)
    agrees(q, k, v, selection, make_proxies(k, v, 8, compensate))


@pytest.mark.parametrize("compensate", COMPENSATIONS)
def test_one_key_block_per_row(compensate: Compensate) -> None:
    q, k, v = tokens((1, 2, 80, 32))
    agrees(q, k, v, lists((1, 2), 80, 80, (16, 16), 1, 1), make_proxies(k, v, 16, compensate))


def test_one_block_in_all_and_one_head() -> None:
    q, k, v = tokens((1, 1, 7, 32))
    agrees(q, k, v, select_all(7, 7, 16, 16), make_proxies(k, v, 16, "mean"))


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_the_scale_counts_everywhere(scale: float) -> None:
    q, k, v = tokens((1, 2, 64, 32))
    selection = lists((1, 2), 64, 64, (16, 8), most=3, least=3)
    for compensate in COMPENSATIONS:
        agrees(q, k, v, selection, make_proxies(k, v, 8, compensate), scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_logits(dtype: torch.dtype) -> None:
    q, k, v = tokens((1, 2, 96, 64), dtype, spread=3000.0)
    assert (q.float() @ k.float().mT).abs().max() > 1e4
    selection = lists((1, 2), 96, 96, (16, 8), most=4, least=2)
    for compensate in ("none", "mean"):
        out = attend_cpu(q, k, v, selection, make_proxies(k, v, 8, compensate))  # type: ignore[arg-type]
        assert out.isfinite().all()
        expected = exact(q, k, v, selection, make_proxies(k, v, 8, compensate))  # type: ignore[arg-type]
        assert (out.double() - expected).abs().mean() < (1e-2 if dtype == torch.bfloat16 else 1e-4)


@pytest.mark.parametrize("compensate", COMPENSATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strided_inputs_give_the_same_bits(compensate: Compensate, dtype: torch.dtype) -> None:
    q, k, v = tokens((2, 3, 64, 32), dtype)
    selection = lists((2, 3), 64, 64, (16, 8), most=3, least=3)
    proxies = make_proxies(k, v, 8, compensate)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    out = attend_cpu(*strided, selection, proxies)
    assert torch.equal(out, attend_cpu(q, k, v, selection, proxies))
    assert out.stride() == strided[0].stride()  # ready for the model's next reshape
    assert torch.equal(out, attend_cpu(*strided, selection, proxies))  # and the same again


def test_the_inputs_are_left_alone() -> None:
    q, k, v = tokens((1, 2, 64, 32))
    before = [x.clone() for x in (q, k, v)]
    attend_cpu(q, k, v, lists((1, 2), 64, 64, (16, 8), most=3, least=3), scale=0.3)
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v), strict=True))


@pytest.mark.parametrize("compensate", COMPENSATIONS)
def test_padding_inside_blocks_is_not_read(compensate: Compensate) -> None:
    q, k, v = tokens((1, 2, 64, 32))
    rows = lists((1, 2), 64, 64, (16, 8), most=4, least=2)
    sizes = torch.tensor([8, 3, 8, 1, 8, 8, 5, 8])
    selection = Selection(rows.blocks_bhqs, rows.counts_bhq, 16, 8, 64, 64, sizes)
    agrees(q, k, v, selection, make_proxies(k, v, 8, compensate))
    k[:, :, 8 + 3 : 16] = 1e4
    agrees(q, k, v, selection, None)


@pytest.mark.parametrize("number", [1024, 1000])
@pytest.mark.parametrize("compensate", COMPENSATIONS)
def test_density_one_is_dense_attention(number: int, compensate: Compensate) -> None:
    layout = Layout(Grid(number // 100, 10, 10), query_block=64, key_block=32)
    n = layout.tokens
    q, k, v = tokens((1, 2, n, 64))
    selection = select(q, k, layout, TopK(density=1.0))
    out = attend_cpu(q, k, v, selection, make_proxies(k, v, 32, compensate))
    assert torch.allclose(out, scaled_dot_product_attention(q, k, v), atol=1e-6)


def test_one_block_below_full_is_close_to_dense() -> None:
    layout = Layout(Grid(8, 16, 16), query_block=64, key_block=32)  # 64 key blocks
    q, k, v = tokens((1, 2, layout.tokens, 64))
    dense = scaled_dot_product_attention(q, k, v)
    off = {}
    for compensate in COMPENSATIONS:
        selection = select(q, k, layout, TopK(density=63 / 64))
        out = attend_cpu(q, k, v, selection, make_proxies(k, v, 32, compensate))
        off[compensate] = float((out - dense).norm() / dense.norm())
    assert 0 < off["none"] < 0.15
    assert off["mean"] < off["none"]


def test_an_order_and_its_inverse_change_nothing_at_density_one() -> None:
    layout = Layout(Grid(3, 9, 11), query_block=32, key_block=16)
    order = layout_order(layout)
    q, k, v = tokens((1, 2, layout.tokens, 32))
    moved = [x[:, :, order] for x in (q, k, v)]
    selection = select(moved[0], moved[1], layout, TopK(density=1.0))
    out = attend_cpu(*moved, selection)[:, :, inverse_order(order)]
    assert torch.allclose(out, scaled_dot_product_attention(q, k, v), atol=1e-6)


@pytest.mark.parametrize(
    ("density", "compensate"), [(0.125, "none"), (0.5, "none"), (0.25, "mean")]
)
def test_as_many_blocks_are_computed_as_planned(
    density: float, compensate: Compensate, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(Grid(4, 16, 16), query_block=64, key_block=32)  # all blocks are full
    q, k, v = tokens((1, 2, layout.tokens, 16))
    selection = select(q, k, layout, TopK(density=density))
    proxies = make_proxies(k, v, 32, compensate)
    multiplied = []
    for name in ("bmm", "baddbmm"):  # every product is one of these
        stock = getattr(torch, name)

        def counted(*args: Any, stock: Any = stock, **kwargs: Any) -> Any:
            left, right = args[-2:]
            multiplied.append(left.numel() * right.shape[-1])
            return stock(*args, **kwargs)

        monkeypatch.setattr(torch, name, counted)
    attend_cpu(q, k, v, selection, proxies)
    pairs = float(selection.pairs_bh().sum())
    if proxies is not None:  # each query also reads one proxy per key block
        pairs += 2 * layout.tokens * layout.key_blocks
    assert sum(multiplied) == 2 * 16 * pairs  # with the keys, then with the values


def test_a_head_s_lists_are_made_from_its_own_lists_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tokens((2, 3, 96, 32))
    selection = lists((2, 3), 96, 96, (16, 8), most=5, least=1)

    def whole(_: Selection) -> torch.Tensor:
        raise AssertionError("the mask of all heads was made")

    monkeypatch.setattr(Selection, "mask_bhqk", whole)
    attend_cpu(q, k, v, selection, make_proxies(k, v, 8, "mean"))


def test_lists_of_different_lengths_are_computed_apart() -> None:
    """One row that reads everything must not make its neighbours pay for it."""
    counts = [2] * 20 + [64] + [3] * 19
    groups = module._groups(counts, [False] * 40, room=1000)
    computed = sum((group.stop - group.start) * group.places for group in groups)
    assert [group.start for group in groups[1:]] == [group.stop for group in groups[:-1]]
    assert (groups[0].start, groups[-1].stop) == (0, 40)
    assert computed <= 1.5 * sum(counts)
    assert all(group.places >= max(counts[group.start : group.stop]) for group in groups)


@pytest.mark.parametrize("room", [1, 7, 10_000])
def test_any_grouping_gives_the_same(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GATHERED_BYTES", room * 8 * 32 * 4)
    q, k, v = tokens((1, 2, 125, 32))
    selection = lists((1, 2), 125, 125, (8, 8), most=6, least=1)
    for compensate in COMPENSATIONS:
        agrees(q, k, v, selection, make_proxies(k, v, 8, compensate))


def test_a_block_that_is_not_read_cannot_spoil_the_result() -> None:
    q, k, v = tokens((1, 1, 64, 32))
    selection = lists((1, 1), 64, 64, (64, 8), most=3, least=3)
    unread = (~selection.mask_bhqk()[0, 0, 0]).nonzero()[0, 0] * 8
    k[:, :, unread : unread + 8], v[:, :, unread : unread + 8] = torch.nan, torch.inf
    assert attend_cpu(q, k, v, selection).isfinite().all()


def test_lists_for_other_tensors_are_refused() -> None:
    """They would leave tokens unwritten."""
    selection = select_all(48, 48, 16, 16)
    q, k = torch.randn(1, 2, 48, 8), torch.randn(1, 2, 48, 8)
    more = torch.randn(1, 2, 64, 8)
    for tensors in ((more, k, k), (q, more, more), (q, k, more)):
        with pytest.raises(AttentionError, match="48 queries and 48 keys"):
            attend_cpu(*tensors, selection)
    two = dataclasses.replace(
        selection,
        blocks_bhqs=selection.blocks_bhqs.expand(1, 2, -1, -1),
        counts_bhq=selection.counts_bhq.expand(1, 2, -1),
    )
    four = [torch.randn(1, 4, 48, 8) for _ in range(3)]
    with pytest.raises(AttentionError, match="1x2 batches and heads, and queries for 1x4"):
        attend_cpu(*four, two)
