"""The VAE: its configuration and its training towards the analytic latents.

Encoder and decoder train apart: the encoder regresses to the analytic latents, the decoder learns
pixels from them. The result is a plain AutoencoderKLWan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    DiagonalGaussianDistribution,
    WanRMS_norm,
    unpatchify,
)
from torch import Tensor, nn

from benchmarks.train.data import load_basis
from benchmarks.train.latents import Basis
from benchmarks.train.optim import Average, Muon
from benchmarks.train.run import Run
from benchmarks.train.world import BASE_SHAPE, draw_path, draw_scene, render, training_scenes

# b batch  z latent channel  f latent frames  t pixel frames  r rows  c columns

CONFIG: dict[str, Any] = {
    "base_dim": 16,
    "z_dim": 16,
    "dim_mult": [1, 2, 4],
    "num_res_blocks": 1,
    "attn_scales": [],
    "temperal_downsample": [True, True],
    "is_residual": False,
    "in_channels": 12,
    "out_channels": 12,
    "patch_size": 2,
    "scale_factor_temporal": 4,
    "scale_factor_spatial": 8,
}
LOGVAR = -7.0
STILLS = (2, 96, 1)
# (share of the session, crops per step, crop side in px, crop length in frames)
PHASES = ((0.15, 4, 32, 5), (0.55, 2, 32, 9), (0.80, 2, 48, 9), (1.01, 1, 64, 17))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session of training may vary.

    latent_noise    standard deviation added to the decoder's inputs, in whitened units
    still_share     share of steps on single whole frames, what image-to-video starts from, 0..1
    decoder_only    leave the encoder as it is, so that latents made with it stay valid
    night_share     share of steps on night scenes, whose stars are the hardest to decode, 0..1;
                    0: as often as any background
    large_crops     the crops of the last phase from the start
    """

    lr: float = 2e-3
    ema: float = 0.995
    latent_noise: float = 0.08
    still_share: float = 0.0
    decoder_only: bool = False
    night_share: float = 0.0
    large_crops: bool = False
    log_every: int = 50


def build_vae(basis: Basis) -> AutoencoderKLWan:
    """A VAE with fresh weights whose latents_std carries the half-whitening."""
    std = (1.0 / basis.scale_z).tolist()
    return AutoencoderKLWan(**CONFIG, latents_mean=[0.0] * 16, latents_std=std)


@contextmanager
def fast_norms() -> Iterator[None]:
    """Inside, the RMS norm runs by a formula with a cheaper gradient; for training only."""

    def forward(self: WanRMS_norm, x: Tensor) -> Tensor:
        axis = 1 if self.channel_first else -1
        scaled = x * torch.rsqrt(x.square().mean(dim=axis, keepdim=True) + 1e-12)
        result: Tensor = scaled * self.gamma + self.bias
        return result

    stock = WanRMS_norm.forward
    WanRMS_norm.forward = forward
    try:
        yield
    finally:
        WanRMS_norm.forward = stock


