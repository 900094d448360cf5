"""Decoding: bit-equal to diffusers watched and stopped at every latent frame."""

import gc
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKLWan

from tests.engine.cases import Case, make_plan
from tests.test_memory import LiveBytes
from vidgen.decode import decode_groups, group_count
from vidgen.engine import Engine
from vidgen.errors import Cancelled
from vidgen.events import CancelToken, Progress
from vidgen.families import FAMILIES, Family, family
from vidgen.latents import SavedLatents
from vidgen.tiny import tiny_components, tiny_model

TOY = Case(family("toyworld"), "t2v")
# Latent sizes by tiles. With tiles of 64 pixels that begin every 48, a tile is 8 cells and the next
# one begins 6 cells on where a cell is 8 pixels, 4 and 3 where it is 16. The last two are ragged:
# their edge tiles are narrower than what they blend.
TILE, STRIDE = 64, 48
SIZES = {
    8: {(8, 8): 1, (6, 9): 2, (7, 9): 4, (9, 13): 6},
    16: {(4, 4): 1, (3, 5): 2, (4, 5): 4, (5, 7): 6},
}
CASES = [(row, size, tiles) for row in FAMILIES for size, tiles in SIZES[row.vae_spatial].items()]


def small_tiles(vae: Any) -> Any:
    vae.tile_sample_min_height = vae.tile_sample_min_width = TILE
    vae.tile_sample_stride_height = vae.tile_sample_stride_width = STRIDE
    return vae


@pytest.fixture(scope="module")
def vaes() -> dict[str, Any]:
    return {}


def vae_of(row: Family, vaes: dict[str, Any]) -> Any:
    if row.name not in vaes:
        torch.manual_seed(0)
        vae = AutoencoderKLWan(**tiny_model(row).configs.vae).eval()
        vaes[row.name] = small_tiles(vae)
    return vaes[row.name]


def latents_of(vae: Any, frames: int, rows: int, columns: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rows * 100 + columns)
    return torch.randn(vae.config.z_dim, frames, rows, columns, generator=generator)


def stock(vae: Any, latents: torch.Tensor, *, tiled: bool) -> Any:
    """Frames as diffusers decodes and post-processes them."""
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape).to(latents)
    std = 1.0 / torch.tensor(vae.config.latents_std).view(shape).to(latents)
    vae.use_tiling = tiled
    try:
        with torch.no_grad():
            decoded = vae.decode(latents.unsqueeze(0) / std + mean, return_dict=False)[0]
    finally:
        vae.use_tiling = False
    return (decoded * 0.5 + 0.5).clamp(0, 1)[0].permute(1, 2, 3, 0).float().numpy()


def ours(vae: Any, latents: torch.Tensor, *, tiled: bool = True) -> list[Any]:
    return list(decode_groups(vae, latents, tiled=tiled, cancel=CancelToken()))


def is_clear(vae: Any) -> bool:
    maps = [*vae._feat_map, *vae._enc_feat_map]
    return all(entry is None for entry in maps) and not vae.use_tiling


@pytest.mark.parametrize(
    ("row", "size", "tiles"), CASES, ids=[f"{c[0].name}-{c[1][0]}x{c[1][1]}" for c in CASES]
)
def test_tiles_equal_diffusers(
    row: Family, size: tuple[int, int], tiles: int, vaes: dict[str, Any]
) -> None:
    vae = vae_of(row, vaes)
    latents = latents_of(vae, 2, *size)
    groups = ours(vae, latents)
    assert len(groups) == group_count(vae, latents, tiled=True) == 2 * tiles
    wanted = stock(vae, latents, tiled=True)
    assert np.array_equal(np.concatenate(groups), wanted)
    if tiles > 1:
        assert [len(group) for group in groups] == [*[0] * (2 * tiles - 1), 5]
        assert not np.array_equal(wanted, stock(vae, latents, tiled=False))
    assert is_clear(vae)


@pytest.mark.parametrize("frames", [1, 3])
def test_tiles_of_one_and_of_more_frames(frames: int, vaes: dict[str, Any]) -> None:
    vae = vae_of(TOY.family, vaes)
    latents = latents_of(vae, frames, 9, 7)
    groups = ours(vae, latents)
    assert len(groups) == 4 * frames
    assert np.array_equal(groups[-1], stock(vae, latents, tiled=True))


def test_tiles_in_half_precision_equal_diffusers() -> None:
    vae = small_tiles(tiny_components(TOY.family).vae).to(torch.bfloat16)
    latents = latents_of(vae, 2, 9, 7).to(torch.bfloat16)
    assert np.array_equal(ours(vae, latents)[-1], stock(vae, latents, tiled=True))


@pytest.mark.parametrize("name", ["wan2.1-t2v", "wan2.2-ti2v"])
def test_tiles_need_no_more_memory_than_diffusers(name: str, vaes: dict[str, Any]) -> None:
    vae = vae_of(family(name), vaes)
    cells = 96 // vae.spatial_compression_ratio
    latents = latents_of(vae, 3, cells, cells)
    peaks = []
    for decode in (ours, stock):
        gc.collect()
        with LiveBytes() as live:
            decode(vae, latents, tiled=True)
        peaks.append(live.peak)
    assert peaks[0] < peaks[1]


@pytest.fixture
def engine() -> Engine:
    engine = Engine(tiny_model(TOY.family), tiny_components(TOY.family))
    small_tiles(engine.components.vae)
    return engine


@pytest.fixture
def saved(engine: Engine) -> SavedLatents:
    """Latents of two tiles by two."""
    clip = engine.run(make_plan(TOY, width=64, height=80, num_inference_steps=1))
    return SavedLatents(latents_of(engine.components.vae, 3, 10, 8), clip.recipe)


def test_progress_counts_every_latent_frame_of_every_tile(
    engine: Engine, saved: SavedLatents
) -> None:
    events: list[Any] = []
    clip = engine.decode(saved, tiling="tiles", on=events.append)
    steps = [(e.done, e.total) for e in events if isinstance(e, Progress)]
    assert steps == [(done, 12) for done in range(1, 13)]
    assert clip.trace.vae_tiled
    assert clip.frames is not None
    assert clip.frames.shape == (9, 80, 64, 3)


@pytest.mark.parametrize("step", [1, 3, 11])
def test_a_cancel_in_tiles_acts_at_the_next_latent_frame(
    step: int, engine: Engine, saved: SavedLatents
) -> None:
    vae, token = engine.components.vae, CancelToken()
    before = {name: value.clone() for name, value in vae.state_dict().items()}
    seen: list[int] = []
    opened: list[Any] = []

    def stop(event: Any) -> None:
        seen.append(event.done)
        if event.done == step:
            token.cancel()

    words = rf"decoding tile {step // 3 + 1} of 4, latent frame {step % 3 + 1} of 3"
    with pytest.raises(Cancelled, match=words):
        engine.decode(
            saved, tiling="tiles", on=stop, cancel=token,
            open_sink=lambda recipe: opened.append(recipe) or None,  # type: ignore[return-value]
        )  # fmt: skip
    assert seen == list(range(1, step + 1))
    assert not opened
    assert is_clear(vae)
    after = vae.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = engine.decode(saved, tiling="tiles").frames
    assert again is not None
    assert np.array_equal(again, stock(vae, saved.latents, tiled=True))
