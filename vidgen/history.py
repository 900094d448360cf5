"""The frames that a clip continues from: how they enter the denoising loop.

A clip that starts with frames given clean follows their faults too. Two ways loosen that, for
models whose tokens have their own times: a little noise on what is given, and its noise level told
to the model; or the given frames brought to each step's own noise level, so that nothing tells the
model that they are special.
"""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from vidgen.plan import Plan

# b batch  c channels  t latent frames  r rows  w columns  n tokens


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """What is given at the start of one clip.

    clean_bctrw   the given latents, as long as they are
    noise_bctrw   as much noise, drawn for this clip
    level         noise level at which they are shown, 0..1; None for that of each step
    tokens        tokens that they fill
    """

    clean_bctrw: Tensor
    noise_bctrw: Tensor
    level: float | None
    tokens: int

    @property
    def frames(self) -> int:
        """Latent frames that are given."""
        return int(self.clean_bctrw.shape[2])

    def at(self, sigma: float) -> Tensor:
        """Return the given latents at a noise level."""
        return (1 - sigma) * self.clean_bctrw + sigma * self.noise_bctrw

    def put(self, latents_bctrw: Tensor, sigma: float) -> Tensor:
        """Return a clip's latents with the given ones in their place, at a noise level."""
        given = self.at(sigma).to(latents_bctrw)
        return torch.cat([given, latents_bctrw[:, :, self.frames :]], dim=2)

    def shown_times(self, time_bn: Tensor, train_steps: int) -> Tensor:
        """Return the tokens' times with those of the given frames as they are shown."""
        if not self.level:
            return time_bn
        shown = time_bn.clone()
        shown[:, : self.tokens] = self.level * train_steps
        return shown


def _noise(shape: tuple[int, ...], seed: int) -> Tensor:
    """Draw noise from the clip's seed alone: a run that is taken up again needs it once more."""
    digest = hashlib.sha256(f"history {seed}".encode()).digest()
    generator = torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    return torch.randn(shape, generator=generator, dtype=torch.float32)


def make_history(plan: "Plan", condition_bctrw: Tensor, seed: int) -> History | None:
    """Return how a plan's given frames at the start enter, None where they are pinned clean.

    condition_bctrw  a clip's latents with the given ones in their place
    """
    if plan.history == "pin" and not plan.history_noise:
        return None
    clean = condition_bctrw[:, :, : plan.model.family.latent_frames(max(1, plan.prefix_frames))]
    level = plan.history_noise if plan.history == "pin" else None
    tokens = clean.shape[2] * plan.grid.rows * plan.grid.columns
    return History(clean, _noise(tuple(clean.shape), seed), level, tokens)
