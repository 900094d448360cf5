"""PSNR and SSIM of frames, against the metrics of another library."""

import numpy as np
import pytest

from vidgen.fidelity import psnr_of, ssim_of


@pytest.mark.parametrize("size", [(11, 11), (32, 32), (37, 53)])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1, 0.5])
def test_ssim_is_that_of_torchmetrics(size: tuple[int, int], noise: float) -> None:
    torch = pytest.importorskip("torch")
    metrics = pytest.importorskip("torchmetrics.functional.image")
    draw = np.random.default_rng(0)
    wanted = draw.random((*size, 3), np.float32)
    shift = noise * draw.standard_normal(wanted.shape)
    found = np.clip(wanted + shift, 0, 1).astype(np.float32)
    pair = [torch.from_numpy(frame).double().permute(2, 0, 1)[None] for frame in (found, wanted)]
    truth = float(metrics.structural_similarity_index_measure(*pair, data_range=1.0))
    assert ssim_of(found, wanted) == pytest.approx(truth, abs=1e-5)


def test_psnr_of_a_tenth_is_twenty_decibels() -> None:
    assert psnr_of(0.01) == pytest.approx(20)
    assert psnr_of(0.0) == 100
