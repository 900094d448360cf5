"""How fast chains of clips drift on toyworld, by the way they are chained: one thing at a time.

Run:  python -m benchmarks.drift chains|sparse [--stories 8] [--clips 12] [--work FOLDER]
chains   from today's practice (the last frame of the mp4, one seed) to every strategy and control
sparse   sparse against dense attention, on chains of the same seeds
Every chain keeps its clips in the work folder, so that a benchmark that was stopped goes on where
it was. Rates are the drift meter's, change per clip; their intervals are over stories.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drift_arms import (
    CHAIN_ARMS,
    CLIP_FRAMES,
    SPARSE_ARMS,
    Arm,
    Plot,
    plots,
    story_of,
)
from benchmarks.intervals import mean_of, paired
from benchmarks.report import report, write_report
from benchmarks.train.detector import detect
from benchmarks.train.sheets import contact_sheet
from chaining.chain import Chain, Result
from chaining.drift.compare import compare
from chaining.drift.features import ClipFeatures
from chaining.drift.meter import DriftMeter
from chaining.engine_maker import EngineMaker
from chaining.manifest import NAME
from chaining.takes import FEATURES
from vidgen.device import cpu_profile
from vidgen.engine import Engine
from vidgen.models import resolve

PARTS: dict[str, tuple[Arm, ...]] = {"chains": CHAIN_ARMS, "sparse": SPARSE_ARMS}
RATES = ("gain", "spread", "chroma", "hue", "cast", "blur", "noise", "flow")
SHOWN = ("gain", "chroma", "hue", "cast", "blur")


def main(argv: Sequence[str] | None = None) -> None:
    """Run one part and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drift", description=__doc__)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--stories", type=int, default=8)
    parser.add_argument("--clips", type=int, default=12)
    parser.add_argument("--frames", type=int, default=CLIP_FRAMES, help="of a clip")
    parser.add_argument("--size", type=int, default=96, help="width and height")
    parser.add_argument("--steps", type=int, default=10, help="denoising steps of a clip")
    parser.add_argument("--arms", nargs="*", help="names of arms; all when omitted")
    parser.add_argument("--work", type=Path, required=True, help="folder of the chains")
    parser.add_argument("--out", type=Path, help="JSON to write; written after every story")
    parser.add_argument("--sheets", type=Path, help="folder for contact sheets")
    args = parser.parse_args(argv)
    arms = [arm for arm in PARTS[args.part] if args.arms is None or arm.name in args.arms]
    if args.arms is not None and len(arms) < len(set(args.arms)):
        known = ", ".join(arm.name for arm in PARTS[args.part])
        parser.error(f"not every one of {args.arms} is an arm; known are {known}")
    engine = Engine.load(resolve("toyworld"))
    runs: dict[str, list[Any]] = {arm.name: [] for arm in arms}
    began, done = time.monotonic(), 0
    for number, plot in enumerate(plots(args.stories, args.clips)):
        for arm in arms:
            runs[arm.name].append(_run(engine, plot, arm, args, args.work / f"{number:02d}"))
            done += 1
            _tell(began, done, args.stories * len(arms), f"story {number + 1}, {arm.name}")
        if args.sheets is not None:
            _sheet(runs, args.sheets / f"drift-{args.part}-{number:02d}.png")
        content = {
            "shape": [args.frames, args.size, args.size],
            "clips": args.clips,
            "steps": args.steps,
            "arms": {arm.name: _summary(arm, runs) for arm in arms},
        }
        if args.out is not None:
            command = shlex.join(["python", "-m", "benchmarks.drift", *(argv or sys.argv[1:])])
            write_report(args.out, report(command, **content))
    print(_table(content["arms"]))


def _run(engine: Engine, plot: Plot, arm: Arm, args: argparse.Namespace, folder: Path) -> Any:
    """Make one chain, or take up what is there; return its readings."""
    shape = (args.frames, args.size, args.size)
    story = story_of(plot, arm, shape, args.steps)
    profile = cpu_profile(1, 2**34)
    place = folder / arm.name.replace(" ", "-").replace(",", "")
    chain = Chain(story, EngineMaker(story, profile, engine), place)
    result = chain.run(resume=(place / NAME).is_file())
    return _Run(result, plot)


