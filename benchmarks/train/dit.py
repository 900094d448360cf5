"""The transformer: its configuration and its training together with the text encoder.

Trains on cached analytic latents; knows neither pixels nor the VAE.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import WanTransformer3DModel
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

from benchmarks.train.data import Shape, Shard, draw_batch, open_shards
from benchmarks.train.forward import velocity_and_states
from benchmarks.train.grow import copy_grown
from benchmarks.train.optim import Average, Muon
from benchmarks.train.peers import Peers
from benchmarks.train.run import Run
from benchmarks.train.text import (
    ATTRIBUTES,
    WIDTH,
    build_text_encoder,
    build_tokenizer,
    captions_for,
    embed,
    tokenize,
    warm_up,
)
from benchmarks.train.world import BASE_SHAPE, Scene

# b batch  z latent channel  f latent frames  r rows  c columns  n tokens  d width

CONFIG: dict[str, Any] = {
    "patch_size": (1, 2, 2),
    "num_attention_heads": 4,
    "attention_head_dim": 32,
    "in_channels": 16,
    "out_channels": 16,
    "text_dim": WIDTH,
    "freq_dim": 128,
    "ffn_dim": 512,
    "cross_attn_norm": True,
    "qk_norm": "rms_norm_across_heads",
}

ATTRIBUTE_VALUES = [(name, value) for name, values in ATTRIBUTES.items() for value in values]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a session of training may vary.

    shift           skews noise levels towards noise: median = shift / (1 + shift), at the base
                    shape; see `shift_for`
    uniform_share   share of samples whose noise level is uniform instead, 0..1
    high_share      share whose noise level is uniform in 0.9..1, where the layout is decided
    object_weight   how much more an error counts on the object and the latent pixels around it
    batch           clips of the base shape per step; larger shapes get as many tokens
    mix             clip shapes and how often each is drawn
    """

    layers: int = 4
    batch: int = 8
    lr: float = 1.5e-3
    muon_lr: float = 2e-3
    shift: float = 2.5
    uniform_share: float = 0.35
    high_share: float = 0.08
    ema: float = 0.999
    probe_weight: float = 0.5
    object_weight: float = 3.0
    mix: tuple[tuple[Shape, float], ...] = ((BASE_SHAPE, 1.0),)
    log_every: int = 25


