"""What a whole clip costs: the engine, dense and sparse, against unmodified diffusers.

Run:  python -m benchmarks.end_to_end [--frames 81] [--pairs 3] [--steps 5]
Each round runs the stock pipeline, the engine dense and the engine with its sparse defaults, one
after the other in one process on one thread, with the same prompt, seed and steps; every other
round in reverse. CPU time of the process, for the whole clip and, apart, from the first transformer
call to the end of the last. The engine's text embeddings are cached, as in any second clip of a
prompt; diffusers encodes them each time.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.intervals import mean_of
from benchmarks.report import OUT, report, write_report
from benchmarks.sparse_arms import denoise_flops, planned
from benchmarks.train.export import load_t2v
from benchmarks.train.stock import call_options
from vidgen.engine import Engine
from vidgen.models import TOYWORLD_FOLDER, resolve
from vidgen.plan import Plan

SIZE = (192, 192)
PROMPT = "a big red ball moves quickly left over the sand"
STOCK = "diffusers"
Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds of a clip, whole and denoising alone, and its frames."""

    whole: float
    denoise: float
    frames: Frames


def timed(transformer: Any, make: Callable[[], Frames]) -> Reading:
    """Make a clip and note its CPU time, and that between the ends of its transformer calls."""
    moments: list[float] = []

    def note(*_: Any) -> None:
        moments.append(time.process_time())

    handles = [
        transformer.register_forward_pre_hook(note),
        transformer.register_forward_hook(note),
    ]
    began = time.process_time()
    try:
        frames = make()
    finally:
        for handle in handles:
            handle.remove()
    return Reading(time.process_time() - began, moments[-1] - moments[0], frames)


class Arms:
    """The three ways to make the clip."""

    def __init__(self, num_frames: int, num_steps: int) -> None:
        shape = (num_frames, *SIZE)
        self._pipeline = load_t2v(TOYWORLD_FOLDER)
        self._engine = Engine.load(resolve("toyworld"))
        self.plans: dict[str, Plan] = {
            "dense": planned(shape, num_steps, prompt=PROMPT),
            "sparse": planned(shape, num_steps, prompt=PROMPT, attention="topk"),
        }
        self._options = call_options(shape, num_steps, self.plans["dense"].guidance_scale)
        self.names = (STOCK, *self.plans)

    def run(self, name: str) -> Reading:
        """Make the clip once."""
        if name == STOCK:
            return timed(self._pipeline.transformer, self._stock)
        return timed(self._engine.components.transformer, lambda: self._engines(self.plans[name]))

    def _stock(self) -> Frames:
        generator = torch.Generator().manual_seed(self.plans["dense"].seeds[0])
        output = self._pipeline(
            prompt=PROMPT, generator=generator, output_type="np", **self._options
        )
        return np.asarray(output.frames[0], np.float32)

    def _engines(self, made: Plan) -> Frames:
        clip = self._engine.run(made, previews=False)
        assert clip.frames is not None
        return clip.frames


def measure(arms: Arms, pairs: int) -> dict[str, Any]:
    """Run every arm once to warm up, then in turns; return the figures."""
    readings: dict[str, list[Reading]] = {name: [] for name in arms.names}
    began, runs = time.monotonic(), (pairs + 1) * len(arms.names)
    for index in range(pairs + 1):
        for name in arms.names if index % 2 == 0 else reversed(arms.names):
            readings[name].append(arms.run(name))
            done = sum(map(len, readings.values()))
            left = (time.monotonic() - began) * (runs / done - 1)
            last = readings[name][-1].whole
            print(f"run {done}/{runs}, {name}: {last:.1f} CPU s, ETA {left / 60:.1f} min",
                  file=sys.stderr, flush=True)  # fmt: skip
    differences = {
        name: float(np.abs(readings[name][0].frames - readings[STOCK][0].frames).max())
        for name in arms.plans
    }
    counted = {name: found[1:] for name, found in readings.items()}
    return {
        "pairs": pairs,
        "threads": 1,
        "cpu seconds": {
            name: {part: _parts(found, part) for part in ("whole", "denoise")}
            for name, found in counted.items()
        },
        "largest difference to diffusers": differences,
        "diffusers over": {name: _ratios(counted[STOCK], counted[name]) for name in arms.plans},
        "dense over sparse": _ratios(counted["dense"], counted["sparse"]),
        "by FLOPs": ceilings(arms.plans["dense"], arms.plans["sparse"]),
    }


