"""Evaluation: held-out prompts through the stock pipelines and the engine, read by the detector."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from diffusers import AutoencoderKLWan, WanPipeline

from benchmarks.train.acceptance import accept
from benchmarks.train.captions import caption
from benchmarks.train.checks import read_truth, read_wrong_captions, vae_quality
from benchmarks.train.control import write_untrained
from benchmarks.train.detector import Reading, detect
from benchmarks.train.export import load_t2v
from benchmarks.train.pinned import KINDS, Kept, continued, engine_of, kept, psnr01
from benchmarks.train.progress import Progress
from benchmarks.train.sheets import contact_sheet, titled
from benchmarks.train.stock import Shape, image_to_video, text_to_video
from benchmarks.train.tally import above_chance, tally
from benchmarks.train.world import (
    BASE_SHAPE,
    Scene,
    Video,
    draw_path,
    draw_scene,
    held_out_scenes,
    render,
)

LARGE: Shape = (33, 192, 192)
LONG: Shape = (81, 192, 192)
SHOWN = {"t2v": 16, "large": 8, "long": 8}  # cells of a contact sheet; half as many pairs else
# What a clip of each kind costs beside a base clip, for the time left; measured roughly.
UNITS = {BASE_SHAPE: 1.0, LARGE: 14.0, LONG: 45.0}
ENGINE_UNITS = 1.3
CHECK_UNITS = 0.3


@dataclass(frozen=True, slots=True)
class Numbers:
    """How many clips each part of the evaluation makes; 0 leaves a part out.

    pinned      clips for each way to give frames
    control     clips of untrained weights; image to video and given frames take a quarter each
    checks      true clips for the detector and the VAE
    """

    t2v: int = 200
    i2v: int = 96
    large: int = 32
    long: int = 8
    pinned: int = 32
    control: int = 48
    checks: int = 32

    def units(self) -> float:
        """The whole evaluation in base clips."""
        engine = len(KINDS) * ENGINE_UNITS
        return (
            self.t2v
            + self.i2v
            + UNITS[LARGE] * self.large
            + UNITS[LONG] * self.long
            + engine * self.pinned
            + self.control
            + (self.control // 4) * (1 + engine)
            + CHECK_UNITS * 6 * self.checks
        )


@dataclass(slots=True)
class Evaluator:
    """One evaluation: its settings, its progress, and where its sheets go."""

    num_steps: int
    guidance: float
    seed: int
    sheets: Path | None
    progress: Progress

    @property
    def sampling(self) -> dict[str, Any]:
        """What every way of making clips is told."""
        return {"num_steps": self.num_steps, "guidance": self.guidance, "seed": self.seed}

    def text(
        self, pipeline: WanPipeline, number: int, part: str, shape: Shape = BASE_SHAPE
    ) -> dict[str, Any]:
        """Text to video at a shape."""
        pairs = held_out_prompts(number, self.seed)
        clips = text_to_video(pipeline, [text for _, text in pairs], shape=shape, **self.sampling)
        counted = self._counted(clips, part, number, UNITS[shape])
        readings: list[Reading] = []
        cells: list[tuple[str, Video]] = []
        for (scene, text), clip in zip(pairs, counted, strict=True):
            readings.append(detect(clip))
            if len(cells) < SHOWN.get(part, 0):
                cells.append((titled(text, scene, readings[-1]), clip))
        if self.sheets is not None and cells:
            wide = {"large": (5, 2), "long": (9, 1)}.get(part, (5, 2))
            contact_sheet(cells, self.sheets / f"toyworld-{part}.png", *wide)
        return tally([scene for scene, _ in pairs], readings)

    def image(self, pipeline: WanPipeline, number: int, part: str = "i2v") -> dict[str, Any]:
        """Image to video with the stock pipeline."""
        trials = true_trials(number, self.seed)
        clips = image_to_video(
            pipeline,
            [text for _, text, _ in trials],
            [truth[0] for _, _, truth in trials],
            **self.sampling,
        )
        made = self._counted(clips, part, number, UNITS[BASE_SHAPE])
        table, _ = self._compared(part, trials, made, pipeline.vae, "first")
        return table

    def pinned(
        self, folder: Path, vae: AutoencoderKLWan, number: int, part: str = ""
    ) -> dict[str, Any]:
        """Given frames through the engine, each way in turn."""
        engine = engine_of(folder)
        trials = true_trials(number, self.seed)
        result = {}
        for name, kind in KINDS.items():
            clips = (
                continued(engine, text, truth, kind, **{**self.sampling, "seed": self.seed + i})
                for i, (_, text, truth) in enumerate(trials)
            )
            made = self._counted(clips, part + name, number, ENGINE_UNITS)
            table, pairs = self._compared(part + name, trials, made, vae, name)
            table["given frames dB"] = float(np.mean([pair.clip_db for pair in pairs]))
            table["VAE dB"] = float(np.mean([pair.vae_db for pair in pairs]))
            table["lost dB"] = table["VAE dB"] - table["given frames dB"]
            result[name] = table
        return result

    def checks(self, vae: AutoencoderKLWan, number: int) -> dict[str, Any]:
        """The detector where the scene is known."""
        result: dict[str, Any] = {
            "truth": read_truth(number, self.seed),
            "truth 33x192x192": read_truth(number // 2, self.seed, LARGE),
            "truth 81x192x192": read_truth(number // 4, self.seed, LONG),
            "VAE round trip": read_truth(number, self.seed, vae=vae),
            "wrong captions": read_wrong_captions(20, self.seed),
        }
        self.progress.advance("detector", number, number, 4 * CHECK_UNITS * number)
        return result

    def _compared(
        self,
        part: str,
        trials: Sequence[tuple[Scene, str, Video]],
        clips: Iterator[Video],
        vae: AutoencoderKLWan,
        name: str,
    ) -> tuple[dict[str, Any], list[Kept]]:
        """Read the frames that the model painted, and compare the given ones with the truth."""
        kind = KINDS[name]
        readings: list[Reading] = []
        pairs: list[Kept] = []
        whole: list[float] = []
        cells: list[tuple[str, Video]] = []
        for (scene, text, truth), clip in zip(trials, clips, strict=True):
            readings.append(detect(clip[kind.painted]))
            pairs.append(kept(vae, clip, truth, kind))
            whole.append(psnr01(clip, truth))
            if len(cells) < 16:
                cells += [(titled(text, scene, readings[-1]), clip), ("the true clip", truth)]
        if self.sheets is not None:
            slug = part.replace(" ", "-")
            contact_sheet(cells, self.sheets / f"toyworld-{slug}.png", given=kind.given)
        table = tally([scene for scene, _, _ in trials], readings)
        table["clip dB"] = float(np.mean(whole))
        if name == "first":
            table["first frame dB"] = float(np.mean([pair.clip_db for pair in pairs]))
            table["first frame VAE dB"] = float(np.mean([pair.vae_db for pair in pairs]))
        return table, pairs

    def _counted(
        self, clips: Iterator[Video], part: str, number: int, units: float
    ) -> Iterator[Video]:
        """The same clips, each told to the progress as worth so many units."""
        for count, clip in enumerate(clips, 1):
            self.progress.advance(part, count, number, units)
            yield clip


def held_out_prompts(number: int, seed: int) -> list[tuple[Scene, str]]:
    """Scenes never rendered in training with a random wording each."""
    rng = np.random.default_rng([seed, 96])
    scenes = held_out_scenes()
    drawn = [draw_scene(rng, scenes) for _ in range(number)]
    return [(scene, caption(scene, rng)) for scene in drawn]


def true_trials(number: int, seed: int) -> list[tuple[Scene, str, Video]]:
    """Held-out scenes with a wording and a true clip each."""
    rng = np.random.default_rng([seed, 12])
    return [
        (scene, text, render(scene, draw_path(rng, scene)))
        for scene, text in held_out_prompts(number, seed)
    ]


def seconds_of_one_clip(pipeline: WanPipeline, evaluator: Evaluator, repeats: int = 3) -> float:
    """CPU seconds of one base clip made alone by the stock pipeline, the median of a few."""
    ((_, text),) = held_out_prompts(1, evaluator.seed)
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        list(text_to_video(pipeline, [text], **evaluator.sampling))
        taken.append(time.process_time() - began)
    return float(np.median(taken))


def evaluate(
    folder: Path,
    numbers: Numbers | None = None,
    *,
    guidance: float = 3.0,
    num_steps: int = 20,
    seed: int = 0,
    sheets: Path | None = None,
) -> dict[str, Any]:
    """Measure an exported folder; parts of which no clips are asked are absent from the result.

    t2v, i2v    the stock pipelines at the trained size
    large, long 192x192, 33 and 81 frames, from text
    pinned      each way to give frames, through the engine; attributes are read from the frames
                that the model painted
    detector    its readings where the scene is known
    control     the same architecture untrained: what chance looks like
    acceptance  the bounds beside the values
    """
    numbers = numbers or Numbers()
    run = Evaluator(num_steps, guidance, seed, sheets, Progress(numbers.units()))
    pipeline = load_t2v(folder)
    result: dict[str, Any] = {
        "settings": {"steps": num_steps, "guidance": guidance, "seed": seed, "held_out": True},
        "numbers": asdict(numbers),
        "cpu_seconds_per_clip": seconds_of_one_clip(pipeline, run),
    }
    if numbers.checks:
        result["detector"] = run.checks(pipeline.vae, numbers.checks)
        result["vae"] = vae_quality(pipeline.vae, numbers.checks, seed)
        run.progress.advance("vae", 1, 1, 2 * CHECK_UNITS * numbers.checks)
    if numbers.t2v:
        result["t2v"] = run.text(pipeline, numbers.t2v, "t2v")
    if numbers.i2v:
        result["i2v"] = run.image(pipeline, numbers.i2v)
    if numbers.pinned:
        result["pinned"] = run.pinned(folder, pipeline.vae, numbers.pinned)
    if numbers.control:
        result["control"] = _control(folder, numbers.control, run)
    if numbers.large:
        result["large"] = run.text(pipeline, numbers.large, "large", LARGE)
    if numbers.long:
        result["long"] = run.text(pipeline, numbers.long, "long", LONG)
    result["acceptance"] = accept(result)
    return result


def _control(folder: Path, number: int, run: Evaluator) -> dict[str, Any]:
    """The readings of untrained weights, and every attribute that they get above chance."""
    quiet = replace(run, sheets=None)
    with tempfile.TemporaryDirectory() as temporary:
        untrained = Path(temporary) / "untrained"
        write_untrained(folder, untrained, run.seed)
        pipeline = load_t2v(untrained)
        tables = {"t2v": quiet.text(pipeline, number, "untrained t2v")}
        if few := number // 4:
            tables["i2v"] = quiet.image(pipeline, few, "untrained i2v")
            tables |= quiet.pinned(untrained, pipeline.vae, few, "untrained ")
    above = [f"{part}: {name}" for part, table in tables.items() for name in above_chance(table)]
    return {**tables, "above chance": above}
