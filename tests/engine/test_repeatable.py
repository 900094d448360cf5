"""The same request makes the same bits: a second time, and in another process."""

import subprocess
import sys

import pytest

from tests.engine.cases import CASES


def start(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.engine.bits", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bits(process: "subprocess.Popen[str]") -> dict[tuple[str, str], tuple[str, str]]:
    """Hashes of latents and frames, by case and number of the run."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    lines = [line.split() for line in out.splitlines()]
    return {(name, again): (latents, frames) for name, again, latents, frames in lines}


@pytest.mark.slow
def test_every_task_makes_the_same_bits_again_and_in_another_process() -> None:
    processes = [start("twice"), start()]
    twice, once = map(bits, processes)
    assert [name for name, _ in once] == [case.name for case in CASES]
    for case in CASES:
        assert twice[case.name, "0"] == once[case.name, "0"], case.name
        assert twice[case.name, "1"] == once[case.name, "0"], case.name
    assert len(set(once.values())) == len(CASES)
