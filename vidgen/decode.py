"""Decoding latents to frames, a latent frame at a time, so that a clip of any length streams."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import torch

from vidgen.events import CancelToken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# c channels  t latent frames  f frames  r rows  w columns


def group_count(latents_ctrw: torch.Tensor, *, tiled: bool) -> int:
    """Return how many groups of frames `decode_groups` yields."""
    return 1 if tiled else latents_ctrw.shape[1]


def decode_groups(
    vae: Any, latents_ctrw: torch.Tensor, *, tiled: bool, cancel: CancelToken
) -> "Generator[NDArray[np.float32], None, None]":
    """Yield frames (f, r, w, 3) float32 in 0..1: one frame, then `vae_temporal` a group.

    The arithmetic is that of AutoencoderKLWan.decode and of the pipelines' post-processing, without
    holding the whole clip. Tiled decoding needs less memory for large pictures, in one group.
    """
    z = _unnormalised(vae, latents_ctrw.unsqueeze(0))
    if tiled:
        cancel.check("before decoding in tiles")
        yield _pixels(_tiled(vae, z))
        return
    yield from _streamed(vae, z, cancel)


def _streamed(
    vae: Any, z: torch.Tensor, cancel: CancelToken
) -> "Generator[NDArray[np.float32], None, None]":
    vae.clear_cache()
    try:
        with torch.no_grad():
            hidden = vae.post_quant_conv(z)
        total = hidden.shape[2]
        for index in range(total):
            cancel.check(f"while decoding latent frame {index + 1} of {total}")
            yield _pixels(_one_group(vae, hidden, index))
    finally:
        vae.clear_cache()


@torch.no_grad()
def _one_group(vae: Any, hidden: torch.Tensor, index: int) -> torch.Tensor:
    """Decode one latent frame; the VAE's feature cache carries what came before."""
    from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

    vae._conv_idx = [0]
    out: torch.Tensor = vae.decoder(
        hidden[:, :, index : index + 1],
        feat_cache=vae._feat_map,
        feat_idx=vae._conv_idx,
        first_chunk=index == 0,
    )
    if vae.config.patch_size is not None:
        out = unpatchify(out, patch_size=vae.config.patch_size)
    return out.clamp(-1.0, 1.0)


@torch.no_grad()
def _tiled(vae: Any, z: torch.Tensor) -> torch.Tensor:
    was = vae.use_tiling
    vae.enable_tiling()
    try:
        decoded: torch.Tensor = vae.decode(z, return_dict=False)[0]
    finally:
        vae.use_tiling = was
        vae.clear_cache()
    return decoded


def _unnormalised(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    latents = latents.to(vae.device, vae.dtype)
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape).to(latents)
    std = 1.0 / torch.tensor(vae.config.latents_std).view(shape).to(latents)
    return latents / std + mean


def _pixels(decoded_bcfrw: torch.Tensor) -> "NDArray[np.float32]":
    """Bring -1..1 to 0..1 as diffusers' VideoProcessor does."""
    frames = (decoded_bcfrw[0] * 0.5 + 0.5).clamp(0, 1).permute(1, 2, 3, 0)
    result: NDArray[np.float32] = frames.float().cpu().numpy()
    return result
