"""Decoding latents to frames, a latent frame at a time, whole or tile by tile.

Decoded whole, a clip of any length streams; in tiles its frames are all complete only at the end.
"""

import itertools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import torch

from vidgen.events import CancelToken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# b batch  c channels  t latent frames  f frames  r rows  w columns


def group_count(vae: Any, latents_ctrw: torch.Tensor, *, tiled: bool) -> int:
    """Return how many groups of frames `decode_groups` yields."""
    starts = _tile_starts(vae, latents_ctrw) if tiled else None
    tiles = 1 if starts is None else len(starts[0]) * len(starts[1])
    return tiles * latents_ctrw.shape[1]


def decode_groups(
    vae: Any, latents_ctrw: torch.Tensor, *, tiled: bool, cancel: CancelToken
) -> "Generator[NDArray[np.float32], None, None]":
    """Yield frames (f, r, w, 3) float32 in 0..1: one frame, then `vae_temporal` a group.

    The arithmetic is that of AutoencoderKLWan.decode and of the pipelines' post-processing, without
    holding the whole clip.

    tiled   where the picture is larger than a tile, a group is a latent frame of one tile: all are
            empty but the last, which is the whole clip
    Raises  Cancelled, between any two groups
    """
    z = _unnormalised(vae, latents_ctrw.unsqueeze(0))
    starts = _tile_starts(vae, latents_ctrw) if tiled else None
    if starts is None:
        yield from _streamed(vae, z, cancel)
    else:
        yield from _in_tiles(vae, z, starts, cancel)


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
    """Decode one latent frame to values in -1..1."""
    return _finished(vae, _one_piece(vae, hidden[:, :, index : index + 1], first=index == 0))


def _one_piece(vae: Any, hidden: torch.Tensor, *, first: bool) -> torch.Tensor:
    """Decode one latent frame; the VAE's feature cache carries what came before."""
    vae._conv_idx = [0]
    piece: torch.Tensor = vae.decoder(
        hidden, feat_cache=vae._feat_map, feat_idx=vae._conv_idx, first_chunk=first
    )
    return piece


def _finished(vae: Any, decoded: torch.Tensor) -> torch.Tensor:
    from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify

    if vae.config.patch_size is not None:
        decoded = unpatchify(decoded, patch_size=vae.config.patch_size)
    return decoded.clamp(-1.0, 1.0)


def _tile_starts(vae: Any, latents_ctrw: torch.Tensor) -> tuple[range, range] | None:
    """Return the first latent rows and columns of the tiles, None where one tile holds all."""
    ratio = vae.spatial_compression_ratio
    rows, columns = latents_ctrw.shape[-2:]
    if (
        rows <= vae.tile_sample_min_height // ratio
        and columns <= vae.tile_sample_min_width // ratio
    ):
        return None
    return (
        range(0, rows, vae.tile_sample_stride_height // ratio),
        range(0, columns, vae.tile_sample_stride_width // ratio),
    )


def _in_tiles(
    vae: Any, z: torch.Tensor, starts: tuple[range, range], cancel: CancelToken
) -> "Generator[NDArray[np.float32], None, None]":
    """Decode tile by tile, as AutoencoderKLWan.tiled_decode does.

    Of a finished tile only the edges that its neighbours blend with stay on the device.
    """
    ratio, frames = vae.spatial_compression_ratio, z.shape[2]
    rows, columns = vae.tile_sample_min_height // ratio, vae.tile_sample_min_width // ratio
    corners = list(itertools.product(starts[0], starts[1]))
    clip = _Mosaic(vae, z)
    nothing = clip.frames_frwc.numpy()[:0]
    try:
        for number, (top, left) in enumerate(corners, start=1):
            tile_z = z[..., top : top + rows, left : left + columns]
            vae.clear_cache()
            pieces = []
            for index in range(frames):
                cancel.check(
                    f"while decoding tile {number} of {len(corners)}, "
                    f"latent frame {index + 1} of {frames}"
                )
                pieces.append(_tile_piece(vae, tile_z, index))
                if index + 1 < frames:
                    yield nothing
            clip.add(torch.cat(pieces, dim=2), top * ratio, left * ratio)
            yield nothing if number < len(corners) else clip.frames_frwc.numpy()
    finally:
        vae.clear_cache()


@torch.no_grad()
def _tile_piece(vae: Any, tile_z: torch.Tensor, index: int) -> torch.Tensor:
    return _one_piece(vae, vae.post_quant_conv(tile_z[:, :, index : index + 1]), first=index == 0)


class _Mosaic:
    """The clip as its tiles come, row by row; each is blended into those above and left of it."""

    def __init__(self, vae: Any, z: torch.Tensor) -> None:
        ratio, per_group = vae.spatial_compression_ratio, 2 ** sum(vae.temperal_downsample)
        frames = 1 + (z.shape[2] - 1) * per_group
        self.frames_frwc = torch.empty(frames, z.shape[3] * ratio, z.shape[4] * ratio, 3)
        self._vae = vae
        self._above: dict[int, torch.Tensor] = {}
        self._left: torch.Tensor | None = None

    @torch.no_grad()
    def add(self, tile: torch.Tensor, top: int, left: int) -> None:
        """Take the decoder's values of the next tile, which begins at that pixel."""
        vae, patch = self._vae, self._vae.config.patch_size or 1
        rows, columns = (
            vae.tile_sample_stride_height // patch,
            vae.tile_sample_stride_width // patch,
        )
        blend_rows = vae.tile_sample_min_height // patch - rows
        blend_columns = vae.tile_sample_min_width // patch - columns
        if top:
            tile = vae.blend_v(self._above[left], tile, blend_rows)
        if left:
            tile = vae.blend_h(self._left, tile, blend_columns)
        self._above[left] = tile[..., -blend_rows:, :].clone()
        self._left = tile[..., -blend_columns:].clone()
        pixels = torch.from_numpy(_pixels(_finished(vae, tile[..., :rows, :columns])))
        place = self.frames_frwc[:, top:, left:]
        place[:, : pixels.shape[1], : pixels.shape[2]] = pixels


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
