"""Evaluation: held-out prompts through the stock pipelines, read by the detector, as a table."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from diffusers import AutoencoderKLWan, WanPipeline
from numpy.typing import NDArray
from PIL import Image

from benchmarks.train.captions import caption
from benchmarks.train.detector import Reading, detect
from benchmarks.train.export import load_i2v, load_t2v
from benchmarks.train.text import MAX_LENGTH
from benchmarks.train.vae import psnr, round_trip
from benchmarks.train.world import (
    BASE_SHAPE,
    Scene,
    Video,
    draw_path,
    draw_scene,
    held_out_scenes,
    render,
)

ATTRIBUTES = tuple(field.name for field in fields(Scene))
BATCH = 8


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a share, 95 % by default."""
    if total == 0:
        return 0.0, 1.0
    share = hits / total
    centre = share + z * z / (2 * total)
    spread = z * np.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, float((centre - spread) / scale)), min(1.0, float((centre + spread) / scale))


def held_out_prompts(number: int, seed: int) -> list[tuple[Scene, str]]:
    """Scenes never rendered in training with a random wording each."""
    rng = np.random.default_rng([seed, 96])
    scenes = held_out_scenes()
    drawn = [draw_scene(rng, scenes) for _ in range(number)]
    return [(scene, caption(scene, rng)) for scene in drawn]


def tally(scenes: Sequence[Scene], readings: Sequence[Reading]) -> dict[str, Any]:
    """Hits per attribute with Wilson intervals.

    Speed counts clips that should move; a motionless clip has none to read.
    """
    table: dict[str, Any] = {}
    verdicts = [reading.verdict(scene) for scene, reading in zip(scenes, readings, strict=True)]
    for name in ATTRIBUTES:
        marks = [
            verdict[name]
            for scene, verdict in zip(scenes, verdicts, strict=True)
            if name != "speed" or scene.motion != "still"
        ]
        low, high = wilson(sum(marks), len(marks))
        share = sum(marks) / max(1, len(marks))
        table[name] = {
            "hits": sum(marks),
            "of": len(marks),
            "share": share,
            "interval": [low, high],
        }
    moving = [
        verdict["motion"]
        for scene, verdict in zip(scenes, verdicts, strict=True)
        if scene.motion != "still"
    ]
    low, high = wilson(sum(moving), len(moving))
    table["direction"] = {
        "hits": sum(moving),
        "of": len(moving),
        "share": sum(moving) / max(1, len(moving)),
        "interval": [low, high],
    }
    table["spurious per clip"] = float(np.mean([reading.spurious for reading in readings]))
    return table


def text_to_video(
    pipeline: WanPipeline,
    prompts: Sequence[str],
    *,
    shape: tuple[int, int, int] = BASE_SHAPE,
    num_steps: int = 20,
    guidance: float = 3.0,
    seed: int = 0,
) -> list[Video]:
    """Clips of the stock pipeline; clip i has its own seed, whatever the batch."""
    frames, height, width = shape
    clips: list[Video] = []
    for start in range(0, len(prompts), BATCH):
        part = list(prompts[start : start + BATCH])
        generators = [torch.Generator().manual_seed(seed + start + i) for i in range(len(part))]
        output = pipeline(
            prompt=part,
            height=height,
            width=width,
            num_frames=frames,
            num_inference_steps=num_steps,
            guidance_scale=guidance,
            max_sequence_length=MAX_LENGTH,
            generator=generators,
            output_type="np",
        )
        clips.extend(np.asarray(clip, np.float32) for clip in output.frames)
    return clips


def image_to_video(
    pipeline: WanPipeline,
    prompts: Sequence[str],
    pictures: Sequence[NDArray[np.float32]],
    *,
    num_steps: int = 20,
    guidance: float = 3.0,
    seed: int = 0,
) -> list[Video]:
    """Clips of the stock image-to-video pipeline from first frames in 0..1."""
    i2v = load_i2v(pipeline)
    frames, height, width = BASE_SHAPE
    clips = []
    for i, (prompt, picture) in enumerate(zip(prompts, pictures, strict=True)):
        output = i2v(
            image=Image.fromarray((picture * 255).round().astype(np.uint8)),
            prompt=prompt,
            height=height,
            width=width,
            num_frames=frames,
            num_inference_steps=num_steps,
            guidance_scale=guidance,
            max_sequence_length=MAX_LENGTH,
            generator=torch.Generator().manual_seed(seed + i),
            output_type="np",
        )
        clips.append(np.asarray(output.frames[0], np.float32))
    return clips


