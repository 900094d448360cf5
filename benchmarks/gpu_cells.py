"""What the GPU benchmark runs: shapes, masks, the arms that compute them, and their true answers.

Needs torch, and triton for our own arms; neither Vidgen nor diffusers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from attention.errors import AttentionError
from attention.executors import executor
from attention.grid import Grid
from attention.layout import Layout, block_centres, block_sizes
from attention.patterns import Compensate, kept_blocks
from attention.proxies import Proxies, make_proxies
from attention.selection import Selection, select_all, select_highest

# b batch  h heads  n query tokens  m key tokens  q query blocks  k key blocks  r sampled rows
# d head dim

HEAD_DIM = 128
DENSITIES = (0.125, 0.25, 0.10, 0.0625)  # in the order in which they are measured
MASKS = ("random", "local")
LOCAL_SHARE = 0.7  # of a local mask's blocks; the others are drawn at random
SAMPLED_ROWS, SAMPLED_HEADS = 256, 2

Call = Callable[[], Tensor]


@dataclass(frozen=True, slots=True)
class Shape:
    """One attention problem of batch 1 in bfloat16.

    grid   of latent tokens; None where only the number is known
    about  which model and clip it belongs to
    """

    name: str
    heads: int
    tokens: int
    grid: Grid | None
    about: str


SHAPES = (
    Shape("A", 12, 32_760, Grid(21, 30, 52), "Wan 1.3B, 81 frames of 832x480"),
    Shape("B", 40, 75_600, Grid(21, 45, 80), "Wan 14B, 81 frames of 1280x720"),
    Shape("C", 7, 109_632, None, "seven heads of a long clip, a shape that peers publish"),
    Shape("D", 12, 14_040, Grid(9, 30, 52), "Wan 1.3B, 33 frames of 832x480"),
    Shape("E", 40, 32_760, Grid(21, 30, 52), "Wan 14B, 81 frames of 832x480"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of arms that are measured against each other.

    density  share of key blocks read; 1 is dense
    """

    shape: Shape
    density: float
    mask: str

    @property
    def name(self) -> str:
        """Shape, density and mask in a word."""
        return f"{self.shape.name}-{self.density:g}-{self.mask}"


def cells(shapes: tuple[Shape, ...]) -> list[Cell]:
    """Return all cells: of each shape the dense one first, then what matters most."""
    found = [Cell(shape, 1.0, "dense") for shape in shapes]
    for density in DENSITIES:
        for mask in MASKS:
            found += [
                Cell(shape, density, mask)
                for shape in shapes
                if mask == "random" or shape.grid is not None
            ]
    return found


