"""The arms of the sparsity benchmark: one way of making attention sparse each, by name.

What the product can be asked for is planned from a request, as a user's would be; the rest changes
such a plan.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attention import Dense, Grid, TopK, Vsa
from attention.trained.tiles import Tile
from vidgen.attention_plan import AttentionPlan
from vidgen.attention_share import attention_share
from vidgen.device import this_cpu
from vidgen.errors import BadRequest
from vidgen.plan import Plan, plan
from vidgen.request import parse_request

Shape = tuple[int, int, int]  # frames, height, width in pixels

DENSITIES = (0.5, 0.25, 0.125, 0.0625)
BASE = "topk 0.125"
FEWER = "fewer dense steps"
NUM_STEPS = 20
BLOCKS = ((48, 16), (64, 32))
# The published cube, and one that is to toyworld's clips what that is to clips of full size.
TILES: tuple[Tile, ...] = ((4, 4, 4), (4, 2, 2))


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of making attention sparse, and what it changes in the base, for people.

    tile       cubes of tokens attended as VSA does, where that is the arm; see TileSession
    num_steps  denoising steps of a whole clip
    """

    name: str
    plan: AttentionPlan
    differs: str
    tile: Tile | None = None
    num_steps: int = NUM_STEPS


def planned(shape: Shape, num_steps: int = NUM_STEPS, **fields: Any) -> Plan:
    """Return what vidgen decides about a clip of toyworld that is asked for with these fields."""
    frames, height, width = shape
    asked = {
        "prompt": "a red ball", "width": width, "height": height, "num_frames": frames,
        "num_inference_steps": num_steps, "seed": 0, "preview": "off",
    }  # fmt: skip
    return plan(parse_request({**asked, **fields}), this_cpu())


def arms_of(shape: Shape, backend: str) -> list[Arm]:
    """Return every arm for clips of a shape."""
    own: dict[str, Any] = {"attention": "topk", "attention_backend": backend}
    base = planned(shape, **own)
    return [
        _floor_arm(base.attention),
        *_density_arms(shape, own),
        *_asked_arms(shape, own, base.attention),
        *_changed_arms(base.attention),
        *(_tile_arm(base, tile) for tile in TILES),
        _fewer_steps_arm(base),
    ]


def _floor_arm(base: AttentionPlan) -> Arm:
    """Every key through the sparse executor: what rounding alone does."""
    whole = TopK(1.0, compensate="none", sub_block=_topk(base).sub_block)
    changed = dataclasses.replace(base, pattern=whole, dense_above=1.0, dense_layers=())
    return Arm("dense, permuted", changed, "every key, in the sparse executor")


def _density_arms(shape: Shape, own: Mapping[str, Any]) -> list[Arm]:
    return [
        Arm(
            f"topk {density:g}",
            planned(shape, **own, density=density).attention,
            f"density {density:g}",
        )
        for density in DENSITIES
    ]


def _asked_arms(shape: Shape, own: Mapping[str, Any], base: AttentionPlan) -> list[Arm]:
    """Each choice that a request can change, changed alone."""
    fields: dict[str, tuple[dict[str, Any], str]] = {
        f"compensate {kind}": ({"compensate": kind}, "what stands for blocks left out")
        for kind in ("none", "mean", "mean_var")
    }
    fields |= {
        "top_p 0.9": ({"top_p": 0.9}, "blocks until 90 % of the estimated mass"),
        "own budgets": ({"budgets": "own"}, "densities per head, measured on other prompts"),
        "no guard": ({"dense_steps": 0}, "no dense steps"),
        "no dense layer": ({"dense_layers": "none"}, "no dense layer"),
        "sink frame": ({"sink_frames": 1}, "first frame always read"),
        "window": ({"attention": "window"}, "nearest blocks, whatever they hold"),
    }
    fields |= {
        f"blocks {query}x{key}": (
            {"query_block": query, "key_block": key},
            "size of blocks, and budgets where they are of other blocks",
        )
        for query, key in BLOCKS
    }
    made = []
    for name, (changed, differs) in fields.items():
        try:
            made.append(Arm(name, planned(shape, **{**own, **changed}).attention, differs))
        except BadRequest as error:
            if error.field != "budgets":  # of shapes that none were measured for
                raise
    return [arm for arm in made if arm.plan != base]


def _changed_arms(base: AttentionPlan) -> list[Arm]:
    """Each choice that no request can change, changed alone."""
    pattern = _topk(base)
    patterns: Mapping[str, TopK] = {
        "mean scores": dataclasses.replace(pattern, score="mean"),
        "mass scores": dataclasses.replace(pattern, score="mass"),
        "subblock scores": dataclasses.replace(pattern, score="subblock"),
        "no neighbours": dataclasses.replace(pattern, neighbours=0),
    }
    arms = [
        Arm(name, dataclasses.replace(base, pattern=changed), name)
        for name, changed in patterns.items()
        if changed != pattern
    ]
    return [*arms, Arm("raster", dataclasses.replace(base, order="raster"), "token order")]


def _tile_arm(base: Plan, tile: Tile) -> Arm:
    """Return VSA's selection with as many products, padding counted, as the base computes."""
    tiles, block = num_tiles(base.grid, tile), math.prod(tile)
    everywhere = dataclasses.replace(base.attention, dense_above=1.0, dense_layers=())
    share = attention_share(everywhere, base.model, base.grid, (0, 1), base.flow_shift)
    kept = max(1, min(tiles, round(share * base.grid.tokens**2 / (tiles * block**2))))
    changed = dataclasses.replace(base.attention, pattern=Vsa(1 - (kept - 0.5) / tiles))
    name = f"vsa tiles {'x'.join(map(str, tile))}"
    differs = (
        "VSA's selection without VSA's training and gate: padded cubes, mean scores, the best "
        f"{kept} of {tiles}, nothing for those left out; the base's dense steps and layers"
    )
    return Arm(name, changed, differs, tile)


def num_tiles(grid: Grid, tile: Tile) -> int:
    """Return how many cubes a grid is cut into; those at the far edges may be smaller."""
    sides = zip((grid.frames, grid.rows, grid.columns), tile, strict=True)
    return math.prod(-(-length // side) for length, side in sides)


def _fewer_steps_arm(base: Plan) -> Arm:
    """Return dense attention with as many steps as the base's work allows."""
    dense = dataclasses.replace(base.attention, pattern=Dense(), dense_above=1.0, dense_layers=())
    steps = round(NUM_STEPS * base_over_dense(base))
    return Arm(FEWER, dense, f"dense, {steps} steps instead of {NUM_STEPS}", num_steps=steps)


def base_over_dense(base: Plan) -> float:
    """Return a sparse plan's work in denoising over that of the same steps dense, by the model."""
    share = attention_share(base.attention, base.model, base.grid, (0, base.steps), base.flow_shift)
    sparse = denoise_flops(base)
    return sparse / (sparse + base.estimate.flops["attention"] * (1 / share - 1))


def denoise_flops(made: Plan) -> float:
    """Return a plan's work in the transformer, all forwards together, by the model."""
    return sum(made.estimate.flops[part] for part in ("attention", "linear", "cross_attention"))


def _topk(base: AttentionPlan) -> TopK:
    assert isinstance(base.pattern, TopK)
    return base.pattern
