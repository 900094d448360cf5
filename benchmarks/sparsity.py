"""What sparse attention costs in quality, on toyworld: `python -m benchmarks.sparsity`.

velocity   error of the velocity and share of attention kept, along dense trajectories
rendered   whole clips against the dense ones of the same seeds: PSNR, SSIM, what a detector reads
All arms see the same prompts, seeds and states, so they are compared in pairs with the base.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.intervals import mean_of, paired
from benchmarks.rendered import accuracy, compared, read, render
from benchmarks.report import report, write_report
from benchmarks.sparse_arms import Arm, base_plan, choice_arms, density_arms, floor_arm
from benchmarks.train.captions import caption
from benchmarks.train.export import load_t2v
from benchmarks.train.sheets import contact_sheet
from benchmarks.train.world import Scene, draw_scene, held_out_scenes
from benchmarks.trajectories import mass_kept, trajectory, velocity_error
from vidgen.attention_plan import AttentionPlan, noise_level
from vidgen.engine import Engine
from vidgen.models import resolve

SHAPES = {"1296": (33, 192, 192), "3024": (81, 192, 192)}
NUM_STEPS, NUM_STATES = 20, 8
TOYWORLD = Path(__file__).resolve().parents[1] / "vidgen" / "toyworld"


def main(argv: Sequence[str] | None = None) -> None:
    """Run one part and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparsity", description=__doc__)
    parser.add_argument("part", choices=("velocity", "rendered"))
    parser.add_argument("--tokens", choices=tuple(SHAPES), default="1296")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--states", type=int, default=NUM_STATES, help="forwards kept per prompt")
    parser.add_argument("--arms", nargs="*", help="names of arms; all when omitted")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--out", type=Path, help="JSON to write; written after every prompt")
    parser.add_argument("--sheet", type=Path, help="rendered: contact sheet to write")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    base = _base(args.backend)
    arms = _arms(base, args.arms)
    rows = {"velocity": _velocity, "rendered": _rendered}[args.part]
    content: dict[str, Any] = {}
    for content in rows(args, arms):
        if args.out is not None:
            command = "python -m benchmarks.sparsity " + " ".join(argv or sys.argv[1:])
            write_report(args.out, report(command, **content))
    print(_table(content["arms"]))


def _base(backend: str) -> AttentionPlan:
    model = resolve("toyworld")
    shift = model.recipe.flow_shift[-1][1]
    defaults = model.family.sparse
    return base_plan(defaults, backend, noise_level(defaults.dense_steps, shift))


def _arms(base: AttentionPlan, names: Sequence[str] | None) -> list[Arm]:
    known = [floor_arm(base), *density_arms(base), *choice_arms(base)]
    if names is None:
        return known
    by_name = {arm.name: arm for arm in known}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise SystemExit(f"There is no arm {missing[0]!r}; known are {', '.join(by_name)}.")
    return [by_name[name] for name in names]


def prompts_of(number: int, seed: int = 0) -> list[tuple[Scene, str]]:
    """Return scenes that training never rendered, with a wording each."""
    rng = np.random.default_rng([seed, 41])
    scenes = [draw_scene(rng, held_out_scenes()) for _ in range(number)]
    return [(scene, caption(scene, rng)) for scene in scenes]


