"""The Triton kernels under Triton's interpreter against the reference: one function per case.

Run:  TRITON_INTERPRET=1 python -m tests.attention.triton_cases [name ...]

Triton decides when it is first imported whether kernels run on a GPU or in Python, so the cases run
in a process of their own; `test_triton.py` starts it once and reports each case as a test. One tile
takes about 30 ms here, so the cases are small.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from attention.layout import Layout
from attention.patterns import Compensate, TopK
from attention.proxies import Proxies, block_means, make_proxies
from attention.reference import attend_reference
from attention.selection import Selection, select_all, select_highest

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    """Register a case under its function's name."""
    CASES[function.__name__] = function
    return function


def tokens(
    batch: int, heads: int, number: int, dim: int, dtype: torch.dtype, spread: float = 1.0
) -> Tensor:
    """Return random tokens as transformers hold them: heads inside tokens in memory."""
    return (spread * torch.randn(batch, number, heads, dim)).to(dtype).transpose(1, 2)


def lists(
    shape: tuple[int, int], queries: int, keys: int, blocks: tuple[int, int], most: int
) -> Selection:
    """Return random lists of 1..most blocks; every row has its own length."""
    rows, num_blocks = -(-queries // blocks[0]), -(-keys // blocks[1])
    counts = torch.randint(1, most + 1, (*shape, rows))
    counts[0, 0, 0] = most
    found, counts = select_highest(torch.randn(*shape, rows, num_blocks), counts, most)
    return Selection(found, counts, *blocks, queries, keys)


def in_dtype(q: Tensor, k: Tensor, v: Tensor, selection: Selection, proxies: Proxies | None,
             scale: float) -> Tensor:  # fmt: skip
    """Compute the same with torch's own operations in the inputs' dtype."""
    read = selection.mask_bhqk().repeat_interleave(selection.query_block, 2)
    read = read[:, :, : q.shape[2]]
    inside = read.repeat_interleave(selection.key_block, 3)[..., : k.shape[2]] & selection.real_m()
    logits = (q @ k.mT * scale).masked_fill(~inside, -torch.inf)
    values = v
    if proxies is not None:
        stand_in = q @ proxies.keys_bhkd.to(q.dtype).mT * scale
        stand_in = stand_in + proxies.sizes_k.log().to(q.dtype)
        if proxies.variances_bhkd is not None:
            squares = 0.5 * (q * scale).square()
            stand_in = stand_in + squares @ proxies.variances_bhkd.to(q.dtype).mT
        logits = torch.cat([logits, stand_in.masked_fill(read, -torch.inf)], -1)
        values = torch.cat([v, proxies.values_bhkd.to(v.dtype)], 2)
    return logits.softmax(-1) @ values


def wide(proxies: Proxies | None) -> Proxies | None:
    """Return proxies in float64."""
    if proxies is None:
        return None
    more = proxies.variances_bhkd
    return Proxies(proxies.keys_bhkd.double(), proxies.values_bhkd.double(), proxies.sizes_k,
                   None if more is None else more.double())  # fmt: skip


def check(q: Tensor, k: Tensor, v: Tensor, selection: Selection, proxies: Proxies | None = None,
          scale: float | None = None) -> None:  # fmt: skip
    """Compute and fail unless the output is as near to the truth as torch in the same dtype."""
    from attention.triton_blocks import attend_triton

    judge(
        attend_triton(q, k, v, selection, proxies, scale=scale), q, k, v, selection, proxies, scale
    )


def judge(out: Tensor, q: Tensor, k: Tensor, v: Tensor, selection: Selection,
          proxies: Proxies | None = None, scale: float | None = None) -> None:  # fmt: skip
    """Fail unless an output is as near to the truth as torch in the same dtype."""
    assert out.shape == q.shape
    assert out.dtype == q.dtype
    exact = attend_reference(q.double(), k.double(), v.double(), selection, wide(proxies),
                             scale=scale)  # fmt: skip
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    torch_off = (in_dtype(q, k, v, selection, proxies, factor).double() - exact).abs().max()
    off = (out.double() - exact).abs().max()
    assert off <= 2 * torch_off + 1e-5, f"off by {off:.3g}, torch in {q.dtype} by {torch_off:.3g}"


def run(dtype: torch.dtype, dim: int, compensate: Compensate) -> None:
    """Check a ragged sequence with a list per head and rows of different length."""
    q, k, v = (tokens(1, 2, 300, dim, dtype) for _ in range(3))
    selection = lists((1, 2), 300, 300, (128, 64), 3)
    check(q, k, v, selection, make_proxies(k, v, 64, compensate))


for _dtype in (torch.float32, torch.float16, torch.bfloat16):
    for _index, _compensate in enumerate(("none", "mean", "mean_var")):
        _shift = (torch.float32, torch.float16, torch.bfloat16).index(_dtype)
        _dim = (32, 64, 128)[(_index + _shift) % 3]
        _name = f"{str(_dtype).removeprefix('torch.')}_{_dim}_{_compensate}"
        CASES[_name] = lambda a=_dtype, b=_dim, c=_compensate: run(a, b, c)


@case
def every_head_dim_in_float32() -> None:
    for dim in (32, 64, 128):
        run(torch.float32, dim, "mean_var")


@case
def more_keys_than_queries_and_two_batches() -> None:
    q = tokens(2, 2, 100, 32, torch.float32)
    k, v = (tokens(2, 2, 333, 32, torch.float32) for _ in range(2))
    check(q, k, v, lists((2, 2), 100, 333, (64, 32), 4), make_proxies(k, v, 32, "mean"))


@case
def lists_shared_by_batch_and_heads() -> None:
    q, k, v = (tokens(2, 3, 100, 32, torch.float32) for _ in range(3))
    proxies = make_proxies(k, v, 32, "mean")
    for shape in ((1, 1), (2, 1), (1, 3)):
        check(q, k, v, lists(shape, 100, 100, (64, 32), 2), proxies)


@case
def one_key_block_in_all() -> None:
    q, k, v = (tokens(1, 1, number, 64, torch.float32) for number in (70, 40, 40))
    check(q, k, v, lists((1, 1), 70, 40, (64, 64), 1), make_proxies(k, v, 64, "mean"))


@case
def one_block_read_of_many() -> None:
    q, k, v = (tokens(1, 2, 200, 64, torch.float32) for _ in range(3))
    for compensate in ("none", "mean"):
        check(q, k, v, lists((1, 2), 200, 200, (128, 64), 1), make_proxies(k, v, 64, compensate))


@case
def only_the_short_last_block() -> None:
    q, k, v = (tokens(1, 1, 70, 32, torch.float32) for _ in range(3))
    blocks = torch.tensor([2]).int().expand(1, 1, 2, 1)
    selection = Selection(blocks, torch.ones(1, 1, 2).int(), 64, 32, 70, 70)
    for compensate in ("none", "mean"):
        check(q, k, v, selection, make_proxies(k, v, 32, compensate))


@case
def reading_everything_is_dense_attention() -> None:
    for number in (256, 300):
        q, k, v = (tokens(1, 1, number, 64, torch.float32) for _ in range(3))
        selection = select_all(number, number, 128, 64)
        check(q, k, v, selection, make_proxies(k, v, 64, "mean"))


@case
def large_logits() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        q, k = (tokens(1, 1, 150, 64, dtype, spread=40) for _ in range(2))
        v = tokens(1, 1, 150, 64, dtype)
        assert (q.float() @ k.float().mT).abs().max() > 1e4
        check(q, k, v, lists((1, 1), 150, 150, (128, 64), 2), make_proxies(k, v, 64, "mean"))


@case
def large_variances_stay_finite_in_float16() -> None:
    q, k = tokens(1, 1, 64, 64, torch.float16, 3e4), tokens(1, 1, 128, 64, torch.float16, 400)
    v = tokens(1, 1, 128, 64, torch.float16)
    from attention.triton_blocks import attend_triton

    selection = lists((1, 1), 64, 128, (64, 64), 1)
    out = attend_triton(q.clamp(-6e4, 6e4), k, v, selection, make_proxies(k, v, 64, "mean_var"))
    assert out.isfinite().all()


@case
def a_scale_of_ones_own() -> None:
    q, k, v = (tokens(1, 1, 100, 32, torch.float32) for _ in range(3))
    for scale in (0.0, 0.7):
        selection = lists((1, 1), 100, 100, (64, 32), 2)
        check(q, k, v, selection, make_proxies(k, v, 32, "mean_var"), scale)


@case
def any_strides() -> None:
    packed = torch.randn(2, 100, 3, 2, 32)
    q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
    selection = lists((2, 2), 100, 100, (64, 32), 2)
    check(q, k, v, selection, make_proxies(k, v, 32, "mean"))
    plain = [x.contiguous() for x in (q, k, v)]
    check(*plain, selection, make_proxies(k, v, 32, "mean"))
    spread = [torch.randn(1, 2, 100, 64)[..., ::2] for _ in range(3)]
    check(*spread, lists((1, 2), 100, 100, (64, 32), 2))


@case
def padded_blocks() -> None:
    sizes = torch.tensor([64, 10, 1, 37, 0]).int()
    q = tokens(1, 1, 128, 32, torch.float32)
    k, v = (tokens(1, 1, 320, 32, torch.float32) for _ in range(2))
    everything = select_all(128, 320, 64, 64)
    check(q, k, v, replace(everything, key_sizes_k=sizes))
    blocks = torch.tensor([[2, 3, 4], [1, 2, -1]]).int().view(1, 1, 2, 3)
    counts = torch.tensor([3, 2]).int().view(1, 1, 2)
    some = Selection(blocks, counts, 64, 64, 128, 320, sizes)
    check(q, k, v, some)
    real = (torch.arange(320) % 64 < sizes.repeat_interleave(64))[:, None]
    number = sizes.clamp(min=1)[:, None]
    keys, values = (block_means(x * real, 64) * 64 / number for x in (k, v))
    check(q, k, v, some, Proxies(keys, values, sizes.long()))


@case
def padded_blocks_and_a_short_end() -> None:
    sizes = torch.tensor([30, 64, 20]).int()
    q, k, v = (tokens(1, 1, number, 32, torch.float32) for number in (64, 160, 160))
    check(q, k, v, replace(select_all(64, 160, 64, 64), key_sizes_k=sizes))


@case
def blocks_of_other_sizes() -> None:
    for blocks, number in (((16, 16), 50), ((48, 128), 200), ((256, 32), 300), ((80, 256), 300)):
        q, k, v = (tokens(1, 1, number, 32, torch.float32) for _ in range(3))
        selection = lists((1, 1), number, number, blocks, 2)
        check(q, k, v, selection, make_proxies(k, v, blocks[1], "mean"))


@case
def more_proxies_than_a_tile_and_a_word_hold() -> None:
    q = tokens(1, 2, 30, 32, torch.float32)
    k, v = (tokens(1, 2, 16 * 70 - 5, 32, torch.float32) for _ in range(2))
    selection = lists((1, 2), 30, 16 * 70 - 5, (16, 16), 6)
    check(q, k, v, selection, make_proxies(k, v, 16, "mean_var"))


@case
def bits_of_the_lists() -> None:
    from attention.triton_blocks import read_words

    for num_blocks, most in ((5, 2), (64, 40), (100, 70)):
        found = lists((2, 2), 40, 16 * num_blocks, (16, 16), most)
        words = read_words(found.blocks_bhqs, num_blocks)
        block = torch.arange(num_blocks)
        bits = (words[..., block // 32] >> (block % 32)) & 1
        assert torch.equal(bits.bool(), found.mask_bhqk())


@case
def through_tensor_descriptors() -> None:
    from attention.triton_blocks import Work, launch
    from attention.triton_configs import CONFIGS

    for dtype in (torch.float32, torch.bfloat16):
        q, k, v = (tokens(1, 2, number, 64, dtype) for number in (150, 200, 200))
        selection = lists((1, 2), 150, 200, (128, 64), 2)
        proxies = make_proxies(k, v, 64, "mean_var")
        assert proxies is not None
        work = Work(q, k, v, selection.blocks_bhqs, selection.counts_bhq, None, 128, 64,
                    proxies.keys_bhkd, proxies.values_bhkd, proxies.variances_bhkd,
                    proxies.sizes_k, 0.125)  # fmt: skip
        out = torch.full_like(q, torch.nan)
        launch(work, CONFIGS[90, 64].tile(128, 64), out)
        judge(out, q, k, v, selection, proxies)


@case
def as_an_operator_of_torch() -> None:
    from attention.triton_blocks import attention_op

    q, k, v = (tokens(1, 1, 64, 32, torch.float32) for _ in range(3))
    found = lists((1, 1), 64, 64, (64, 32), 1)
    arguments = (q, k, v, found.blocks_bhqs, found.counts_bhq, None, 64, 32,
                 None, None, None, None, 0.1)  # fmt: skip
    torch.library.opcheck(attention_op, arguments, test_utils=("test_schema", "test_faketensor"))


@case
def the_self_test_passes_it_and_catches_a_wrong_one() -> None:
    from attention import triton_blocks
    from attention.self_test import CASES as CHECKED
    from attention.self_test import self_test, verdict

    checked = CHECKED["cpu"] + CHECKED["cuda"]
    for dtype, compensate in checked:
        assert not verdict("triton", "cpu", dtype, compensate).problem
    honest, triton_blocks.LOG2_E = triton_blocks.LOG2_E, 1.0
    try:
        for dtype, compensate in checked:
            assert "is off by" in verdict("triton", "cpu", dtype, compensate).problem
        assert "float32 is off by" in self_test("cpu", ["triton"])["triton"].problem
    finally:
        triton_blocks.LOG2_E = honest


@case
def what_it_refuses() -> None:
    from attention.errors import AttentionError
    from attention.triton_blocks import attend_triton

    q, k, v = (tokens(1, 2, 64, 32, torch.float32) for _ in range(3))
    good = select_all(64, 64, 32, 32)
    odd, small = tokens(1, 2, 64, 40, torch.float32), make_proxies(k, v, 16, "mean")
    for words, asked in {
        "float64": lambda: attend_triton(q.double(), k.double(), v.double(), good),
        "head dimensions 32, 64, 128": lambda: attend_triton(odd, odd, odd, good),
        "do not belong together": lambda: attend_triton(q, k[:, :1], v[:, :1], good),
        "do not fit": lambda: attend_triton(q, k, v, select_all(64, 65, 32, 32)),
        "24x32": lambda: attend_triton(q, k, v, select_all(64, 64, 24, 32)),
        "32x48": lambda: attend_triton(q, k, v, select_all(64, 64, 32, 48)),
        "Lists for (1, 3, 2)": lambda: attend_triton(q, k, v, lists((1, 3), 64, 64, (32, 32), 1)),
        "Proxies (1, 2, 4, 32)": lambda: attend_triton(q, k, v, good, small),
        "scale=-1": lambda: attend_triton(q, k, v, good, scale=-1.0),
    }.items():
        try:
            asked()
        except AttentionError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error: {words}")


def scores(layout: Layout, pattern: TopK, dtype: torch.dtype = torch.float32) -> None:
    """Compare the router's scores with those of plain torch."""
    from attention.router import block_scores
    from attention.triton_router import block_scores_triton, can_score

    assert can_score(layout, pattern, 32)
    q, k = (tokens(2, 2, layout.tokens, 32, dtype, spread=2) for _ in range(2))
    wanted = block_scores(q, k, layout, pattern)
    found = block_scores_triton(q, k, layout, pattern)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-5), (found - wanted).abs().max()


@case
def router_scores() -> None:
    from attention.grid import Grid

    for score in ("subblock", "mass"):
        for grid, blocks in (
            ((3, 7, 11), (128, 64)),
            ((2, 8, 16), (64, 64)),
            ((1, 5, 9), (16, 32)),
        ):
            scores(Layout(Grid(*grid), *blocks), TopK(score=score))
        scores(Layout(Grid(1, 9, 11), 64, 32), TopK(score=score, sub_block=8), torch.float16)


@case
def layouts_the_router_leaves_to_torch() -> None:
    from attention.grid import Grid
    from attention.triton_router import can_score

    grid = Grid(2, 8, 8)
    assert not can_score(Layout(grid, 96, 64), TopK(), 64)
    assert not can_score(Layout(grid), TopK(score="mean"), 64)
    assert not can_score(Layout(grid), TopK(), 40)


def main() -> None:
    """Run the cases named, or all; print one line of JSON for each."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)  # fills every torch.empty with NaN, too
    torch.utils.deterministic.fill_uninitialized_memory = True
    for name in sys.argv[1:] or CASES:
        torch.manual_seed(1)
        began, problem = time.process_time(), ""
        try:
            CASES[name]()
        except Exception:  # noqa: BLE001 - the test that shows it is in another process
            problem = traceback.format_exc()
        seconds = round(time.process_time() - began, 2)
        print(json.dumps({"name": name, "problem": problem, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