class Model(nn.Module):
    """Transformer and text encoder, and two probes that only help them train.

    One reads a token's place after the first block, the other where the object is and what it is
    before the last one: layout and binding get a direct signal. They are not exported.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.dit = WanTransformer3DModel(**CONFIG, num_layers=layers)
        self.text: UMT5EncoderModel = build_text_encoder()
        width = self.dit.proj_out.in_features
        self.place_probe = nn.Linear(width, 3)
        self.scene_probe = nn.Linear(width, 4 + len(ATTRIBUTE_VALUES))
        nn.init.zeros_(self.dit.proj_out.weight)
        nn.init.zeros_(self.dit.proj_out.bias)


def draw_pins(rng: np.random.Generator, size: int, frames: int) -> Tensor:
    """Which latent frames of each sample are given clean: bool [b, f].

    none 45 %, the first 30 %, first and last 10 %, the first two or three 10 %, the last 5 %; of
    a clip of two latent frames, one is always left to make.
    """
    pins = torch.zeros(size, frames, dtype=torch.bool)
    for row, kind in zip(pins, rng.choice(5, size, p=(0.45, 0.30, 0.10, 0.10, 0.05)), strict=True):
        if kind in (1, 2):
            row[0] = True
        if kind == 4 or (kind == 2 and frames > 2):
            row[-1] = True
        if kind == 3:
            row[: min(int(rng.integers(2, 4)), frames - 1)] = True
    return pins


def shift_for(settings: Settings, shape: Shape) -> float:
    """Shift of the noise levels for a clip's shape: it grows with the picture's side.

    A layout that many pixels show is still seen through noise that hides it in a few.
    """
    return settings.shift * math.sqrt(math.prod(shape[1:]) / math.prod(BASE_SHAPE[1:]))


def draw_sigmas(rng: np.random.Generator, size: int, settings: Settings, shift: float) -> Tensor:
    """One noise level per sample, 0..1: shifted logit-normal mixed with uniform."""
    normal = 1 / (1 + np.exp(-rng.standard_normal(size)))
    shifted = shift * normal / (1 + (shift - 1) * normal)
    uniform = rng.random(size)
    draw = rng.random(size)
    chosen = np.where(draw < settings.uniform_share, uniform, shifted)
    chosen = np.where(draw > 1 - settings.high_share, 0.9 + 0.1 * uniform, chosen)
    return torch.from_numpy(chosen.astype(np.float32))


def flow_loss(
    model: Model,
    latents: Tensor,
    covers: Tensor,
    pins: Tensor,
    sigma_b: Tensor,
    text: Tensor,
    object_weight: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Error of the velocity over the frames that are not pinned.

    latents     [b, z, f + 1, r, c]; the extra frame replaces a pinned last frame in half the
                samples, as an engine pins a still picture
    covers      [b, f, r, c], how far the object covers each latent pixel
    Returns     the mean squared error per sample [b]; the same with the object and the latent
                pixels around it weighted by 1 + object_weight [b]; what the probes read [b, n, k]
    """
    clean, held = latents[:, :, :-1], latents[:, :, -1]
    swap = pins[:, -1] & (torch.rand(len(pins)) < 0.5).to(pins.device)
    clean = clean.clone()
    clean[swap, :, -1] = held[swap]
    sigma_bf = sigma_b[:, None] * ~pins
    level = sigma_bf[:, None, :, None, None]
    noise = torch.randn_like(clean)
    noisy = torch.lerp(clean, noise, level)
    predicted, states = velocity_and_states(model.dit, noisy, sigma_bf, text)
    probed = [model.place_probe(states[0]), model.scene_probe(states[-2])]
    error_bfrc = (predicted - (noise - clean)).square().mean(dim=1)
    free_bfrc = (~pins)[:, :, None, None].expand_as(error_bfrc).to(error_bfrc.dtype)
    near = nn.functional.max_pool2d((covers > 0).to(error_bfrc.dtype), 3, stride=1, padding=1)
    weights = free_bfrc * (1 + object_weight * near)
    plain = (error_bfrc * free_bfrc).sum(dim=(1, 2, 3)) / free_bfrc.sum(dim=(1, 2, 3))
    weighted = (error_bfrc * weights).sum(dim=(1, 2, 3)) / weights.sum(dim=(1, 2, 3))
    return plain, weighted, torch.cat(probed, dim=-1)


def probe_targets(scenes: list[Scene], covers: Tensor) -> Tensor:
    """What the probes should read at each token: [b, n, 7 + attribute values].

    covers      [b, f, r, c]
    The token's place in time, height and width (-0.5..0.5), which rotary attention knows only from
    the borders; the cover of its four latent pixels; their mean times the one-hot attributes.
    """
    columns = torch.unflatten(covers, 3, (-1, 2))
    patches = torch.unflatten(columns, 2, (-1, 2)).transpose(3, 4)
    cells = patches.flatten(4).flatten(1, 3)
    flags = torch.tensor(
        [
            [float(getattr(scene, name) == value) for name, value in ATTRIBUTE_VALUES]
            for scene in scenes
        ],
        device=covers.device,
    )
    bound = cells.mean(dim=-1, keepdim=True) * flags[:, None]
    axes = [
        torch.linspace(-0.5, 0.5, length, device=covers.device) for length in patches.shape[1:4]
    ]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, 2)
    return torch.cat([places.expand(len(covers), -1, -1), cells, bound], dim=-1)