def vae_quality(vae: AutoencoderKLWan, number: int, seed: int) -> dict[str, float]:
    """PSNR in dB of the VAE's round trip on fresh held-out clips."""
    rng = np.random.default_rng([seed, 5])
    scenes = held_out_scenes()
    whole, first = [], []
    for _ in range(number):
        scene = draw_scene(rng, scenes)
        pixels = torch.from_numpy(render(scene, draw_path(rng, scene)))[None] * 2 - 1
        back = round_trip(vae, pixels)
        whole.append(psnr(back, pixels))
        first.append(psnr(back[:, :1], pixels[:, :1]))
    return {"clip_db": float(np.mean(whole)), "first_frame_db": float(np.mean(first))}


def contact_sheet(rows: Iterable[tuple[str, Video]], path: Path, num_frames: int = 5) -> None:
    """A picture with one clip per row, evenly spaced frames and the prompt above."""
    strips = []
    for title, clip in rows:
        picked = clip[np.linspace(0, len(clip) - 1, num_frames).round().astype(int)]
        strip = (np.concatenate(list(picked), axis=1) * 255).round().astype(np.uint8)
        head = np.full((14, strip.shape[1], 3), 255, np.uint8)
        cv2.putText(head, title, (3, 10), cv2.FONT_HERSHEY_SIMPLEX, 0.33, (0, 0, 0), 1, cv2.LINE_AA)
        strips.append(np.concatenate([head, strip]))
    half = (len(strips) + 1) // 2
    blank = np.full_like(strips[0], 255)
    right = strips[half:] + [blank] * (2 * half - len(strips))
    sheet = np.concatenate([np.concatenate(strips[:half]), np.concatenate(right)], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.ascontiguousarray(sheet[..., ::-1]))


def evaluate(
    folder: Path,
    *,
    number: int = 96,
    number_i2v: int = 32,
    guidance: float = 3.0,
    num_steps: int = 20,
    seed: int = 0,
    sheets: Path | None = None,
) -> dict[str, Any]:
    """Read the shipped folder with the detector: text-to-video, image-to-video, VAE."""
    pipeline = load_t2v(folder)
    pairs = held_out_prompts(number, seed)
    scenes, prompts = [scene for scene, _ in pairs], [text for _, text in pairs]
    began = time.process_time()
    clips = text_to_video(pipeline, prompts, num_steps=num_steps, guidance=guidance, seed=seed)
    seconds = (time.process_time() - began) / max(1, number)
    result: dict[str, Any] = {
        "settings": {"steps": num_steps, "guidance": guidance, "seed": seed, "held_out": True},
        "t2v": tally(scenes, [detect(clip) for clip in clips]),
        "cpu_seconds_per_clip": seconds,
        "vae": vae_quality(pipeline.vae, 16, seed),
    }
    rng = np.random.default_rng([seed, 12])
    truths = [render(scene, draw_path(rng, scene)) for scene in scenes[:number_i2v]]
    moved = image_to_video(
        pipeline,
        prompts[:number_i2v],
        [truth[0] for truth in truths],
        num_steps=num_steps,
        guidance=guidance,
        seed=seed,
    )
    result["i2v"] = tally(scenes[:number_i2v], [detect(clip) for clip in moved])
    result["i2v"]["first frame dB"] = float(
        np.mean([_psnr01(clip[0], truth[0]) for clip, truth in zip(moved, truths, strict=True)])
    )
    result["i2v"]["clip dB"] = float(
        np.mean([_psnr01(clip, truth) for clip, truth in zip(moved, truths, strict=True)])
    )
    if sheets is not None:
        contact_sheet(zip(prompts[:16], clips[:16], strict=True), sheets / "toyworld-t2v.png")
        contact_sheet(zip(prompts[:16], moved[:16], strict=False), sheets / "toyworld-i2v.png")
    return result


def markdown(result: dict[str, Any]) -> str:
    """The result as a table for the model card."""
    lines = ["| held-out prompts | text to video | image to video |", "|---|---|---|"]
    for name in ("background", "colour", "shape", "size", "direction", "speed", "motion"):
        cells = []
        for part in ("t2v", "i2v"):
            entry = result[part][name]
            low, high = entry["interval"]
            cells.append(
                f"{100 * entry['share']:.0f} % ({entry['hits']}/{entry['of']}, "
                f"{100 * low:.0f}-{100 * high:.0f})"
            )
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    spurious = [f"{result[part]['spurious per clip']:.3f}" for part in ("t2v", "i2v")]
    lines.append(f"| spurious objects per frame | {spurious[0]} | {spurious[1]} |")
    lines.append(f"| first frame | | {result['i2v']['first frame dB']:.1f} dB |")
    lines.append(f"| whole clip against the true one | | {result['i2v']['clip dB']:.1f} dB |")
    vae = result["vae"]
    lines.append(
        f"| VAE round trip, clip / first frame | {vae['clip_db']:.1f} / "
        f"{vae['first_frame_db']:.1f} dB | |"
    )
    return "\n".join(lines)


def _psnr01(predicted: Video, target: Video) -> float:
    return psnr(torch.from_numpy(predicted * 2 - 1), torch.from_numpy(target * 2 - 1))
