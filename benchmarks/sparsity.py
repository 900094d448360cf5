"""What sparse attention costs in quality, on toyworld: `python -m benchmarks.sparsity`.

velocity   error of the velocity and share of attention kept, along dense trajectories
rendered   whole clips against the dense ones of the same seeds: PSNR, SSIM, what a detector reads
All arms see the same prompts, seeds and states, so they are compared in pairs with the base. The
arm "dense, permuted" is the noise floor: every key, through the sparse executor. What each arm
computes is counted while it runs.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import report, write_report
from benchmarks.sparse_arms import FEWER, Arm, Shape, arms_of
from benchmarks.sparsity_parts import rendered_rows, velocity_rows

SHAPES: dict[str, Shape] = {"1296": (33, 192, 192), "3024": (81, 192, 192)}
NUM_STATES = 8
NOT_PRINTED = ("differs", "flops", "by noise level")


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
    shape = SHAPES[args.tokens]
    arms = chosen(arms_of(shape, args.backend), args.arms)
    if args.part == "velocity":
        arms = [arm for arm in arms if arm.name != FEWER]
        rows = velocity_rows(shape, arms, args.prompts, args.states)
    else:
        rows = rendered_rows(shape, arms, args.prompts, args.sheet)
    command = shlex.join(
        ["python", "-m", "benchmarks.sparsity", *(sys.argv[1:] if argv is None else argv)]
    )
    content: dict[str, Any] = {}
    for content in rows:
        if args.out is not None:
            write_report(args.out, report(command, tokens=args.tokens, **content))
    print(table(content["arms"]))


def chosen(known: list[Arm], names: Sequence[str] | None) -> list[Arm]:
    """Return the arms of these names, all without names."""
    if names is None:
        return known
    by_name = {arm.name: arm for arm in known}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise SystemExit(f"There is no arm {missing[0]!r}; known are {', '.join(by_name)}.")
    return [by_name[name] for name in names]


def table(arms: dict[str, Any]) -> str:
    """Return the arms' results as Markdown."""
    columns: list[str] = []
    for found in arms.values():
        columns += [name for name in found if name not in (*columns, *NOT_PRINTED)]
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
