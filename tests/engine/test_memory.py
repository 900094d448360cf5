"""Memory does not grow: neither from job to job nor with the length of a clip."""

import subprocess
import sys

import pytest

JOBS = """
import psutil, torch
torch.set_num_threads(1)
from tests.engine.test_engine import engine, TOY
from tests.engine.cases import make_plan
run, process = engine(TOY), psutil.Process()
plan = make_plan(TOY, num_frames=5, num_inference_steps=2)
for job in range(60):
    run.run(plan)
    if job >= 10:
        print(process.memory_info().rss)
"""

LONG = """
import sys
from fractions import Fraction
from pathlib import Path
import psutil, torch
torch.set_num_threads(1)
from tests.engine.test_engine import engine, TOY
from tests.engine.cases import make_plan
from vidgen.latents import SavedLatents
from vidgen.media import VideoWriter
run, process = engine(TOY), psutil.Process()
clip = run.run(make_plan(TOY, num_frames=5, num_inference_steps=1))
long = clip.latents[:, :1].repeat(1, 481, 1, 1)
for name, latents in (("warm", long[:, :21]), ("long", long)):
    path = Path(sys.argv[1]) / f"{name}.mp4"
    made = {**clip.recipe["plan"], "num_frames": 4 * latents.shape[1] - 3}
    saved = SavedLatents(latents, {**clip.recipe, "plan": made})
    with VideoWriter(path, width=64, height=64, fps=Fraction(16)) as writer:
        before = process.memory_info().rss
        run.decode(saved, open_sink=lambda recipe: writer)
    print(writer.num_frames, process.memory_info().rss - before)
"""


def run(code: str, *arguments: str) -> list[list[int]]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_fifty_jobs_do_not_grow_the_process() -> None:
    readings = [row[0] for row in run(JOBS)]
    assert len(readings) == 50
    slope = least_squares_slope(readings)
    print(f"resident memory over 50 jobs: {slope / 2**20:+.3f} MiB a job")
    assert slope < 2**20


def least_squares_slope(values: list[int]) -> float:
    middle = (len(values) - 1) / 2
    mean = sum(values) / len(values)
    rise = sum((i - middle) * (value - mean) for i, value in enumerate(values))
    return rise / sum((i - middle) ** 2 for i in range(len(values)))


@pytest.mark.slow
def test_two_minutes_of_frames_are_decoded_and_written_in_bounded_memory(tmp_path) -> None:
    (warm_frames, _), (frames, growth) = run(LONG, str(tmp_path))
    assert (warm_frames, frames) == (81, 1921)
    held = 1921 * 64 * 64 * 3 * 4
    print(f"1,921 frames grew the process by {growth / 2**20:.1f} MiB; held they are {held >> 20}")
    assert growth < held / 4
