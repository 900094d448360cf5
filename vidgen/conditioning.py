"""What a clip is conditioned on, as tensors in the form that the pipelines take.

For models whose tokens have their own timesteps, any latent frames can be given and stay clean;
diffusers' pipeline knows only the first, so the others are prepared here.
"""

from typing import TYPE_CHECKING, Any

import torch

from vidgen.errors import BadRequest
from vidgen.inputs import Inputs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

    from vidgen.plan import Plan

# b batch  c channels  f frames  r rows  w columns (pixels); t latent frames


def picture_tensor(pixels_rwc: "NDArray[np.float32]") -> torch.Tensor:
    """Return a picture (rows, columns, 3) in 0..1 as pipelines take it: (1, 3, rows, columns)."""
    return torch.from_numpy(pixels_rwc.copy()).permute(2, 0, 1).unsqueeze(0)


def video_tensor(pixels_frwc: "NDArray[np.float32]") -> torch.Tensor:
    """Return frames in 0..1 as (1, 3, frames, rows, columns) in 0..1."""
    return torch.from_numpy(pixels_frwc.copy()).permute(3, 0, 1, 2).unsqueeze(0)


def as_pil(pixels_rwc: "NDArray[np.float32]") -> "Image":
    """Return a picture as 8-bit, for the CLIP tower and for VACE references."""
    import numpy as np
    from PIL import Image

    return Image.fromarray(np.rint(pixels_rwc * 255).astype(np.uint8))


def encode_normalised(vae: Any, video_bcfrw: torch.Tensor) -> torch.Tensor:
    """Encode pixels in -1..1 and normalise the latents as the transformer sees them."""
    with torch.no_grad():
        latents = vae.encode(video_bcfrw.to(vae.device, vae.dtype)).latent_dist.mode().float()
    shape = (1, vae.config.z_dim, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape).to(latents)
    std = torch.tensor(vae.config.latents_std).view(shape).to(latents)
    normalised: torch.Tensor = (latents - mean) * (1.0 / std)
    return normalised


def pinned_latents(vae: Any, plan: "Plan", inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the given latent frames and where they are.

    condition (1, c, t, r, w) holds the given latents; mask (1, 1, t, r, w) is 0 where they are
    given and 1 where the model paints. A last frame fills the last latent frame as a still.
    """
    family = plan.model.family
    total = plan.latent_frames
    rows, columns = plan.size.height // family.vae_spatial, plan.size.width // family.vae_spatial
    condition = torch.zeros(1, vae.config.z_dim, total, rows, columns)
    mask = torch.ones(1, 1, total, rows, columns)
    if inputs.image is not None:
        first = encode_normalised(vae, picture_tensor(inputs.image).unsqueeze(2) * 2 - 1)
        condition[:, :, :1], mask[:, :, :1] = first.cpu(), 0
    frames = inputs.frames()
    if frames is not None:
        prefix = _prefix_latents(vae, plan, inputs, frames)
        condition[:, :, : prefix.shape[2]], mask[:, :, : prefix.shape[2]] = prefix, 0
    if inputs.last_image is not None:
        still = picture_tensor(inputs.last_image).unsqueeze(2) * 2 - 1
        last = encode_normalised(vae, still.repeat(1, 1, 1 + family.vae_temporal, 1, 1))
        condition[:, :, -1:], mask[:, :, -1:] = last[:, :, -1:].cpu(), 0
    return condition, mask


def _prefix_latents(
    vae: Any, plan: "Plan", inputs: Inputs, frames: "NDArray[np.float32]"
) -> torch.Tensor:
    """Return the latents of a prefix: those that are given, else the encoded frames."""
    if inputs.prefix_latents is None:
        given = video_tensor(frames[-plan.prefix_frames :]) * 2 - 1
        return encode_normalised(vae, given).cpu()
    family = plan.model.family
    size = (plan.size.height // family.vae_spatial, plan.size.width // family.vae_spatial)
    wanted = (vae.config.z_dim, family.latent_frames(plan.prefix_frames), *size)
    if inputs.prefix_latents.shape != wanted:
        raise BadRequest(
            f"prefix_latents has the shape {inputs.prefix_latents.shape}, a prefix of "
            f"{plan.prefix_frames} frames here has {wanted}; give latents of that shape.",
            field="prefix_frames",
        )
    return torch.from_numpy(inputs.prefix_latents.copy()).unsqueeze(0)


def vace_video(plan: "Plan", inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Return VACE's control video in -1..1 and its mask in 0..1, both (1, 3, f, r, w).

    Without a video the frames to make are mid-grey and masked, the given ones are not.
    """
    shape = (1, 3, plan.num_frames, plan.size.height, plan.size.width)
    video, mask = torch.zeros(shape), torch.ones(shape)
    frames, hidden = inputs.frames(), inputs.mask_frames()
    if plan.task == "vace" and frames is not None:
        video = video_tensor(frames[: plan.num_frames]) * 2 - 1
        if hidden is not None:
            mask = video_tensor(hidden[: plan.num_frames])
        return video, mask
    if inputs.image is not None:
        video[:, :, :1], mask[:, :, :1] = picture_tensor(inputs.image).unsqueeze(2) * 2 - 1, 0
    frames = inputs.frames()
    if frames is not None:
        given = video_tensor(frames[-plan.prefix_frames :]) * 2 - 1
        video[:, :, : given.shape[2]], mask[:, :, : given.shape[2]] = given, 0
    if inputs.last_image is not None:
        last = picture_tensor(inputs.last_image).unsqueeze(2) * 2 - 1
        video[:, :, -1:], mask[:, :, -1:] = last, 0
    return video, mask
