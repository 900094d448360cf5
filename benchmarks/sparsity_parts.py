"""The two parts of the sparsity benchmark: prompts, loops over them, and what is kept of each."""

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arm_sheet import Strip, strip_of, write_sheet
from benchmarks.executed import Work, sparse_density, watched, works
from benchmarks.intervals import mean_of, paired
from benchmarks.rendered import accuracy, compared, read, render
from benchmarks.sparse_arms import (
    BASE,
    FEWER,
    NUM_STEPS,
    Arm,
    Shape,
    denoise_flops,
    planned,
)
from benchmarks.tile_session import session_of
from benchmarks.train.captions import caption
from benchmarks.train.export import load_t2v
from benchmarks.train.world import Scene, draw_scene, held_out_scenes
from benchmarks.trajectories import masses_kept, trajectory, velocity_error
from vidgen.density import Density
from vidgen.engine import Engine
from vidgen.models import TOYWORLD_FOLDER, resolve
from vidgen.plan import Plan

SHOWN = 6  # prompts of a contact sheet


def prompts_of(number: int, seed: int = 0) -> list[tuple[Scene, str]]:
    """Return scenes that training never rendered, with a wording each."""
    rng = np.random.default_rng([seed, 41])
    scenes = [draw_scene(rng, held_out_scenes()) for _ in range(number)]
    return [(scene, caption(scene, rng)) for scene in scenes]


def velocity_rows(
    shape: Shape, arms: list[Arm], prompts: int, num_states: int
) -> Iterator[dict[str, Any]]:
    """Yield the velocity part's results so far after every prompt."""
    pipeline = load_t2v(TOYWORLD_FOLDER)
    transformer, made = pipeline.transformer, planned(shape)
    sessions = {arm.name: session_of(arm) for arm in arms}
    scores: dict[str, dict[str, list[float]]] = {
        arm.name: {"velocity error": [], "mass kept": []} for arm in arms
    }
    by_level: dict[str, list[list[float]]] = {arm.name: [] for arm in arms}
    levels: list[float] = []
    done: dict[str, Work] = {}
    forwards = 2 * NUM_STEPS + num_states * (len(arms) + 1)
    clock = _Clock(prompts, made.estimate.seconds["denoise"].middle / (2 * NUM_STEPS) * forwards)
    for number, (_, prompt) in enumerate(prompts_of(prompts)):
        with watched(transformer) as seen:
            states = trajectory(
                pipeline, prompt, shape, number, num_steps=NUM_STEPS, num_states=num_states
            )
        if not done:
            done = works(transformer, arms, seen.levels, seen.inputs, _dense_attention(made))
        levels = [state.sigma for state in states]
        masses = [masses_kept(transformer, arms, state, made.grid) for state in states]
        for index, arm in enumerate(arms):
            clock.say(number, index / len(arms), arm.name)
            errors = [velocity_error(transformer, sessions[arm.name], x) for x in states]
            by_level[arm.name].append(errors)
            scores[arm.name]["velocity error"].append(float(np.mean(errors)))
            kept = [x[arm.name] for x in masses if arm.name in x]
            scores[arm.name]["mass kept"].append(float(np.mean(kept)) if kept else 1.0)
        yield {
            "prompts": number + 1,
            "noise_levels": levels,
            "arms": {
                arm.name: {
                    **_measured(scores, arm),
                    **_executed(done[arm.name], [sessions[arm.name].density]),
                    "by noise level": np.mean(by_level[arm.name], axis=0).round(5).tolist(),
                    "differs": arm.differs,
                }
                for arm in arms
            },
        }


