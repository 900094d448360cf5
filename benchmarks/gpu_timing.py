"""Timing on a GPU: arms in turns, CUDA events, medians and percentiles."""

import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import torch

SECONDS_PER_CELL = 0.3
LEAST_ROUNDS, MOST_ROUNDS = 5, 25


def clock_mhz() -> int | None:
    """Return the GPU's present clock, None where nvidia-smi does not say."""
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "--id=0"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return int(said.split()[0])
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return None


def interleaved(
    calls: Sequence[Callable[[], Any]], between: Callable[[], Any] | None = None
) -> tuple[list[list[float]], list[int | None]]:
    """Return milliseconds of each call, one list per call, and the clock of each round.

    between  runs before every call, outside the timing
    Every other round runs backwards. All calls have run before.
    """
    first = [_once(call, between) for call in calls]
    rounds = round(1000 * SECONDS_PER_CELL / max(1e-3, sum(first)))
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, rounds))
    times: list[list[float]] = [[] for _ in calls]
    clocks = []
    for number in range(rounds):
        order = range(len(calls)) if number % 2 == 0 else range(len(calls) - 1, -1, -1)
        for index in order:
            times[index].append(_once(calls[index], between))
        if number in (0, rounds // 2, rounds - 1):  # asking takes as long as many calls
            clocks.append(clock_mhz())
    return times, clocks


def _once(call: Callable[[], Any], between: Callable[[], Any] | None) -> float:
    if between is not None:
        between()
    begun = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    done = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    begun.record()
    out = call()
    done.record()
    done.synchronize()
    del out
    return float(begun.elapsed_time(done))


def summary(times: Sequence[float]) -> dict[str, float]:
    """Return median, 10th and 90th percentile in milliseconds."""
    ordered = sorted(times)
    last = len(ordered) - 1
    return {
        "ms": round(statistics.median(ordered), 4),
        "p10": round(ordered[round(0.1 * last)], 4),
        "p90": round(ordered[round(0.9 * last)], 4),
        "rounds": len(ordered),
    }