def inputs(shape: Shape, device: str, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return q, k, v [1, h, n, d] as transformers hold them: heads inside tokens in memory."""
    draw = torch.Generator(device).manual_seed(seed)
    size = (1, shape.tokens, shape.heads, HEAD_DIM)
    q, k, v = (torch.randn(size, generator=draw, device=device, dtype=torch.bfloat16)
               for _ in range(3))  # fmt: skip
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def smooth_inputs(shape: Shape, device: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return q, k whose neighbours are alike, as in a clip: smooth fields plus noise."""
    assert shape.grid is not None
    draw = torch.Generator(device).manual_seed(seed)
    grid = shape.grid
    found = []
    for _ in range(2):
        coarse = torch.randn((1, shape.heads * HEAD_DIM, 4, 6, 8), generator=draw, device=device)
        size = (grid.frames, grid.rows, grid.columns)
        field = torch.nn.functional.interpolate(coarse, size=size, mode="trilinear").flatten(2)
        field = torch.unflatten(field, 1, (shape.heads, HEAD_DIM)).permute(0, 3, 1, 2)
        noise = torch.randn(field.shape, generator=draw, device=device)
        found.append((1.5 * field + 0.5 * noise).to(torch.bfloat16).contiguous().transpose(1, 2))
    return found[0], found[1]


def lists(cell: Cell, blocks: tuple[int, int], device: str, seed: int = 0) -> Selection:
    """Return the lists of a cell for blocks of so many queries and keys, one list per head.

    Random masks draw their blocks; local ones take LOCAL_SHARE of them by distance. The share of
    tokens read is the same whatever the blocks.
    """
    shape = cell.shape
    if cell.density == 1:
        everything = select_all(shape.tokens, shape.tokens, *blocks)
        return Selection(everything.blocks_bhqs.to(device), everything.counts_bhq.to(device),
                         *blocks, shape.tokens, shape.tokens)  # fmt: skip
    rows, columns = (math.ceil(shape.tokens / block) for block in blocks)
    kept = kept_blocks(cell.density, columns)
    draw = torch.Generator(device).manual_seed(seed)
    scores = torch.rand((1, shape.heads, rows, columns), generator=draw, device=device)
    if cell.mask == "local":
        assert shape.grid is not None
        layout = Layout(shape.grid, *blocks)
        queries_q3, keys_k3 = (block_centres(layout, block) for block in blocks)
        distance = torch.cdist(queries_q3, keys_k3).to(device)
        near = distance.argsort(dim=-1).argsort(dim=-1) < round(LOCAL_SHARE * kept)
        scores = torch.where(near, 2.0, scores)
    counts = torch.full((1, 1, 1), kept, dtype=torch.int32, device=device)
    found, counts = select_highest(scores, counts, kept)
    return Selection(found, counts, *blocks, shape.tokens, shape.tokens)


def useful_flops(cell: Cell, selection: Selection) -> float:
    """Return the operations on real pairs that a mask asks for, proxies not counted."""
    shape = cell.shape
    pairs = float(selection.pairs_bh().expand(1, shape.heads).sum())
    return 4 * HEAD_DIM * pairs


def executed_flops(cell: Cell, selection: Selection, proxies: bool) -> float:
    """Return the operations of whole tiles, and of proxies."""
    shape = cell.shape
    tiles = float(selection.counts_bhq.expand(1, shape.heads, -1).double().sum())
    pairs = tiles * selection.query_block * selection.key_block
    if proxies:
        pairs += shape.heads * shape.tokens * selection.key_blocks
    return 4 * HEAD_DIM * pairs


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to compute a cell.

    call        computes it once
    flops       executed, padding and proxies included
    useful      asked for
    selection, proxies   what it computes, None for dense attention
    """

    name: str
    call: Call
    flops: float
    useful: float
    selection: Selection | None = None
    proxies: Proxies | None = None


def dense_arms(cell: Cell, q: Tensor, k: Tensor, v: Tensor) -> list[Arm]:
    """Return torch's own dense attention by its two fast kernels."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    flops = 4.0 * HEAD_DIM * cell.shape.heads * cell.shape.tokens**2

    def call(backend: SDPBackend) -> Call:
        def run() -> Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v)

        return run

    backends = {"SDPA cuDNN": SDPBackend.CUDNN_ATTENTION, "SDPA flash": SDPBackend.FLASH_ATTENTION}
    return [Arm(name, call(backend), flops, flops) for name, backend in backends.items()]


def our_arms(
    cell: Cell, q: Tensor, k: Tensor, v: Tensor, layouts: tuple[tuple[int, int], ...]
) -> list[Arm]:
    """Return our kernel in several block sizes, without and with proxies."""
    attend = executor("triton")
    found = []
    for blocks in layouts:
        selection = lists(cell, blocks, str(q.device))
        kinds: tuple[Compensate, ...] = ("none",) if cell.density == 1 else ("none", "mean")
        for kind in kinds:
            proxies = make_proxies(k, v, blocks[1], kind)

            def call(selection: Selection = selection, proxies: Proxies | None = proxies) -> Tensor:
                return attend(q, k, v, selection, proxies)

            found.append(
                Arm(f"ours {blocks[0]}x{blocks[1]} {kind}", call,
                    executed_flops(cell, selection, kind != "none"),
                    useful_flops(cell, selection), selection, proxies)
            )  # fmt: skip
    return found


def peer_arms(cell: Cell, q: Tensor, k: Tensor, v: Tensor) -> tuple[list[Arm], dict[str, str]]:
    """Return others' kernels that are installed, and why the others are left out."""
    found, missing = [], {}
    for name, make in {"flex": _flex_arm, "FastVideo Triton": _fastvideo_arm}.items():
        try:
            found.append(make(name, cell, q, k, v))
        except (ImportError, AttentionError) as error:
            missing[name] = f"{type(error).__name__}: {error}"
    return found, missing