def ceilings(dense: Plan, sparse: Plan) -> dict[str, Any]:
    """Return the work of both plans and its ratio: what time could gain if it followed FLOPs."""
    whole = (dense.estimate.total_flops, sparse.estimate.total_flops)
    denoise = (denoise_flops(dense), denoise_flops(sparse))
    return {
        part: {"dense": a, "sparse": b, "ratio": a / b, "saved": 1 - b / a}
        for part, (a, b) in (("whole", whole), ("denoise", denoise))
    }


def _parts(found: list[Reading], part: str) -> list[float]:
    return [round(getattr(reading, part), 3) for reading in found]


def _ratios(over: list[Reading], under: list[Reading]) -> dict[str, Any]:
    """Return the paired ratios of CPU time, for the whole clip and for denoising."""
    found = {}
    for part in ("whole", "denoise"):
        each = [getattr(a, part) / getattr(b, part) for a, b in zip(over, under, strict=True)]
        found[part] = {
            **mean_of(each).as_dict(),
            "median": statistics.median(each),
            "range": [min(each), max(each)],
        }
    return found


def _say(found: dict[str, Any]) -> None:
    """Print the ratios, each beside its ceiling where it has one."""
    rows = [
        (f"diffusers over {name}", found["diffusers over"][name]) for name in ("dense", "sparse")
    ]
    rows.append(("dense over sparse", found["dense over sparse"]))
    for name, ratios in rows:
        for part, ratio in ratios.items():
            low, high = ratio["range"]
            line = f"{name}, {part}: median {ratio['median']:.3f} ({low:.3f} to {high:.3f})"
            if name.endswith("sparse"):
                ceiling = found["by FLOPs"][part]
                line += f"; by FLOPs {ceiling['ratio']:.3f}, {100 * ceiling['saved']:.1f} % saved"
            print(line)
    print(f"largest difference to diffusers: {found['largest difference to diffusers']}")


def main() -> None:
    """Measure, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, choices=(33, 81), default=81)
    parser.add_argument("--pairs", type=int, default=3, help="rounds after one to warm up")
    parser.add_argument("--steps", type=int, default=5, help="the recipe has 20")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.pairs < 3:
        raise SystemExit(f"--pairs {args.pairs} gives no interval worth reading; use 3 or more.")
    torch.set_num_threads(1)
    arms = Arms(args.frames, args.steps)
    dense = arms.plans["dense"]
    expected = dense.estimate.seconds["total"].middle * 3 * (args.pairs + 1) / 60
    print(f"{dense.grid.tokens} tokens, {args.steps} steps (the recipe has "
          f"{dense.model.recipe.num_inference_steps}), about {expected:.0f} min by the plan",
          file=sys.stderr, flush=True)  # fmt: skip
    found = measure(arms, args.pairs)
    command = (
        f"python -m benchmarks.end_to_end --frames {args.frames} --pairs {args.pairs} "
        f"--steps {args.steps}"
    )
    content = report(
        command,
        shape=f"{SIZE[0]}x{SIZE[1]}x{args.frames}",
        tokens=dense.grid.tokens,
        steps=args.steps,
        recipe_steps=dense.model.recipe.num_inference_steps,
        **found,
    )
    _say(found)
    name = f"{content['date']}-end-to-end-{dense.grid.tokens}.json"
    out = args.out or OUT / name
    write_report(out, content)
    print(f"written: {out}")


if __name__ == "__main__":
    main()
