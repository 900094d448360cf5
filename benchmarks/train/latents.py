"""Analytic latents: a whitened PCA of causal pixel blocks that serves as the VAE's target.

The space is computed, not learned, so that the transformer trains from the first minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from torch import Tensor

from benchmarks.train.world import BASE_SHAPE, draw_path, draw_scene, render, training_scenes

# b batch  z latent channel  f latent frames  t pixel frames  r rows  c columns
# p pixels of a block, flattened as (t, r, c, rgb)

STRIDE = 8
TIME_STRIDE = 4
CHANNELS = 16


@dataclass(frozen=True, slots=True)
class Basis:
    """The linear maps between pixel blocks in -1..1 and whitened latents.

    first_*     for the first frame, a block of 8x8x1 pixels
    later_*     for the others, a block of 8x8x4 pixels
    *_zp        latent = zp @ (block - mean);  *_pz: block = pz @ latent + mean
    scale_z     what the transformer sees is latent * scale: big components are resolved first
    """

    first_mean_p: NDArray[np.float32]
    first_zp: NDArray[np.float32]
    first_pz: NDArray[np.float32]
    later_mean_p: NDArray[np.float32]
    later_zp: NDArray[np.float32]
    later_pz: NDArray[np.float32]
    scale_z: NDArray[np.float32]

    def save(self, path: Path) -> None:
        """Write the basis as one safetensors file."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in self.__slots__}
        save_file(arrays, path)

    @classmethod
    def load(cls, path: Path) -> Basis:
        """Read a basis written by `save`."""
        return cls(**load_file(path))

    def encode(self, pixels_btrc3: Tensor) -> Tensor:
        """Whitened latents [b, z, f, r/8, c/8] of clips in -1..1 with 4n+1 frames."""
        first = _to_blocks(pixels_btrc3[:, :1], 1)
        later = _to_blocks(pixels_btrc3[:, 1:], TIME_STRIDE)
        z_first = (first - _t(self.first_mean_p)) @ _t(self.first_zp).T
        z_later = (later - _t(self.later_mean_p)) @ _t(self.later_zp).T
        return torch.cat([z_first, z_later], dim=1).movedim(-1, 1)

    def decode(self, latents_bzfrc: Tensor) -> Tensor:
        """Clips [b, t, r, c, 3] in -1..1 (not clamped), the inverse of `encode`."""
        z = latents_bzfrc.movedim(1, -1)
        first = z[:, :1] @ _t(self.first_pz).T + _t(self.first_mean_p)
        later = z[:, 1:] @ _t(self.later_pz).T + _t(self.later_mean_p)
        return torch.cat([_from_blocks(first, 1), _from_blocks(later, TIME_STRIDE)], dim=1)


def fit_basis(num_clips: int = 150, seed: int = 1) -> Basis:
    """Compute the basis from freshly rendered training clips."""
    rng = np.random.default_rng(seed)
    scenes = training_scenes()
    clips = np.stack(
        [
            render(scene, draw_path(rng, scene, BASE_SHAPE), BASE_SHAPE)
            for scene in (draw_scene(rng, scenes) for _ in range(num_clips))
        ]
    )
    pixels = torch.from_numpy(clips * 2 - 1)
    later = _to_blocks(pixels[:, 1:], TIME_STRIDE).flatten(0, -2)
    later_mean, later_zp, later_pz, spread = _whitened_pca(later)
    frames = pixels[:, ::4].flatten(0, 1)[:, None]
    first = _to_blocks(frames, 1).flatten(0, -2)
    first_mean, first_zp, first_pz, _ = _whitened_pca(first)
    resting = _to_blocks(frames.repeat(1, TIME_STRIDE, 1, 1, 1), TIME_STRIDE).flatten(0, -2)
    target = (resting - later_mean) @ later_zp.T
    turn = _procrustes((first - first_mean) @ first_zp.T, target)
    scale = spread.sqrt()
    scale = scale / scale.square().mean().sqrt()
    arrays = (first_mean, turn.T @ first_zp, first_pz @ turn, later_mean, later_zp, later_pz, scale)
    return Basis(*(np.ascontiguousarray(array.numpy(), np.float32) for array in arrays))


def _t(array: NDArray[np.float32]) -> Tensor:
    return torch.from_numpy(array)


def _to_blocks(pixels_btrc3: Tensor, time: int) -> Tensor:
    """Cut clips into blocks: [b, f, r, c, p]."""
    b, t, r, c, _ = pixels_btrc3.shape
    x = pixels_btrc3.reshape(b, t // time, time, r // STRIDE, STRIDE, c // STRIDE, STRIDE, 3)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).flatten(4)


def _from_blocks(blocks_bfrcp: Tensor, time: int) -> Tensor:
    """Put blocks together again: [b, t, r, c, 3]."""
    b, f, r, c, _ = blocks_bfrcp.shape
    x = blocks_bfrcp.reshape(b, f, r, c, time, STRIDE, STRIDE, 3)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(b, f * time, r * STRIDE, c * STRIDE, 3)


def _whitened_pca(samples_np: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean, whitening map, its inverse and the standard deviations, largest first."""
    mean = samples_np.mean(dim=0)
    centred = samples_np - mean
    covariance = (centred.T @ centred).double() / len(samples_np)
    variance, vectors = torch.linalg.eigh(covariance)
    spread = variance[-CHANNELS:].flip(0).sqrt().float()
    axes = vectors[:, -CHANNELS:].flip(1).float()
    axes = axes * axes.sum(dim=0).sign()
    return mean, (axes / spread).T, axes * spread, spread


def _procrustes(source_nz: Tensor, target_nz: Tensor) -> Tensor:
    """The rotation that brings source nearest to target (source @ rotation)."""
    left, _, right = torch.linalg.svd(source_nz.T @ target_nz)
    rotation: Tensor = left @ right
    return rotation
