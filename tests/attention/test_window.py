"""The window where it has a choice in time and in space: a clip of several slabs of frames."""

import torch

from attention import Grid, Layout, Window
from attention.layout import OWN, block_centres, priorities
from attention.router import window

LAYOUT = Layout(Grid(12, 4, 8), query_block=32, key_block=16)  # 3 slabs: 12 x 24 blocks


def reads(frame_cells: float) -> torch.Tensor:
    """Return which key blocks each query block reads: bool [q, k]."""
    return window(LAYOUT, Window(density=0.25, frame_cells=frame_cells)).mask_bhqk()[0, 0]


def test_a_dear_frame_keeps_the_window_in_its_slab_and_a_cheap_one_lets_it_out() -> None:
    frame_q, frame_k = (block_centres(LAYOUT, block)[:, 0] for block in (32, 16))
    other_slab_qk = (frame_q[:, None] - frame_k).abs() > 2
    assert not (reads(100.0) & other_slab_qk).any()
    assert (reads(0.01) & other_slab_qk).sum() > 12


def test_the_nearest_are_read_after_the_own_ones() -> None:
    for frame_cells in (0.3, 2.0):
        stretch = torch.tensor([frame_cells, 1.0, 1.0])
        centres = [block_centres(LAYOUT, block) * stretch for block in (32, 16)]
        away_qk = (centres[0][:, None] - centres[1]).norm(dim=2)
        away_qk[priorities(LAYOUT, 0) == OWN] = -1
        read_qk = reads(frame_cells)
        assert (read_qk.sum(dim=1) == 6).all()
        farthest = away_qk.masked_fill(~read_qk, -1).amax(dim=1)
        assert (farthest <= away_qk.sort(dim=1).values[:, 5] + 1e-5).all()
