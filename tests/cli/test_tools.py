"""The commands about models, LoRAs, the machine and old files."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.cli.conftest import PROMPT, save_lora, small


def test_models_check_finds_what_is_missing(run: Any, tiny: str, tmp_path: Path) -> None:
    assert run("models", "check", tiny, "--json").last["whole"] is True
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken)
    weights = next((broken / "vae").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.rmtree(broken / "scheduler")
    ran = run("models", "check", broken, "--json")
    assert ran.code == 4
    missing = {part["part"]: part["missing"] for part in ran.last["parts"] if part["missing"]}
    assert missing == {"vae": [f"the end of {weights.name}"], "scheduler": ["configuration"]}
    weights.rename(weights.with_suffix(".bin"))
    refused = run("models", "check", broken)
    assert refused.code == 2
    assert "pickle" in refused.err
    assert run("models", "check", "wan2.1-t2v-1.3b").code == 4


def test_sizes_are_legal_and_counted(run: Any, tiny: str) -> None:
    ran = run("models", "sizes", "wan2.2-ti2v-5b", "--json").last
    assert (ran["width_multiple"], ran["frames"], ran["fps"]) == (32, "4n+1", 24)
    assert ran["sizes"][0]["tokens"] == 27280
    for row in ran["sizes"]:
        width, height = map(int, row["made"].split("x"))
        assert width % 32 == height % 32 == 0
    assert "854" not in run("models", "sizes", tiny).out
    rows = run("models", "sizes", "wan2.1-t2v-1.3b", "--json").last["sizes"]
    (wide,) = (row for row in rows if row["asked"] == "480p 16:9")
    asked = ("--resolution=480p", "--aspect=16:9", "--dry-run", "--json")
    made = run("generate", "a cat", "--model=wan2.1-t2v-1.3b", *asked).last["plan"]
    assert wide["file"] == "854x480"
    assert wide["made"] == f"{made['width']}x{made['height']}"


def test_pull_refuses_what_is_here_already_and_respects_offline(run: Any, tiny: str) -> None:
    assert run("models", "pull", tiny).code == 2
    assert run("models", "pull", "toyworld").code == 2
    assert run("models", "pull", "wan2.1-t2v-1.3b", "--offline").code == 4


def test_loras_are_listed_and_checked_without_weights(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ["blocks.0.attn1.to_q", "blocks.1.attn1.to_k"]
    save_lora(tmp_path / "good.safetensors", there)
    save_lora(tmp_path / "part.safetensors", [*there, "blocks.7.attn1.to_q"])
    save_lora(tmp_path / "other.safetensors", ["layers.0.wq"])
    save_file({"x": np.zeros(3, np.float32)}, tmp_path / "none.safetensors")
    found = run("loras", "ls", "--json").last["loras"]
    assert {item["file"]: (item["modules"], item["ranks"]) for item in found} == {
        "good.safetensors": (2, [4]), "part.safetensors": (3, [4]), "other.safetensors": (1, [4]),
    }  # fmt: skip
    for name, code, counts in (("good", 0, (2, 0)), ("part", 0, (2, 1)), ("other", 2, (0, 1))):
        ran = run("loras", "check", f"{name}.safetensors:0.5", "--model", tiny, "--json")
        assert ran.code == code
        expert = ran.last["experts"][0]
        assert (expert["matched"], expert["unmatched"]) == counts
    two = run("loras", "check", "good.safetensors", "--model", "wan2.2-t2v-a14b", "--json").last
    assert [item["expert"] for item in two["experts"]] == ["high", "low"]
    assert run("loras", "check", "absent.safetensors", "--model", tiny).code == 4


def test_a_lora_with_unknown_modules_is_an_adjustment_in_the_file(
    run: Any, tiny: str, tmp_path: Path
) -> None:
    save_lora(tmp_path / "part.safetensors", ["blocks.0.attn1.to_q", "blocks.7.attn1.to_q"])
    words = ["generate", PROMPT, *small(tiny), "--lora", "part.safetensors", "--out", "a.mp4"]
    ran = run(*words)
    assert ran.code == 0, ran.err
    assert "1 of 2 modules" in ran.err
    recipe = run("info", "a.mp4", "--json").last["recipe"]
    assert [item["field"] for item in recipe["adjustments"]] == ["loras"]
    assert list(recipe["files"]) == [str(tmp_path / "part.safetensors")]
    assert run(*words, "--strict").code == 2


def test_doctor_finds_this_machine_able(run: Any) -> None:
    ran = run("doctor", "--json")
    checks = {item["name"]: item["state"] for item in ran.last["checks"]}
    assert ran.code == (0 if ran.last["healthy"] else 1)
    for name in ("torch", "diffusers", "ffmpeg", "colours", "home"):
        assert checks[name] in ("ok", "note"), ran.out
    assert "colours" in run("doctor").out


def test_gc_deletes_old_latents_and_leftovers_only(run: Any, tmp_path: Path) -> None:
    old = time.time() - 10 * 86400
    names = [
        "a.mp4", "a.mp4.latents.safetensors", "b.mp4.1a2b.part", "notes.part", "new.mp4.part",
        "lora.safetensors",
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).write_bytes(b"x")
        if not name.startswith("new"):
            os.utime(tmp_path / name, (old, old))
    shown = run("gc", ".", "--dry-run", "--json", "--home", tmp_path / "home").last
    gone = {"a.mp4.latents.safetensors", "b.mp4.1a2b.part"}
    assert {item["path"] for item in shown["items"]} == gone
    assert len(list(tmp_path.iterdir())) == len(names)
    assert run("gc", ".", "--home", tmp_path / "home").code == 0
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"a.mp4", "notes.part", "new.mp4.part", "lora.safetensors"}
    assert run("gc", "absent").code == 4
    assert run("gc", ".", "--older-than", "old").code == 2


def test_every_answer_is_one_json_line(run: Any, tiny: str) -> None:
    for words in (["models", "ls"], ["models", "sizes"], ["config", "show"], ["config", "path"],
                  ["loras", "ls"], ["gc"]):  # fmt: skip
        ran = run(*words, "--json")
        assert ran.code == 0
        assert len(ran.out.splitlines()) == 1
        assert isinstance(json.loads(ran.out), dict)
