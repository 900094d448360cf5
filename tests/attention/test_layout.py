"""Layout: blocks without padding, and which of them come first whatever the scores say."""

import pytest
import torch

from attention import AttentionError, Grid, Layout, layout_order
from attention.layout import (
    NEAR,
    OWN,
    SINK,
    TEXT,
    block_centres,
    block_sizes,
    priorities,
    text_rows,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query_block": 0}, "query_block=0 is not a whole number from 1 on"),
        ({"sink_frames": 4}, r"sink_frames=4 is outside 0\.\.3"),
        ({"sink_frames": -1}, "sink_frames=-1"),
    ],
)
def test_impossible_layouts_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        Layout(Grid(3, 4, 5), **fields)


def test_only_the_last_block_is_short() -> None:
    assert block_sizes(130, 64).tolist() == [64, 64, 2]
    assert block_sizes(128, 64).tolist() == [64, 64]
    layout = Layout(Grid(21, 30, 52))
    assert (layout.tokens, layout.query_blocks, layout.key_blocks) == (32_760, 256, 512)


def test_own_near_sink_and_text_blocks() -> None:
    layout = Layout(Grid(8, 4, 8), query_block=32, key_block=16, sink_frames=1, text_tokens=8)
    found = priorities(layout, neighbours=1)  # 264 tokens: 9 query blocks, 17 key blocks
    assert found[4].tolist() == [SINK, SINK, 0, 0, 0, 0, 0, NEAR, OWN, OWN, NEAR, *[0] * 5, TEXT]
    assert found[0].tolist() == [OWN, OWN, NEAR, *[0] * 13, TEXT]
    assert found[8].tolist() == [SINK, SINK, *[0] * 13, NEAR, OWN]
    assert priorities(layout, neighbours=0)[4].tolist().count(NEAR) == 0


def test_own_blocks_where_keys_are_cut_coarser_than_queries() -> None:
    layout = Layout(Grid(1, 8, 8), query_block=16, key_block=32)
    own = priorities(layout, neighbours=0) == OWN
    assert own.tolist() == [[True, False]] * 2 + [[False, True]] * 2


def test_text_rows_are_those_that_hold_text() -> None:
    layout = Layout(Grid(1, 5, 8), query_block=16, key_block=16, text_tokens=8)
    assert text_rows(layout).tolist() == [False, False, True]
    assert not text_rows(Layout(Grid(1, 5, 8), 16, 16)).any()


@pytest.mark.parametrize("sink_frames", [1, 2])
def test_sink_frames_lie_in_few_blocks(sink_frames: int) -> None:
    grid = Grid(21, 30, 52)
    layout = Layout(grid, sink_frames=sink_frames)
    sink_tokens = sink_frames * 30 * 52
    holding = (layout_order(layout) < sink_tokens).split(64)
    assert sum(bool(part.any()) for part in holding) == -(-sink_tokens // 64)
    marked = priorities(layout, neighbours=0)[-1] == SINK
    assert int(marked.sum()) == -(-sink_tokens // 64)


def test_text_stays_at_the_end() -> None:
    layout = Layout(Grid(2, 3, 4), text_tokens=5)
    assert layout_order(layout)[-5:].tolist() == [24, 25, 26, 27, 28]


def test_block_centres_are_the_means_of_places() -> None:
    layout = Layout(Grid(2, 2, 4), order="raster")
    assert block_centres(layout, 8).tolist() == [[0, 0.5, 1.5], [1, 0.5, 1.5]]
    assert torch.equal(block_centres(layout, 12)[1], torch.tensor([1.0, 1.0, 1.5]))
