"""Flags come from the request's fields; only given ones reach it; starting up stays light."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PROMPT, small
from vidgen.request import aliases_of, fields

HEAVY = ("torch", "diffusers", "transformers")


def test_every_field_and_alias_is_a_flag_with_its_text(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shown = " ".join(run("generate", "--help").out.replace("│", " ").split())
    for name, info in fields().items():
        for word in (name, *aliases_of(info)):
            assert f"--{word.replace('_', '-')}" in shown
        assert info.description is not None
        assert info.description.split(".")[0].split(":")[0] in shown
        if isinstance(info.default, str):
            assert f"[default: {info.default}]" in shown


def test_help_says_that_the_default_is_a_toy_and_how_to_name_a_real_model(run: Any) -> None:
    for words in (["--help"], ["generate", "--help"], ["models", "ls"]):
        shown = run(*words).out
        assert "toy world" in shown
        assert "wan2.1-t2v-1.3b" in shown


def test_only_given_flags_reach_the_request(run: Any, tiny: str) -> None:
    ran = run("generate", PROMPT, *small(tiny), "--cfg", "2", "-n", "2", "--dry-run", "--json")
    assert ran.code == 0
    assert ran.last["plan"]["request"] == {
        "prompt": PROMPT, "model": tiny, "width": 32, "height": 32, "num_frames": 5,
        "num_inference_steps": 2, "seed": 7, "guidance_scale": 2.0, "n": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--frames", "1s", "--fps", "16"], "seconds", 1.0625),
        (["--seconds", "1s", "--fps", "8"], "num_frames", 9),
        (["--fps", "24000/1001"], "fps", "24000/1001"),
        (["--aspect", "1:1", "--res", "240p"], "width", 240),
        (["--infer_steps=3"], "steps", 3),
        (["-s", "5"], "seeds", [5]),
    ],
)
def test_aliases_and_forms(run: Any, tiny: str, words: list[str], field: str, value: Any) -> None:
    ran = run("generate", "-p", PROMPT, "--model", tiny, *words, "--dry-run", "--json")
    assert ran.code == 0, ran.err
    assert ran.last["plan"][field] == value


def test_a_seed_of_minus_one_is_drawn(run: Any, tiny: str) -> None:
    words = ["generate", PROMPT, "--model", tiny, "--seed", "-1", "--dry-run", "--json"]
    seeds = {run(*words).last["plan"]["seeds"][0] for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["generate", PROMPT, "--stepps", "3"], "--steps"),
        (["genrate", PROMPT], "generate"),
        (["generate", PROMPT, "--frames", "5", "--num-frames", "9"], "frames"),
        (["generate", PROMPT, "--steps", "900"], "200"),
        (["generate", PROMPT, "--format", "mp5"], "prores"),
        (["generate", PROMPT, "-p", "another"], "--prompt"),
        (["generate"], "prompt is missing"),
        (["generate", PROMPT, "--size", "big"], "832x480"),
        (["generate", PROMPT, "--name-template", "{colour}"], "{seed}"),
        (["generate", PROMPT, "--device", "cuda:x", "--dry-run"], "cuda:x"),
        (["finish", "a.mp4", "--interpolate", "3"], "4"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_exit_code_2_or_4(
    run: Any, words: list[str], said: str
) -> None:
    ran = run(*words)
    assert ran.code in (2, 4)
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    told = run(*words, "--json")
    assert told.code == ran.code
    assert told.err == ""
    assert said in told.last["error"]["message"]


def _modules_after(words: list[str], folder: Path) -> tuple[set[str], float]:
    """Run a command in a new process; return the modules that it loaded and its CPU seconds."""
    code = (
        "import sys, json, resource\n"
        "from vidgen.cli.main import main\n"
        f"code = main({words!r})\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([code, sorted(sys.modules), used.ru_utime + used.ru_stime]), "
        "file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    status, modules, seconds = json.loads(done.stderr.splitlines()[-1])
    assert status == 0, done.stderr
    return set(modules), seconds


def test_starting_up_loads_no_heavy_library(tiny: str, tmp_path: Path) -> None:
    wan = ["generate", PROMPT, "--model", "wan2.1-t2v-14b", "--dry-run"]
    for words in (
        ["--help"],
        ["generate", PROMPT, "--model", tiny, "--dry-run"],
        [*wan, "--device", "nvidia-h200", "--json"],
        ["chain", PROMPT, "--model", tiny, "--seconds", "4", "--dry-run"],
        ["models", "ls"],
        ["models", "sizes", "wan2.2-ti2v-5b"],
        ["config", "show"],
    ):
        modules, seconds = _modules_after(words, tmp_path)
        loaded = [name for name in HEAVY if name in modules]
        assert loaded == [], words
        if words == ["--help"]:
            assert not {"numpy", "av", "pydantic"} & modules
            print(f"vidgen --help: {seconds:.2f} CPU seconds")


def test_a_closed_pipe_is_quiet(tiny: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "vidgen.cli", "generate", PROMPT, "--model", tiny, "--dry-run"],
        cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == 1


def test_verbose_shows_where_an_unforeseen_error_came_from(
    run: Any, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("by a test")

    monkeypatch.setattr("vidgen.cli.generate.plan", broken)
    ran = run("generate", PROMPT, *small(tiny))
    assert ran.code == 1
    assert "by a test" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in run("generate", PROMPT, *small(tiny), "-v").err
