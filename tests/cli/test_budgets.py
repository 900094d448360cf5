"""`vidgen budgets`: what it measures, the file that it writes, and a clip that uses it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PROMPT, small
from vidgen.budgets import load_budgets
from vidgen.media import read_recipe

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCKS = ("--query-block=4", "--key-block=4")


def prompts(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({"prompt": PROMPT, **line}) + "\n" for line in lines))
    return path


def test_a_file_is_measured_written_extended_and_used(run: Any, tmp_path: Path) -> None:
    where = prompts(tmp_path / "p.jsonl", {}, {"num_frames": 9})
    measure = ("budgets", where, "--out=b.json", "--every=1", *BLOCKS)
    ran = run(*measure, *small("toyworld"), "--json")
    assert ran.code == 0, ran.err
    assert ran.last["grids"] == ["2x2x2", "3x2x2"]
    assert ran.last["forwards_seen"] == {"2x2x2": 4, "3x2x2": 4}  # 2 steps, with and without prompt
    found = load_budgets(tmp_path / "b.json")
    assert [(len(entry.kept), len(entry.kept[0])) for entry in found] == [(6, 4)] * 2
    assert all((entry.model, entry.query_block) == ("toyworld", 4) for entry in found)
    heads = [head for entry in found for row in entry.kept for head in row]
    assert all(list(head) == sorted(head) for head in heads)
    assert all(head[-1] == pytest.approx(1, abs=1e-4) for head in heads)
    assert len({head[0] for head in heads}) > 12

    more = prompts(tmp_path / "more.jsonl", {"num_frames": 13})
    ran = run("budgets", more, *measure[2:], *small("toyworld"))
    assert ran.code == 0, ran.err
    kept = load_budgets(tmp_path / "b.json")
    assert kept[:2] == found
    assert [entry.grid for entry in kept] == ["2x2x2", "3x2x2", "4x2x2"]

    clip = ("generate", PROMPT, *small("toyworld", frames=13), "--attention=topk", *BLOCKS)
    recipes = []
    for name in ("b.json", "uniform"):
        ran = run(*clip, f"--budgets={name}", "--density=0.5", f"--out={name}.mp4")
        assert ran.code == 0, ran.err
        recipes.append(json.loads(read_recipe(tmp_path / f"{name}.mp4")))
    words = [recipe["plan"]["sparse"]["budgets"] for recipe in recipes]
    assert words[0].startswith("per head ")
    assert words[1] == "uniform"
    assert recipes[0]["latents_sha256"] != recipes[1]["latents_sha256"]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"model": "tiny"}, "p.jsonl:2 has model="),
        ({"query_block": 8}, "p.jsonl:2 has query_block=8 and the first prompt 4"),
        ({"key_block": 8}, "p.jsonl:2 has key_block=8 and the first prompt 4"),
        ({"sink_frames": 1}, "p.jsonl:2 has sink_frames=1 and the first prompt 0"),
    ],
)
def test_prompts_that_are_measured_otherwise_are_refused(
    run: Any, tiny: str, tmp_path: Path, second: dict[str, Any], said: str
) -> None:
    if "model" in second:
        second = {"model": tiny}
    where = prompts(tmp_path / "p.jsonl", {}, {**second})
    ran = run("budgets", where, *BLOCKS, *small("toyworld"))
    assert ran.code == 2
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not (tmp_path / "budgets.json").exists()


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--n=2", "n=2"),
        ("--attention=window", "attention=window"),
        ("--density=0.5", "density=0.5"),
    ],
)
def test_options_that_no_measurement_follows_from_are_refused(
    run: Any, tmp_path: Path, option: str, field: str
) -> None:
    where = prompts(tmp_path / "p.jsonl", {})
    ran = run("budgets", where, option, *BLOCKS, *small("toyworld"))
    assert ran.code == 2
    assert f"vidgen budgets has {field}, which the measuring of budgets does not follow" in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    name, value = field.split("=")
    ran = run("budgets", prompts(where, {name: value}), *BLOCKS, *small("toyworld"))
    assert ran.code == 2
    assert f"p.jsonl:1 has {field}" in ran.err


def test_steps_that_are_too_few_to_be_looked_at_are_said(run: Any, tmp_path: Path) -> None:
    where = prompts(tmp_path / "p.jsonl", {}, {"num_frames": 9})
    ran = run("budgets", where, "--every=100", *BLOCKS, *small("toyworld"))
    assert ran.code == 2
    assert "6 of 6 self-attentions were not looked at on 3x2x2 tokens" in ran.err
    assert not (tmp_path / "budgets.json").exists()
