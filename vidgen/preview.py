"""Cheap pictures of latents: a linear map from latent to colour, fitted to the model's own VAE."""

from typing import TYPE_CHECKING, Any

import torch

from vidgen.conditioning import encode_normalised

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class PreviewMap:
    """The least-squares map from a latent's channels to the mean colour of its pixels.

    It is fitted once a model by encoding one picture of random smooth colours; no published factors
    are needed, so a new VAE has previews at once.
    """

    def __init__(self, vae: Any, spatial: int) -> None:
        """Fit the map.

        vae      an AutoencoderKLWan on the device where it shall run
        spatial  pixels per latent in rows and columns
        """
        size = 16
        noise = torch.rand(1, 3, size // 2, size // 2, generator=torch.Generator().manual_seed(0))
        cells = torch.nn.functional.interpolate(noise, size=(size, size), mode="bilinear")
        picture = torch.nn.functional.interpolate(cells, scale_factor=spatial, mode="nearest")
        latents = encode_normalised(vae, picture.unsqueeze(2) * 2 - 1)[0, :, 0].float().cpu()
        columns = latents.flatten(1).T
        columns = torch.cat([columns, torch.ones(len(columns), 1)], dim=1)
        colours = cells[0].flatten(1).T
        ridge = 1e-4 * torch.eye(columns.shape[1])
        self._weights = torch.linalg.solve(columns.T @ columns + ridge, columns.T @ colours)

    def frames(self, latents: torch.Tensor) -> "NDArray[np.uint8]":
        """Return pictures (latent frames, rows, columns, 3) of latents (1, c, t, r, w)."""
        weights = self._weights.to(latents.device)
        colours = torch.einsum("ctrw,cn->trwn", latents[0].float(), weights[:-1]) + weights[-1]
        result: NDArray[np.uint8] = (
            (colours.clamp(0, 1) * 255).round().to("cpu", torch.uint8).numpy()
        )
        return result