class _Run:
    """The readings of one chain.

    fails_at  clip with which the meter's verdict first is fail; None if it never is
    """

    def __init__(self, result: Result, plot: Plot) -> None:
        assert result.drift is not None
        self.plot = plot
        self.takes = result.takes
        self.slopes = {name: result.drift.slopes[name].value for name in RATES}
        self.verdict = result.drift.verdict.overall
        self.by_group = result.drift.verdict.by_group
        self.distance = result.drift.clips[-1].distance
        self.features = [ClipFeatures.load(take.folder / FEATURES) for take in result.takes]
        self.fails_at = self._fails_at()

    def _fails_at(self) -> int | None:
        for clips in range(3, len(self.features) + 1):
            meter = DriftMeter(16, features=self.features[:clips])
            if meter.report().verdict.overall == "fail":
                return clips
        return None

    def read_last(self) -> dict[str, bool]:
        """Return what the detector still finds in the last clip of what it should show."""
        frames = np.concatenate(list(self.takes[-1].shown(0)))
        found = detect(frames).verdict(self.plot.scenes[-1])
        return {name: bool(found[name]) for name in ("colour", "shape", "background")}

    def middles(self) -> Any:
        """Return the middle frame of every clip."""
        return np.stack([_middle(take.shown(0)) for take in self.takes])


def _middle(chunks: Any) -> Any:
    frames = np.concatenate(list(chunks))
    return frames[len(frames) // 2]


def _summary(arm: Arm, runs: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the means over stories, and the paired differences to the arm it is judged against."""
    mine = runs[arm.name]
    rates = {name: [run.slopes[name] for run in mine] for name in RATES}
    found: dict[str, Any] = {
        "differs": arm.differs,
        "against": arm.against,
        "rates": {name: mean_of(values).as_dict() for name, values in rates.items()},
        "size of rates": {
            name: mean_of([abs(value) for value in values]).as_dict()
            for name, values in rates.items()
        },
        "distance to the first clip": mean_of([run.distance for run in mine]).as_dict(),
        "verdicts": [run.verdict for run in mine],
        "verdicts by group": [run.by_group for run in mine],
        "fails at clip": [run.fails_at for run in mine],
        "last clip read": _shares([run.read_last() for run in mine]),
    }
    base = runs.get(arm.against or "")
    if base:
        found["size of rates against"] = {
            name: paired(
                [abs(value) for value in values],
                [abs(run.slopes[name]) for run in base[: len(mine)]],
            ).as_dict()
            for name, values in rates.items()
        }
        if arm.request:
            found["paired rates"] = _paired_rates(mine, base)
    return found


def _paired_rates(mine: list[Any], base: list[Any]) -> dict[str, Any]:
    """Return the difference of rates frame by frame, which content cannot blur."""
    found = [compare(b.features, m.features).slopes for m, b in zip(mine, base, strict=False)]
    return {name: mean_of([slopes[name].value for slopes in found]).as_dict() for name in RATES}


def _shares(verdicts: list[dict[str, bool]]) -> dict[str, float]:
    return {name: float(np.mean([one[name] for one in verdicts])) for name in verdicts[0]}


def _sheet(runs: dict[str, list[Any]], path: Path) -> None:
    rows = [(f"{name}: {found[-1].verdict}", found[-1].middles()) for name, found in runs.items()]
    contact_sheet(rows, path, num_frames=len(rows[0][1]), columns=1)


def _tell(began: float, done: int, total: int, what: str) -> None:
    left = (time.monotonic() - began) / done * (total - done)
    print(f"{done}/{total} {what}, ETA {left / 60:.1f} min", file=sys.stderr, flush=True)


def _table(arms: dict[str, Any]) -> str:
    lines = [
        f"| arm | {' | '.join(SHOWN)} | distance at the end | verdicts | fails at |",
        "|---" * (len(SHOWN) + 4) + "|",
    ]
    for name, found in arms.items():
        cells = [_cell(found["rates"][signal]) for signal in SHOWN]
        counts = {word: found["verdicts"].count(word) for word in sorted(set(found["verdicts"]))}
        said = ", ".join(f"{count} {word}" for word, count in counts.items())
        fails = json.dumps(found["fails at clip"])
        end = _cell(found["distance to the first clip"])
        lines.append(f"| {name} | {' | '.join(cells)} | {end} | {said} | {fails} |")
    return "\n".join(lines)


def _cell(value: dict[str, Any]) -> str:
    return f"{value['mean']:+.4f} +- {value['half']:.4f}"


if __name__ == "__main__":
    main()
