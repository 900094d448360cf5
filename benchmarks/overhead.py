"""What the engine costs beside the model: CPU time of a denoise over its bare transformer calls.

Run:  python -m benchmarks.overhead [--pairs 5] [--steps 8]
Each pair runs, one after the other in one process, (a) the transformer alone on the same shapes and
timesteps, (b) the engine's condition and denoise stages with previews off, (c) the same with
previews. CPU time of the process on one thread. A shared machine's caches make even that differ by
several per cent from run to run, so each engine run also gives a second, steadier reading: its CPU
time outside its own transformer calls over that inside them.
"""

import argparse
import itertools
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import OUT, report, write_report
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.events import Event, Progress
from vidgen.models import resolve
from vidgen.plan import Plan, plan
from vidgen.request import parse_request
from vidgen.schedule import make_scheduler

SHAPE = {"width": 192, "height": 192, "num_frames": 33}  # 1,296 tokens


def bare(engine: Engine, made: Plan, embeddings: list[torch.Tensor]) -> float:
    """Return CPU seconds of the transformer calls alone."""
    parts = engine.components
    family = made.model.family
    scheduler = make_scheduler(made.scheduler, made.flow_shift, parts.scheduler_config)
    scheduler.set_timesteps(made.num_inference_steps)
    rows, columns = made.size.height // family.vae_spatial, made.size.width // family.vae_spatial
    latents = torch.randn(1, parts.vae.config.z_dim, made.latent_frames, rows, columns)
    began = time.process_time()
    with torch.no_grad():
        for step, embedding in itertools.product(scheduler.timesteps, embeddings):
            parts.transformer(
                hidden_states=latents,
                timestep=step.expand(1, made.grid.tokens),
                encoder_hidden_states=embedding,
                return_dict=False,
            )
    return time.process_time() - began


@dataclass(frozen=True, slots=True)
class Reading:
    """CPU seconds of a run: of condition and denoise together, and of the transformer calls."""

    denoise: float
    inside: float
    forwards: int


def through_engine(engine: Engine, made: Plan, *, previews: bool) -> Reading:
    """Run the engine once, from the end of encoding to the last step."""
    moments: dict[str, float] = {}
    calls: list[float] = []

    def listen(event: Event) -> None:
        if isinstance(event, Progress) and (event.stage == "encode" or event.done == event.total):
            moments.setdefault(event.stage, time.process_time())

    transformer = engine.components.transformer
    stock = transformer.forward

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.process_time()
        out = stock(*args, **kwargs)
        calls.append(time.process_time() - began)
        return out

    transformer.forward = timed
    try:
        clip = engine.run(made, on=listen, previews=previews)
    finally:
        transformer.forward = stock
    return Reading(moments["denoise"] - moments["encode"], sum(calls), clip.trace.forwards)


def ratios(over: list[float], under: list[float]) -> dict[str, Any]:
    """Return median and range of paired ratios, as overhead in per cent."""
    each = [100 * (a / b - 1) for a, b in zip(over, under, strict=True)]
    return {
        "n": len(each),
        "median_percent": round(statistics.median(each), 2),
        "range_percent": [round(min(each), 2), round(max(each), 2)],
    }


def measure(pairs: int, steps: int) -> dict[str, Any]:
    """Run the pairs and return their figures."""
    torch.set_num_threads(1)
    engine = Engine.load(resolve("toyworld"))
    fields = {"prompt": "a big red ball moves quickly left over the sand", "seed": 1,
              "num_inference_steps": steps, **SHAPE}  # fmt: skip
    made = plan(parse_request(fields), named("cpu"))
    width = engine.components.transformer.config.text_dim
    embeddings = [torch.randn(1, made.text_length, width) for _ in range(2)]
    bare(engine, made, embeddings)  # warm-up
    through_engine(engine, made, previews=True)
    rows: dict[str, list[float]] = {"bare": [], "engine": [], "previews": []}
    inside: dict[str, list[float]] = {"engine": [], "previews": []}
    forwards = 0
    for index in range(pairs):
        order = ["bare", "engine", "previews"]
        for name in order if index % 2 == 0 else reversed(order):
            if name == "bare":
                rows[name].append(bare(engine, made, embeddings))
            else:
                reading = through_engine(engine, made, previews=name == "previews")
                rows[name].append(reading.denoise)
                inside[name].append(reading.inside)
                forwards = reading.forwards
    return {
        "tokens": made.grid.tokens,
        "steps": steps,
        "forwards": forwards,
        "threads": 1,
        "cpu_seconds": {name: [round(value, 3) for value in row] for name, row in rows.items()},
        "engine_over_bare": ratios(rows["engine"], rows["bare"]),
        "engine_outside_calls": ratios(rows["engine"], inside["engine"]),
        "previews_over_bare": ratios(rows["previews"], rows["bare"]),
        "previews_outside_calls": ratios(rows["previews"], inside["previews"]),
    }


def main() -> None:
    """Measure, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = measure(options.pairs, options.steps)
    command = f"python -m benchmarks.overhead --pairs {options.pairs} --steps {options.steps}"
    content = report(command, **found)
    out = options.out or OUT / f"{content['date']}-overhead.json"
    write_report(out, content)
    print(
        f"{found['tokens']} tokens, {found['forwards']} forwards, one thread, {content['machine']}"
    )
    for name in (key for key in found if key.endswith(("_bare", "_calls"))):
        row = found[name]
        low, high = row["range_percent"]
        print(f"{name}: median {row['median_percent']} % (n={row['n']}, {low} to {high})")
    print(f"written: {out}")


if __name__ == "__main__":
    main()