def _velocity(args: argparse.Namespace, arms: list[Arm]) -> Iterator[dict[str, Any]]:
    """Yield the results so far after every prompt."""
    pipeline = load_t2v(TOYWORLD)
    pipeline.set_progress_bar_config(disable=True)
    errors: dict[str, list[float]] = {arm.name: [] for arm in arms}
    masses: dict[str, list[float]] = {arm.name: [] for arm in arms}
    levels: list[float] = []
    by_level: dict[str, list[list[float]]] = {arm.name: [] for arm in arms}
    for number, (_, prompt) in enumerate(_watched(prompts_of(args.prompts))):
        states = trajectory(
            pipeline,
            prompt,
            SHAPES[args.tokens],
            number,
            num_steps=NUM_STEPS,
            num_states=args.states,
        )
        levels = [state.sigma for state in states]
        for arm in arms:
            found = [velocity_error(pipeline.transformer, arm, state) for state in states]
            by_level[arm.name].append(found)
            errors[arm.name].append(float(np.mean(found)))
            kept = [mass_kept(pipeline.transformer, arm, state) for state in states]
            masses[arm.name].append(float(np.mean(kept)))
        yield {
            "tokens": args.tokens,
            "noise_levels": levels,
            "arms": {
                arm.name: {
                    "velocity error": mean_of(errors[arm.name]).as_dict(),
                    "against base": _against(errors, arm.name, "topk 0.125"),
                    "mass kept": mean_of(masses[arm.name]).as_dict(),
                    "by noise level": np.mean(by_level[arm.name], axis=0).round(5).tolist(),
                }
                for arm in arms
            },
        }


def _rendered(args: argparse.Namespace, arms: list[Arm]) -> Iterator[dict[str, Any]]:
    engine = Engine.load(resolve("toyworld"))
    shape = SHAPES[args.tokens]
    scores: dict[str, dict[str, list[float]]] = {
        arm.name: {"psnr": [], "ssim": [], "density": []} for arm in arms
    }
    verdicts: dict[str, list[dict[str, bool]]] = {name: [] for name in ("dense", *scores)}
    rows: list[tuple[str, Any]] = []
    for number, (scene, prompt) in enumerate(_watched(prompts_of(args.prompts))):
        golden, _ = render(engine, prompt, shape, number)
        verdicts["dense"].append(read(golden, scene))
        rows.append((f"dense: {prompt}", golden))
        for arm in arms:
            frames, density = render(engine, prompt, shape, number, arm.plan)
            for name, value in {**compared(frames, golden), "density": density}.items():
                scores[arm.name][name].append(value)
            verdicts[arm.name].append(read(frames, scene))
            rows.append((arm.name, frames))
        if args.sheet is not None:
            contact_sheet(rows[: 6 * (len(arms) + 1)], args.sheet)
        psnr = {name: part["psnr"] for name, part in scores.items()}
        found: dict[str, Any] = {"dense": {"read": accuracy(verdicts["dense"])}}
        for arm in arms:
            part = scores[arm.name]
            found[arm.name] = {
                "psnr": mean_of(part["psnr"]).as_dict(),
                "psnr against base": _against(psnr, arm.name, "topk 0.125"),
                "ssim": mean_of(part["ssim"]).as_dict(),
                "density": float(np.mean(part["density"])),
                "read": accuracy(verdicts[arm.name]),
            }
        yield {"tokens": args.tokens, "arms": found}


def _against(values: dict[str, list[float]], name: str, base: str) -> dict[str, Any] | None:
    """Return the paired difference to the base arm, None for itself or without it."""
    if name == base or base not in values:
        return None
    return paired(values[name], values[base]).as_dict()


def _watched(items: Iterable[Any]) -> Iterator[Any]:
    """Pass items on and say how long the rest will take."""
    known = list(items)
    began = time.monotonic()
    for index, item in enumerate(known):
        yield item
        left = (time.monotonic() - began) / (index + 1) * (len(known) - index - 1)
        print(f"{index + 1}/{len(known)}, ETA {left / 60:.1f} min", file=sys.stderr, flush=True)


def _table(arms: dict[str, Any]) -> str:
    columns: list[str] = []
    for found in arms.values():
        columns += [name for name in found if name not in columns]
    lines = [f"| arm | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, found in arms.items():
        cells = [_cell(found.get(column)) for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict) and "half" in value:
        return f"{value['mean']:.4g} +- {value['half']:.2g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {100 * share:.0f}" for name, share in value.items())
    if isinstance(value, list):
        return " ".join(f"{item:.3f}" for item in value)
    return json.dumps(value) if not isinstance(value, float) else f"{value:.4g}"


if __name__ == "__main__":
    main()
