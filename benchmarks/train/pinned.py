"""Clips with given frames through `vidgen.Engine`, and how well those frames are kept.

A given picture cannot come back better than the VAE lets it, so each is compared with the VAE's own
round trip of the same frames among the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLWan

from benchmarks.train.checks import through
from benchmarks.train.vae import psnr
from benchmarks.train.world import BASE_SHAPE, Video
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.inputs import Inputs
from vidgen.models import DEFAULT_MODEL, TOYWORLD_FOLDER, resolve
from vidgen.plan import plan
from vidgen.request import parse_request

HELD = 4  # frames of the last latent frame, which a given last picture fills


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to give frames.

    prefix      frames given at the start, 0 or 4n+1
    last        the last frame is given
    """

    prefix: int
    last: bool

    @property
    def painted(self) -> slice:
        """The frames that are the model's own."""
        return slice(self.prefix, -HELD if self.last else None)

    @property
    def given(self) -> list[int]:
        """Indices of the given frames in a base clip."""
        num_frames = BASE_SHAPE[0]
        return [*range(self.prefix), *([num_frames - 1] if self.last else [])]


KINDS = {
    "first": Kind(1, last=False),
    "first and last": Kind(1, last=True),
    "prefix of 2": Kind(5, last=False),
    "prefix of 3": Kind(9, last=False),
    "last": Kind(0, last=True),
}


@dataclass(frozen=True, slots=True)
class Kept:
    """How well given frames came back, PSNR in dB against the true ones.

    clip_db     of the given frames in the clip
    vae_db      of the VAE's round trip of the same frames
    """

    clip_db: float
    vae_db: float


def engine_of(folder: Path) -> Engine:
    """The product's engine on an exported folder."""
    shipped = folder.resolve() == TOYWORLD_FOLDER
    return Engine.load(resolve(DEFAULT_MODEL if shipped else str(folder)), offline=True)


def continued(
    engine: Engine,
    prompt: str,
    truth: Video,
    kind: Kind,
    *,
    num_steps: int = 20,
    guidance: float = 3.0,
    seed: int = 0,
) -> Video:
    """A clip whose given frames are taken from a true one."""
    num_frames, height, width = truth.shape[:3]
    fields = {
        "model": engine.model.name,
        "prompt": prompt,
        "negative_prompt": "",
        "width": width,
        "height": height,
        "num_frames": num_frames,
        "num_inference_steps": num_steps,
        "guidance_scale": guidance,
        "seed": seed,
        **({"video": "in memory", "prefix_frames": kind.prefix} if kind.prefix > 1 else {}),
    }
    inputs = Inputs(
        image=truth[0] if kind.prefix == 1 else None,
        last_image=truth[-1] if kind.last else None,
        video=truth[: kind.prefix] if kind.prefix > 1 else None,
    )
    made = plan(parse_request(fields), named("cpu"), inputs=inputs, model=engine.model)
    frames = engine.run(made, inputs, previews=False).frames
    assert frames is not None
    return np.clip(frames, 0, 1)


def kept(vae: AutoencoderKLWan, clip: Video, truth: Video, kind: Kind) -> Kept:
    """Compare the given frames of a clip with the truth and with the VAE's round trip."""
    ideal = perfectly_continued(vae, truth, kind)
    pairs = [(clip[index], ideal[index], truth[index]) for index in kind.given]
    return Kept(
        float(np.mean([psnr01(made, true) for made, _, true in pairs])),
        float(np.mean([psnr01(best, true) for _, best, true in pairs])),
    )


def perfectly_continued(vae: AutoencoderKLWan, truth: Video, kind: Kind) -> Video:
    """The round trip of the given frames, as if the model had painted the true ones around them.

    The decoder looks back in time, so a given last frame depends on the frames before it.
    """
    if not kind.last:
        return through(vae, truth[: kind.prefix])
    pixels = torch.from_numpy(truth)[None].movedim(-1, 1) * 2 - 1
    still = pixels[:, :, -1:].repeat(1, 1, 1 + HELD, 1, 1)
    with torch.no_grad():
        latents, held = (vae.encode(each).latent_dist.mode() for each in (pixels, still))
        latents[:, :, -1] = held[:, :, -1]
        back = vae.decode(latents).sample[0].movedim(0, -1)
    picture: Video = ((back.clamp(-1, 1) + 1) / 2).numpy()
    return picture


def psnr01(predicted: Video, target: Video) -> float:
    """PSNR in dB of pictures in 0..1."""
    return psnr(torch.from_numpy(predicted * 2 - 1), torch.from_numpy(target * 2 - 1))