def rendered_rows(
    shape: Shape, arms: list[Arm], prompts: int, sheet: Path | None
) -> Iterator[dict[str, Any]]:
    """Yield the rendered part's results so far after every prompt."""
    engine = Engine.load(resolve("toyworld"))
    transformer, made = engine.components.transformer, planned(shape)
    scores: dict[str, dict[str, list[float]]] = {arm.name: {"psnr": [], "ssim": []} for arm in arms}
    densities: dict[str, list[Density]] = {arm.name: [] for arm in arms}
    verdicts: dict[str, list[dict[str, bool]]] = {name: [] for name in ("dense", *scores)}
    strips: dict[str, list[Strip]] = {name: [] for name in verdicts}
    done: dict[str, Work] = {}
    clock = _Clock(prompts, made.estimate.seconds["total"].middle * (len(arms) + 1))
    known = prompts_of(prompts)
    for number, (scene, prompt) in enumerate(known):
        with watched(transformer) as seen:
            golden = render(engine, prompt, shape, number)
        if not done:
            done = works(transformer, arms, seen.levels, seen.inputs, _dense_attention(made))
        verdicts["dense"].append(read(golden, scene))
        strips["dense"].append(strip_of(golden, "the reference"))
        for index, arm in enumerate(arms):
            clock.say(number, (index + 1) / (len(arms) + 1), arm.name)
            session = session_of(arm)
            frames = render(engine, prompt, shape, number, session, arm.num_steps)
            found = compared(frames, golden)
            for name, value in found.items():
                scores[arm.name][name].append(value)
            densities[arm.name].append(session.density)
            verdicts[arm.name].append(read(frames, scene))
            strips[arm.name].append(strip_of(frames, f"PSNR {found['psnr']:.1f} dB"))
        if sheet is not None and number < SHOWN:
            write_sheet(sheet, [text for _, text in known[: number + 1]], strips)
        yield {
            "prompts": number + 1,
            **_fewer_steps(shape, arms),
            "arms": {
                "dense": {"read": accuracy(verdicts["dense"])},
                **{
                    arm.name: {
                        **_measured(scores, arm),
                        **_executed(done[arm.name], densities[arm.name]),
                        "read": accuracy(verdicts[arm.name]),
                        "differs": arm.differs,
                    }
                    for arm in arms
                },
            },
        }


def _measured(scores: dict[str, dict[str, list[float]]], arm: Arm) -> dict[str, Any]:
    """Return the means of an arm's scores, and their paired differences to the base's."""
    found: dict[str, Any] = {}
    for name, values in scores[arm.name].items():
        found[name] = mean_of(values).as_dict()
        if BASE in scores:
            against = None if arm.name == BASE else paired(values, scores[BASE][name]).as_dict()
            found[f"{name} against base"] = against
    return found


def _executed(work: Work, densities: Sequence[Density]) -> dict[str, Any]:
    """Return what an arm computed: blocks where it is sparse, and of a whole run's products."""
    shares = [share for share in map(sparse_density, densities) if share is not None]
    return {
        "blocks read where sparse": float(np.mean(shares)) if shares else None,
        "attention executed": work.attention,
        "flops saved": work.saved,
        "flops": work.flops,
    }


def _dense_attention(made: Plan) -> float:
    """Return self-attention's work in one dense forward, by the model."""
    return made.estimate.flops["attention"] / (NUM_STEPS * (2 if made.guided else 1))


def _fewer_steps(shape: Shape, arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the work of the base and of dense attention with fewer steps, by the model."""
    by_name = {arm.name: arm for arm in arms}
    if FEWER not in by_name:
        return {}
    steps = by_name[FEWER].num_steps
    base = denoise_flops(planned(shape, attention="topk", attention_backend="cpu"))
    fewer = denoise_flops(planned(shape, steps))
    return {FEWER: {"steps": steps, "flops": fewer, "flops of base": base,
                    "remaining difference": fewer / base - 1}}  # fmt: skip


class _Clock:
    """Says on stderr how long a part will take, and how far it is.

    expected  seconds that a prompt takes by the plan's estimate
    """

    def __init__(self, prompts: int, expected: float) -> None:
        self._prompts = prompts
        self._began = time.monotonic()
        minutes = prompts * expected / 60
        print(f"{prompts} prompts, about {minutes:.0f} min by the plan", file=sys.stderr)

    def say(self, number: int, share: float, doing: str) -> None:
        """Report that `number` prompts and a share of the next are done."""
        done = (number + share) / self._prompts
        passed = time.monotonic() - self._began
        left = f"{passed * (1 / done - 1) / 60:.1f} min" if done else "not known yet"
        where = f"prompt {number + 1}/{self._prompts}, {doing}"
        print(f"{where}: {passed / 60:.1f} min gone, ETA {left}", file=sys.stderr, flush=True)
