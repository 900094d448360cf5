"""The latents cache: shards of rendered clips already encoded, so that training pays no rendering.

A shard is three files: `NNN.npy`, float16 [clips, z, f + 1, r, c]; `NNN.scenes.npy`, the clips'
scenes as indices in `all_scenes()`; `NNN.cover.npy`, how far the object covers each latent pixel.
The extra last latent frame is the clip's last picture held still: what an engine pins when it is
given a last image.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.train.latents import Basis, fit_basis
from benchmarks.train.world import (
    Scene,
    all_scenes,
    cover,
    draw_path,
    draw_scene,
    render,
    training_scenes,
)

Shape = tuple[int, int, int]  # frames, height, width

SHARD_CLIPS = 1000
SHIPPED_BASIS = Path(__file__).with_name("basis.safetensors")


@dataclass(frozen=True, slots=True)
class Shard:
    """Some clips of one shape, memory-mapped."""

    latents_nzfrc: NDArray[np.float16]
    scenes_n: NDArray[np.int32]
    cover_nfrc: NDArray[np.float16]


def shape_folder(work: Path, shape: Shape) -> Path:
    """Where the shards of one clip shape (frames, height, width) lie."""
    return work / "latents" / "x".join(str(side) for side in shape)


def load_basis(work: Path) -> Basis:
    """The run's basis: the one in the work folder, else the one the shipped weights were made with.

    Only where neither exists is a new one computed; weights of another basis cannot be resumed.
    """
    path = work / "basis.safetensors"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        if SHIPPED_BASIS.exists():
            shutil.copyfile(SHIPPED_BASIS, partial)
        else:
            fit_basis().save(partial)
        partial.replace(path)
    return Basis.load(path)


def write_shard(work: Path, shape: Shape, number: int, num_clips: int = SHARD_CLIPS) -> Path:
    """Render and encode one shard; the number is its seed. Does nothing if it exists."""
    folder = shape_folder(work, shape)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:03d}.npy"
    if path.exists():
        return path
    basis = load_basis(work)
    scale = torch.from_numpy(basis.scale_z).view(1, -1, 1, 1, 1)
    rng = np.random.default_rng([number, *shape])
    index = {scene: i for i, scene in enumerate(all_scenes())}
    scenes = training_scenes()
    latents, ids = [], []
    for _ in range(num_clips):
        scene = draw_scene(rng, scenes)
        pixels = torch.from_numpy(render(scene, draw_path(rng, scene, shape), shape))[None] * 2 - 1
        held = basis.encode(pixels[:, -1:].expand(-1, 5, -1, -1, -1))[:, :, 1:]
        both = torch.cat([basis.encode(pixels), held], dim=2) * scale
        latents.append(both[0].half().numpy())
        ids.append(index[scene])
    np.save(folder / f"{number:03d}.scenes.npy", np.array(ids, np.int32))
    partial = folder / f"{number:03d}.part"
    with partial.open("wb") as file:
        np.save(file, np.stack(latents))
    partial.replace(path)
    return path


def write_cover(path: Path, shape: Shape) -> NDArray[np.float16]:
    """Write a shard's covers by drawing its scenes and paths once more, without pixels."""
    rng = np.random.default_rng([int(path.stem), *shape])
    scenes = training_scenes()
    covers = []
    for _ in range(len(np.load(path, mmap_mode="r"))):
        scene = draw_scene(rng, scenes)
        covers.append(cover(scene, draw_path(rng, scene, shape), shape))
    result = np.stack(covers).astype(np.float16)
    np.save(path.with_suffix(".cover.npy"), result)
    return result


def open_shards(work: Path, shape: Shape) -> list[Shard]:
    """All finished shards of a shape."""
    return [
        Shard(
            np.load(path, mmap_mode="r"),
            np.load(path.with_suffix(".scenes.npy")),
            np.load(side)
            if (side := path.with_suffix(".cover.npy")).exists()
            else write_cover(path, shape),
        )
        for path in sorted(shape_folder(work, shape).glob("[0-9][0-9][0-9].npy"))
    ]


def draw_batch(
    rng: np.random.Generator, shards: list[Shard], size: int
) -> tuple[torch.Tensor, torch.Tensor, list[Scene]]:
    """A batch from one shard.

    Returns     scaled latents float32 [b, z, f + 1, r, c], covers [b, f, r, c] and scenes
    """
    shard = shards[int(rng.integers(len(shards)))]
    rows = np.sort(rng.choice(len(shard.scenes_n), size, replace=False))
    scenes = all_scenes()
    latents = torch.from_numpy(np.asarray(shard.latents_nzfrc[rows], np.float32))
    covers = torch.from_numpy(np.asarray(shard.cover_nfrc[rows], np.float32))
    return latents, covers, [scenes[i] for i in shard.scenes_n[rows]]
