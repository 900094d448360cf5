"""From the flags to files: names, several clips, sheets, previews, what survives a failure."""

import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import PROMPT, small
from vidgen.errors import BadOutput
from vidgen.media import read_recipe


def test_json_lines_tell_the_whole_story(run: Any, tiny: str, tmp_path: Path) -> None:
    ran = run(
        "generate", PROMPT, *small(tiny, frames=9, steps=4), "--json", "--out", "new/a.mp4",
        "--sheet", "a.png", "--preview-file", "a.webp",
    )  # fmt: skip
    assert ran.code == 0, ran.out
    assert ran.err == ""
    events = [line["event"] for line in ran.lines]
    assert events[0] == "plan"
    assert events[-1] == "result"
    steps = [line for line in ran.lines if line.get("stage") == "denoise"]
    assert [(line["done"], line["total"]) for line in steps] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    clip = ran.last["clips"][0]
    assert (clip["path"], clip["seed"], clip["num_frames"]) == ("new/a.mp4", 7, 9)
    assert clip["latents"] is None
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a.mp4"]
    with Image.open("a.png") as sheet:
        assert sheet.width > 5 * 192
    assert run("info", "a.png", "--json").last["recipe"]["latents_sha256"] == clip["latents_sha256"]
    with Image.open("a.webp") as preview:
        assert getattr(preview, "n_frames", 1) == 3


def test_the_recipe_in_the_file_is_whole(run: Any, tiny: str, tmp_path: Path) -> None:
    first = tmp_path / "first.png"
    Image.fromarray(np.full((32, 32, 3), (200, 30, 30), np.uint8)).save(first)
    ran = run("generate", PROMPT, *small(tiny), "--image", first, "--out", "a.mp4", "--json")
    assert ran.code == 0, ran.out
    recipe = run("info", "a.mp4", "--json").last["recipe"]
    assert recipe["request"]["prompt"] == PROMPT
    assert recipe["latents_sha256"] == ran.last["clips"][0]["latents_sha256"]
    assert recipe["trace"]["forwards"] == 4
    assert set(recipe["trace"]["seconds"]) == {"encode", "condition", "denoise"}
    assert set(recipe["files"]) == {str(first)}
    assert run("info", "a.mp4", "--verify").code == 0
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(first)
    changed = run("info", "a.mp4", "--verify", "--json")
    assert changed.code == 1
    assert [check["ok"] for check in changed.last["verify"]] == [True, False]


def test_several_clips_are_numbered_and_item_0_is_that_of_one(run: Any, tiny: str) -> None:
    ran = run("generate", PROMPT, *small(tiny), "-n", 2, "--out", "a.mp4", "--json")
    one = run("generate", PROMPT, *small(tiny), "--out", "one.mp4", "--json")
    clips = ran.last["clips"]
    assert [clip["path"] for clip in clips] == ["a-1.mp4", "a-2.mp4"]
    assert [clip["seed"] for clip in clips] == [7, 8]
    assert clips[0]["latents_sha256"] == one.last["clips"][0]["latents_sha256"]
    assert clips[1]["latents_sha256"] != clips[0]["latents_sha256"]


def test_names_come_from_a_template_and_replace_nothing(run: Any, tiny: str) -> None:
    words = ["generate", PROMPT, *small(tiny), "--json"]
    names = [run(*words).last["clips"][0]["path"] for _ in range(2)]
    match = re.fullmatch(r"\d{8}_([0-9a-f]{8})_7\.mp4", names[0])
    assert match is not None
    assert names[1] == names[0].replace("_7.mp4", "_7_2.mp4")
    ran = run(*words, "--name-template", "{prompt:.9}_{width}x{height}", "--format", "webm")
    assert ran.last["clips"][0]["path"] == "a_big_red_32x32.webm"


@pytest.mark.parametrize("suffix", [".gif", ".mov", ".mkv"])
def test_the_suffix_of_the_file_means_its_format(run: Any, tiny: str, suffix: str) -> None:
    ran = run("generate", PROMPT, *small(tiny), "--out", f"a{suffix}", "--json")
    assert ran.code == 0, ran.out
    with av.open(f"a{suffix}") as container:
        assert sum(1 for _ in container.decode(video=0)) == 5
    assert read_recipe(f"a{suffix}") is not None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--out", "a.avi"], 2, "a.mp4"),
        (["--out", "a.mp4", "--format", "webm"], 2, "a.webm"),
        (["--out", "a.mp4", "--crf", "60"], 2, "51"),
        (["--sheet", "a.bmp"], 2, ".png"),
        (["--preview-file", "a.mp4"], 2, ".webp"),
        (["--image", "absent.png"], 4, "absent.png"),
        (["--device", "nvidia-h200"], 2, "dry-run"),
        (["--loras", "absent.safetensors"], 4, "absent.safetensors"),
        (["--prompt-file", "absent.txt"], 2, "PROMPT and --prompt-file"),
    ],
)
def test_a_mistake_is_told_before_any_work(
    run: Any, tiny: str, words: list[str], code: int, said: str
) -> None:
    ran = run("generate", PROMPT, *small(tiny), *words)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert "load " not in ran.err


def test_models_that_are_not_there(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidgen.device._host_bytes", lambda: 2**40)
    for words, said in (
        (["--model", "wan2.1-t2v-1.3"], "Did you mean wan2.1-t2v-1.3b"),
        (["--model", "nobody/nothing"], "vidgen models pull nobody/nothing"),
        (["--model", "wan2.1-t2v-1.3b", "--offline", "--device", "cpu"], "vidgen models pull"),
    ):
        ran = run("generate", PROMPT, "--size", "64x64", "--frames", 5, "--steps", 1, *words)
        assert ran.code == 4, ran.err
        assert said in ran.err


def test_finished_clips_survive_a_later_failure(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vidgen import engine

    honest = engine.denoise
    calls = []

    def failing(*words: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise BadOutput("The latents are not finite after step 1 of 2.", code="nan_latents")
        return honest(*words)

    monkeypatch.setattr(engine, "denoise", failing)
    ran = run("generate", PROMPT, *small(tiny), "-n", 3, "--out", "a.mp4", "--sheet", "a.png",
              "--json")  # fmt: skip
    assert ran.code == 5
    assert ran.last["error"]["code"] == "nan_latents"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.mp4", "a.png"]


def test_a_full_disk_is_told_before_the_work(
    run: Any, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vidgen.cli import making

    monkeypatch.setattr(making.shutil, "disk_usage", lambda _: type("U", (), {"free": 10})())
    ran = run("generate", PROMPT, *small(tiny), "--out", "a.mp4")
    assert ran.code == 3
    assert "free" in ran.err


def test_quiet_says_nothing_and_progress_goes_to_stderr(run: Any, tiny: str) -> None:
    quiet = run("generate", PROMPT, *small(tiny), "--out", "a.mp4", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    loud = run("generate", PROMPT, *small(tiny), "--out", "a.mp4")
    assert loud.out.startswith("a.mp4  32x32, 5 frames at 16 fps, seed 7")
    assert "denoise 2/2" in loud.err