def _flex_arm(name: str, cell: Cell, q: Tensor, k: Tensor, v: Tensor) -> Arm:
    attend = executor("flex")
    selection = lists(cell, (128, 64), str(q.device))
    return Arm(name, lambda: attend(q, k, v, selection), executed_flops(cell, selection, False),
               useful_flops(cell, selection), selection)  # fmt: skip


def _fastvideo_arm(name: str, cell: Cell, q: Tensor, k: Tensor, v: Tensor) -> Arm:
    module = import_module("fastvideo_kernel.triton_kernels.block_sparse_attn_triton")
    selection = lists(cell, (64, 64), str(q.device))
    heads, number = cell.shape.heads, cell.shape.tokens
    missing = -number % 64
    padded = [torch.nn.functional.pad(x, (0, 0, 0, missing)).contiguous() for x in (q, k, v)]
    index = selection.blocks_bhqs.expand(1, heads, -1, -1).contiguous()
    counts = selection.counts_bhq.expand(1, heads, -1).contiguous()
    sizes = block_sizes(number, 64).to(q.device, torch.int32)

    def call() -> Tensor:
        out: Tensor = module.triton_block_sparse_attn_forward(*padded, index, counts, sizes)[0]
        return out[:, :, :number]

    return Arm(name, call, executed_flops(cell, selection, False), useful_flops(cell, selection),
               selection)  # fmt: skip


def allowed(torch_off: float) -> float:
    """Return the error that a kernel may have, from that of plain torch in the same dtype."""
    return 2 * torch_off + 1e-5


def sampled_error(arm: Arm, out: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[float, float]:
    """Return an output's largest error on sampled rows, and that of torch in the same dtype.

    Truth is a softmax in float32 over the expanded mask.
    """
    draw = torch.Generator().manual_seed(1)
    heads = torch.randperm(q.shape[1], generator=draw)[:SAMPLED_HEADS]
    rows_r = torch.randperm(q.shape[2], generator=draw)[:SAMPLED_ROWS].to(q.device)
    worst, torch_worst = 0.0, 0.0
    for head in heads.tolist():
        exact = sampled_rows(arm, q, k, v, rows_r, head, torch.float32)
        rounded = sampled_rows(arm, q, k, v, rows_r, head, q.dtype).float()
        found = out[0, head, rows_r].float()
        worst = max(worst, float((found - exact).abs().nan_to_num(torch.inf).max()))
        torch_worst = max(torch_worst, float((rounded - exact).abs().max()))
    return worst, torch_worst


def sampled_rows(
    arm: Arm, q: Tensor, k: Tensor, v: Tensor, rows_r: Tensor, head: int, dtype: torch.dtype
) -> Tensor:
    """Return some rows of a head's attention, computed in a dtype: [r, d]."""
    q_rd, k_md, v_md = q[0, head, rows_r].to(dtype), k[0, head].to(dtype), v[0, head].to(dtype)
    scale = q.shape[-1] ** -0.5
    logits = q_rd @ k_md.T * scale
    if arm.selection is not None:
        chosen = arm.selection
        mask = chosen.mask_bhqk()
        read_rk = mask[0, head % mask.shape[1], rows_r // chosen.query_block]
        place = torch.arange(k.shape[2], device=k.device) // chosen.key_block
        logits = logits.masked_fill(~read_rk[:, place], -torch.inf)
        if arm.proxies is not None:
            keys = arm.proxies.keys_bhkd[0, head].to(dtype)
            stand_in = q_rd @ keys.T * scale + arm.proxies.sizes_k.log().to(dtype)
            logits = torch.cat([logits, stand_in.masked_fill(read_rk, -torch.inf)], dim=-1)
            v_md = torch.cat([v_md, arm.proxies.values_bhkd[0, head].to(dtype)])
    out_rd: Tensor = logits.softmax(dim=-1) @ v_md
    return out_rd