def num_tokens(shape: Shape) -> int:
    """Tokens of a clip of (frames, height, width)."""
    frames, height, width = shape
    return ((frames - 1) // 4 + 1) * (height // 16) * (width // 16)


def draw_shape(settings: Settings, step: int) -> tuple[Shape, int]:
    """A step's clip shape and batch; a pure function of the step, so that peers agree."""
    rng = np.random.default_rng([step, 7])
    shares = np.array([share for _, share in settings.mix])
    shape, _ = settings.mix[int(rng.choice(len(shares), p=shares / shares.sum()))]
    return shape, max(1, settings.batch * num_tokens(BASE_SHAPE) // num_tokens(shape))


def parameter_groups(model: Model) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices of the blocks (for Muon) and everything else (for AdamW)."""
    matrices = [
        weight
        for name, weight in model.dit.blocks.named_parameters()
        if weight.ndim == 2 and name.endswith("weight")
    ]
    chosen = {id(weight) for weight in matrices}
    return matrices, [weight for weight in model.parameters() if id(weight) not in chosen]


class Trainer:
    """Model, optimisers, average and random state: all that a checkpoint must hold."""

    def __init__(
        self, settings: Settings, device: str, seed: int = 0, peers: Peers | None = None
    ) -> None:
        torch.manual_seed(seed)
        self.peers = peers or Peers()
        self.settings = settings
        self.device = torch.device(device)
        self.rng = np.random.default_rng(seed)
        self.tokenizer: PreTrainedTokenizerFast = build_tokenizer()
        self.model = Model(settings.layers).to(self.device)
        matrices, others = parameter_groups(self.model)
        self.muon = Muon(matrices, lr=settings.muon_lr)
        self.adam = torch.optim.AdamW(
            others, lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True
        )
        self.average = Average(self.model, settings.ema)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on as if never stopped."""
        return {
            "layers": self.settings.layers,
            "model": self.model.state_dict(),
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
            "average": self.average.state_dict(),
            "rng": self.rng.bit_generator.state,
            "torch_rng": torch.get_rng_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a state; this session's learning rates win over the saved ones."""
        self.model.load_state_dict(state["model"])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.average.load_state_dict(state["average"])
        self.rng.bit_generator.state = state["rng"]
        torch.set_rng_state(state["torch_rng"])

    def scatter(self, step: int) -> None:
        """Give this peer random numbers of its own."""
        self.rng = np.random.default_rng([step, self.peers.rank])
        torch.manual_seed(int(self.rng.integers(2**31)))

    def start_from(self, folder: Path) -> None:
        """Take the weights of a shipped pipeline folder, growing the transformer if asked for more
        blocks; optimisers and probes start fresh.
        """
        copy_grown(WanTransformer3DModel.from_pretrained(folder / "transformer"), self.model.dit)
        text = UMT5EncoderModel.from_pretrained(folder / "text_encoder")
        self.model.text.load_state_dict(text.state_dict())
        self.average = Average(self.model, self.settings.ema)

    def warm_up_text(self, num_steps: int) -> float:
        """Give the text encoder its head start; returns the share of attributes it names."""
        named = warm_up(self.model.text, self.tokenizer, self.rng, num_steps)
        self.average = Average(self.model, self.settings.ema)
        return named

    def step(
        self, shape: Shape, latents: Tensor, covers: Tensor, scenes: list[Scene], rate: float
    ) -> dict[str, float]:
        """One optimiser step; returns its loss, the loss without pins, and the probe's parts."""
        settings = self.settings
        for optimiser, lr in ((self.muon, settings.muon_lr), (self.adam, settings.lr)):
            for group in optimiser.param_groups:
                group["lr"] = lr * rate
        texts = captions_for(scenes, self.rng)
        pins = draw_pins(self.rng, len(texts), latents.shape[2] - 1).to(self.device)
        shift = shift_for(settings, shape)
        sigma_b = draw_sigmas(self.rng, len(texts), settings, shift).to(self.device)
        ids, mask = tokenize(self.tokenizer, texts, self.rng)
        text = embed(self.model.text, ids.to(self.device), mask.to(self.device))
        covers = covers.to(self.device)
        losses, weighted, probed = flow_loss(
            self.model,
            latents.to(self.device),
            covers,
            pins,
            sigma_b,
            text,
            settings.object_weight,
        )
        gap = probed - probe_targets(scenes, covers)
        loss, errors_k = losses.mean(), gap.square().mean(dim=(0, 1))
        torch.autograd.backward(weighted.mean() + settings.probe_weight * errors_k.sum())
        self.peers.average_gradients(self.model.parameters())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.muon.step()
        self.adam.step()
        self.model.zero_grad(set_to_none=True)
        self.average.update()
        free = ~pins.any(dim=1)
        unpinned = losses[free].mean().item() if free.any() else float("nan")
        parts = torch.split(errors_k.detach(), [1, 2, 4, len(ATTRIBUTE_VALUES)])
        time, place, cover, bound = (part.sum().item() for part in parts)
        return {
            "loss": loss.item(),
            "loss_free": unpinned,
            "time": time,
            "place": place,
            "cover": cover,
            "bound": bound,
        }


def train(
    work: Path,
    budget_seconds: float,
    settings: Settings,
    *,
    device: str = "cpu",
    resume: bool = True,
    start: Path | None = None,
    decay_share: float = 0.0,
    warm_up_steps: int = 200,
    peers: Peers | None = None,
    seed: int = 0,
) -> Run:
    """Train for a session; checkpoints and `dit.csv` go to the work folder.

    start       a pipeline folder whose weights to begin with where there is no checkpoint
    Before the learning rate starts to fall the state is kept as `dit-stable.pt`: the next session
    resumes from that one when it wants to go on at the full rate.
    """
    peers = peers or Peers()
    peers.join(work)
    run = Run(work, "dit", budget_seconds, decay_share)
    trainer = Trainer(settings, device, seed, peers)
    state = run.resume() if resume else None
    if state is not None:
        trainer.restore(state)
    elif start is not None:
        trainer.start_from(start)
    else:
        named = trainer.warm_up_text(warm_up_steps)
        print(f"text encoder names {named:.3f} of the attributes", flush=True)
    if peers.count > 1:
        peers.share_weights(trainer.model.parameters())
        trainer.scatter(run.step)
    shards = _open_mix(work, settings)
    rows: list[dict[str, float]] = []
    kept_stable = False
    while True:
        finished, rate = peers.follow(float(run.finished), run.rate())
        if finished:
            break
        shape, batch = draw_shape(settings, run.step)
        latents, covers, scenes = draw_batch(trainer.rng, shards[shape], batch)
        rows.append(trainer.step(shape, latents, covers, scenes, rate))
        run.advance(batch * peers.count)
        if peers.rank > 0:
            continue
        if run.step % settings.log_every == 0:
            means = {key: float(np.nanmean([row[key] for row in rows])) for key in rows[0]}
            run.log({**means, "rate": rate})
            rows.clear()
        if run.decaying() and not kept_stable:
            run.save(trainer.state(), work / "dit-stable.pt")
            kept_stable = True
        if run.due():
            run.save(trainer.state())
            shards = _open_mix(work, settings)
    if peers.rank == 0:
        run.save(trainer.state())
    peers.leave(work)
    return run


def _open_mix(work: Path, settings: Settings) -> dict[Shape, list[Shard]]:
    shards = {shape: open_shards(work, shape) for shape, _ in settings.mix}
    for shape, found in shards.items():
        if not found:
            name = "x".join(str(side) for side in shape)
            raise FileNotFoundError(
                f"There are no latents of shape {name} in {work}; make them with "
                f"`python -m benchmarks.train latents --shape {name}`."
            )
    return shards
