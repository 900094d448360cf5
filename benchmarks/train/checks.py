"""Checks of the instruments: the detector on clips whose scene is known, and the VAE alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan

from benchmarks.train.captions import caption, parse
from benchmarks.train.data import SHIPPED_BASIS
from benchmarks.train.detector import Reading, detect
from benchmarks.train.latents import Basis
from benchmarks.train.tally import tally
from benchmarks.train.text import ATTRIBUTES
from benchmarks.train.vae import psnr, round_trip
from benchmarks.train.world import (
    BASE_SHAPE,
    Scene,
    Video,
    all_scenes,
    draw_path,
    draw_scene,
    held_out_scenes,
    render,
)

Shape = tuple[int, int, int]  # frames, height, width


def true_clips(
    number: int, seed: int, shape: Shape = BASE_SHAPE, scenes: list[Scene] | None = None
) -> Iterator[tuple[Scene, Video]]:
    """Rendered clips with their scenes, of all scenes unless some are named."""
    rng = np.random.default_rng([seed, 31, *shape])
    for _ in range(number):
        scene = draw_scene(rng, scenes or all_scenes())
        yield scene, render(scene, draw_path(rng, scene, shape), shape)


def read_truth(
    number: int, seed: int, shape: Shape = BASE_SHAPE, vae: AutoencoderKLWan | None = None
) -> dict[str, Any]:
    """The detector on rendered clips, or on what a VAE makes of them."""
    scenes: list[Scene] = []
    readings: list[Reading] = []
    for scene, clip in true_clips(number, seed, shape):
        scenes.append(scene)
        readings.append(detect(clip if vae is None else through(vae, clip)))
    return tally(scenes, readings)


def read_wrong_captions(number: int, seed: int) -> dict[str, int]:
    """True clips against captions that are wrong in one attribute, each attribute in turn.

    Returns     how many wrong attributes were said wrong, and how many clips had all the others
                said right
    """
    rng = np.random.default_rng([seed, 20])
    moving = [scene for scene in all_scenes() if scene.motion != "still"]
    names = [field.name for field in fields(Scene)]
    said_wrong = rest_right = 0
    for turn in range(number):
        scene = moving[int(rng.integers(len(moving)))]
        name = names[turn % len(names)]
        values = [value for value in ATTRIBUTES[name] if value not in ("still", "none")]
        values.remove(getattr(scene, name))
        other = values[int(rng.integers(len(values)))]
        wrong = parse(caption(replace(scene, **{name: other}), rng))
        verdict = detect(render(scene, draw_path(rng, scene))).verdict(wrong)
        said_wrong += not verdict.pop(name)
        rest_right += all(verdict.values())
    missed = number - min(said_wrong, rest_right)
    return {
        "said wrong": said_wrong, "rest said right": rest_right, "missed": missed, "of": number
    }  # fmt: skip


def vae_quality(vae: AutoencoderKLWan, number: int, seed: int) -> dict[str, float]:
    """PSNR in dB of the VAE's round trip on fresh held-out clips; distance of its latents.

    A quarter as many clips are taken of 33 frames and of 160x160.
    """
    scenes = held_out_scenes()
    result: dict[str, float] = {}
    shapes = {"clip_db": BASE_SHAPE, "33_frames_db": (33, 96, 96), "160x160_db": (17, 160, 160)}
    basis = Basis.load(SHIPPED_BASIS)
    first, gaps = [], []
    for name, shape in shapes.items():
        whole = []
        count = number if shape == BASE_SHAPE else max(1, number // 4)
        for _, clip in true_clips(count, seed, shape, scenes):
            pixels = torch.from_numpy(clip)[None] * 2 - 1
            back = round_trip(vae, pixels)
            whole.append(psnr(back, pixels))
            if shape != BASE_SHAPE:
                continue
            first.append(psnr(back[:, :1], pixels[:, :1]))
            with torch.no_grad():
                mean = vae.encode(pixels.movedim(-1, 1)).latent_dist.mode()
            gaps.append(float((mean - basis.encode(pixels)).square().mean()))
        result[name] = float(np.mean(whole))
    result["first_frame_db"] = float(np.mean(first))
    result["latent_mse"] = float(np.mean(gaps))
    result["drop_33_frames_db"] = result["clip_db"] - result["33_frames_db"]
    result["drop_160x160_db"] = result["clip_db"] - result["160x160_db"]
    return result


def through(vae: AutoencoderKLWan, clip: Video) -> Video:
    """A clip in 0..1 after the VAE's round trip."""
    back = round_trip(vae, torch.from_numpy(clip)[None] * 2 - 1)[0]
    picture: Video = ((back.clamp(-1, 1) + 1) / 2).numpy()
    return picture