def encode(vae: AutoencoderKLWan, pixels_b3trc: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log variance of the latents, each [b, z, f, r/8, c/8]."""
    mean, logvar = vae._encode(pixels_b3trc).chunk(2, dim=1)
    return mean, logvar


def decode(vae: AutoencoderKLWan, latents_bzfrc: Tensor) -> Tensor:
    """Pixels [b, 3, t, r, c], not clamped: a clamp has no gradient outside its range."""
    vae.clear_cache()
    z = vae.post_quant_conv(latents_bzfrc)
    parts = []
    for i in range(z.shape[2]):
        vae._conv_idx = [0]
        parts.append(
            vae.decoder(
                z[:, :, i : i + 1],
                feat_cache=vae._feat_map,
                feat_idx=vae._conv_idx,
                first_chunk=i == 0,
            )
        )
    vae.clear_cache()
    pixels: Tensor = unpatchify(torch.cat(parts, dim=2), patch_size=CONFIG["patch_size"])
    return pixels


def pixel_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """L1 + half the L1 of spatial gradients + MSE + a twentieth of the logarithm of the MSE.

    The last is what PSNR sees: it pulls on a clip that is nearly right as on one that is not.
    """
    gap = predicted - target
    slopes = gap.diff(dim=-1).abs().mean() + gap.diff(dim=-2).abs().mean()
    square = gap.square().mean()
    return gap.abs().mean() + 0.5 * slopes + square + 0.05 * torch.log(square + 1e-5)


def psnr(predicted: Tensor, target: Tensor) -> float:
    """Peak signal-to-noise ratio in dB of pictures in -1..1."""
    error = (predicted.clamp(-1, 1) - target).square().mean().clamp_min(1e-10)
    return float(10 * torch.log10(4 / error))


class Trainer:
    """VAE, optimisers, average and random state: all that a checkpoint must hold."""

    def __init__(self, work: Path, settings: Settings, device: str, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.settings = settings
        self.device = torch.device(device)
        self.rng = np.random.default_rng([seed, 7])
        self.basis = load_basis(work)
        self.vae = build_vae(self.basis).to(self.device)
        weights = list(self.vae.parameters())
        matrices = [w for w in weights if w.ndim >= 4 and w.numel() > 2000]
        chosen = {id(w) for w in matrices}
        self.muon = Muon(matrices, lr=settings.lr)
        self.adam = torch.optim.AdamW(
            [w for w in weights if id(w) not in chosen],
            lr=settings.lr,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
        self.average = Average(self.vae, settings.ema)
        self.scenes = training_scenes()
        self.nights = [scene for scene in self.scenes if scene.background == "night"]

    def state(self) -> dict[str, Any]:
        """Everything needed to go on as if never stopped."""
        return {
            "vae": self.vae.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "average": self.average.state_dict(),
            "rng": self.rng.bit_generator.state,
            "torch_rng": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state; this session's learning rates win over the saved ones."""
        self.vae.load_state_dict(state["vae"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.average.load_state_dict(state["average"])
        self.rng.bit_generator.state = state["rng"]
        torch.set_rng_state(state["torch_rng"])

    def crops(self, number: int, side: int, frames: int) -> Tensor:
        """Pixels in -1..1, [b, t, r, c, 3]: random crops of one fresh clip."""
        dark = self.rng.random() < self.settings.night_share
        scene = draw_scene(self.rng, self.nights if dark else self.scenes)
        clip = render(scene, draw_path(self.rng, scene))
        limits = [full - part for full, part in zip(BASE_SHAPE, (frames, side, side), strict=True)]
        parts = []
        for _ in range(number):
            t, r, c = (int(self.rng.integers(limit + 1)) for limit in limits)
            parts.append(clip[t : t + frames, r : r + side, c : c + side])
        return torch.from_numpy(np.stack(parts)) * 2 - 1

    def step(self, pixels: Tensor, own_share: float, rate: float) -> dict[str, float]:
        """One optimiser step.

        own_share   share of decoder inputs that are the encoder's own latents, 0..1
        """
        for optimiser in (self.muon, self.adam):
            for group in optimiser.param_groups:
                group["lr"] = self.settings.lr * rate
        target = self.basis.encode(pixels).to(self.device)
        x = pixels.movedim(-1, 1).contiguous().to(self.device)
        with torch.set_grad_enabled(not self.settings.decoder_only):
            mean, logvar = encode(self.vae, x)
            latent_loss = (mean - target).square().mean()
        if not self.settings.decoder_only:
            torch.autograd.backward(latent_loss + 0.002 * (logvar - LOGVAR).square().mean())
        z = mean.detach() if self.rng.random() < own_share else target
        y = decode(self.vae, z + self.settings.latent_noise * torch.randn_like(z))
        loss = pixel_loss(y, x)
        torch.autograd.backward(loss)
        for half in (self.vae.encoder, self.vae.decoder):
            nn.utils.clip_grad_norm_(half.parameters(), 1.0)
        self.muon.step()
        self.adam.step()
        self.vae.zero_grad(set_to_none=True)
        self.average.update()
        return {
            "loss": loss.item(),
            "latent": latent_loss.item(),
            "psnr": psnr(y.detach(), x),
            "rate": rate,
        }


def round_trip(vae: AutoencoderKLWan, pixels_btrc3: Tensor) -> Tensor:
    """Encode to the mean and decode again: [b, t, r, c, 3] in -1..1."""
    with torch.no_grad():
        posterior: DiagonalGaussianDistribution = vae.encode(
            pixels_btrc3.movedim(-1, 1)
        ).latent_dist
        decoded: Tensor = vae.decode(posterior.mode()).sample
    return decoded.movedim(1, -1)


def train(
    work: Path,
    budget_seconds: float,
    settings: Settings,
    *,
    device: str = "cpu",
    resume: bool = True,
    start: Path | None = None,
    decay_share: float = 0.5,
    seed: int = 0,
) -> Run:
    """Train for a session; checkpoints and `vae.csv` go to the work folder.

    start       a pipeline folder whose weights to begin with where there is no checkpoint
    The first session goes from small crops to whole clips; later ones skip the small crops.
    """
    run = Run(work, "vae", budget_seconds, decay_share)
    trainer = Trainer(work, settings, device, seed)
    state = run.resume() if resume else None
    if state is not None:
        trainer.restore(state)
    elif start is not None:
        trainer.vae.load_state_dict(AutoencoderKLWan.from_pretrained(start / "vae").state_dict())
        trainer.average = Average(trainer.vae, settings.ema)
    first_session = state is None and start is None
    least = 0.0 if first_session else PHASES[0][0]
    least = PHASES[-2][0] if settings.large_crops else least
    rows: list[dict[str, float]] = []
    while not run.finished:
        progress = max(run.progress, least)
        _, number, side, frames = next(phase for phase in PHASES if progress < phase[0])
        own_share = 0.5 if progress > 0.6 else 0.0
        if trainer.rng.random() < settings.still_share:
            number, side, frames = STILLS
        crops = trainer.crops(number, side, frames)
        with fast_norms():
            rows.append(trainer.step(crops, own_share, run.rate()))
        run.advance(number)
        if run.step % settings.log_every == 0:
            run.log({key: float(np.mean([row[key] for row in rows])) for key in rows[0]})
            rows.clear()
        if run.due():
            run.save(trainer.state())
    run.save(trainer.state())
    return run
