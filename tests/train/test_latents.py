"""Analytic latents: near lossless, whitened, first frame aligned with the others."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.train.latents import Basis, fit_basis
from benchmarks.train.world import all_scenes, draw_path, draw_scene, render


@pytest.fixture(scope="module")
def basis() -> Basis:
    return fit_basis(num_clips=24)


@pytest.fixture(scope="module")
def pixels() -> torch.Tensor:
    rng = np.random.default_rng(4)
    scenes = [draw_scene(rng, all_scenes()) for _ in range(12)]
    clips = np.stack([render(scene, draw_path(rng, scene)) for scene in scenes])
    return torch.from_numpy(clips) * 2 - 1


def test_sixteen_components_keep_the_picture(basis: Basis, pixels: torch.Tensor) -> None:
    latents = basis.encode(pixels)
    assert latents.shape == (12, 16, 5, 12, 12)
    error = (basis.decode(latents) - pixels).square()
    assert 10 * torch.log10(4 / error.mean()) > 26
    assert 10 * torch.log10(4 / error[:, 0].mean()) > 29


def test_latents_are_white(basis: Basis, pixels: torch.Tensor) -> None:
    spread = basis.encode(pixels)[:, 1:].std(dim=(0, 2, 3, 4))
    assert spread.median() == pytest.approx(1.0, abs=0.25)
    assert np.mean(basis.scale_z**2) == pytest.approx(1.0, abs=1e-4)


def test_a_resting_picture_has_like_latents_in_first_and_later_frames(
    basis: Basis, pixels: torch.Tensor
) -> None:
    latents = basis.encode(pixels[:, :1].expand(-1, 5, -1, -1, -1)) * torch.from_numpy(
        basis.scale_z
    ).view(1, -1, 1, 1, 1)
    first, later = latents[:, :, 0], latents[:, :, 1]
    assert (first - later).square().mean() < 0.35 * later.square().mean()


def test_a_basis_survives_its_file(basis: Basis, tmp_path: Path) -> None:
    basis.save(tmp_path / "basis.safetensors")
    again = Basis.load(tmp_path / "basis.safetensors")
    assert all(
        np.array_equal(getattr(basis, name), getattr(again, name)) for name in Basis.__slots__
    )
