"""Names, streams, batch files and recipes that nobody should give end in one sentence."""

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import PROMPT, small, spawn
from vidgen.cli.batch_items import Manifest, make_items, read_grid, read_prompts
from vidgen.errors import BadRequest
from vidgen.media import VideoWriter, read_recipe

LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("info", LONG), ("decode", LONG), ("repeat", LONG), ("finish", LONG), ("gc", LONG),
        ("batch", f"{LONG}.txt"), ("generate", "--prompt-file", LONG),
        ("generate", "x", "--out", f"{LONG}.mp4"), ("generate", "x", "--config", LONG),
        ("generate", "x", "--home", LONG),
    ],
)  # fmt: skip
def test_a_name_that_is_too_long_is_a_sentence(run: Any, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert "File name too long" in ran.err
    assert "foresee" not in ran.err


def test_paths_that_are_no_files_are_sentences(run: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    (tmp_path / "folder.txt").mkdir()
    for words, code in (
        (("info", "pipe.safetensors"), 0),  # told as a file without a recipe
        (("decode", "pipe.safetensors"), 2),
        (("decode", "absent"), 4),
        (("batch", "folder.txt"), 2),
        (("batch", "absent.txt"), 4),
        (("generate", "--prompt-file", "folder.txt"), 2),
        (("generate", "--prompt-file", "absent"), 4),
        (("generate", "x", "--out", ".", "--format", "png", "-n", "2"), 2),
        (("generate", "x", "--dry-run", "--out", "a.avi"), 2),
        (("generate", "x", "--dry-run", "--format", "png", "--crf", "9"), 2),
        (("config", "show", "--home", "~no-such-user/x"), 4),
    ):
        ran = run(*words)
        assert (ran.code, "foresee" in ran.err) == (code, False), (words, ran.err)


def test_stills_that_cannot_be_written_are_told_before_the_run(
    run: Any, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "file").write_bytes(b"")
    for flags, code in (
        (("--sheet", "folder.png"), 2),
        (("--sheet", "file/a.png"), 3),
        (("--preview-file", "a.gif"), 2),
        (("--sheet", "b.png", "--preview-file", "b.png"), 2),
        (("--sheet", f"{LONG}.png"), 2),
    ):
        ran = run("generate", PROMPT, *small(tiny), "--out", "a.gif", *flags)
        assert (ran.code, "foresee" in ran.err) == (code, False), (flags, ran.err)
        assert not (tmp_path / "a.gif").exists()
    ran = run("generate", PROMPT, *small(tiny), "--out", "file/a.mp4", "--keep-latents", "never")
    assert ran.code == 3
    assert "denoise" not in ran.err


def test_a_stream_that_takes_nothing_is_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vidgen.cli"]
    for words, redirection, code in (
        ("config path", ">&-", 0), ("config path", ">/dev/full", 3),
        ("info absent --json", ">/dev/full", 1), ("info absent", "2>&-", 4),
    ):  # fmt: skip
        ran = subprocess.run(
            ["bash", "-c", f'"$@" {words} {redirection}', "_", *command],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == code, (words, ran.stderr)
        assert "Traceback" not in ran.stderr
        assert "foresee" not in ran.stderr + ran.stdout
        assert ran.stdout == ""


def test_json_is_json_in_any_encoding(tmp_path: Path) -> None:
    words = ("generate", "\N{SNOWMAN} \N{DIZZY SYMBOL}", "--dry-run")
    ran = spawn(*words, "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert ran.last["plan"]["request"]["prompt"] == words[1]
    assert spawn("info", "\N{SNOWMAN}", cwd=tmp_path, PYTHONIOENCODING="ascii").code == 4
    ran = spawn("info", "absent", "--json=true", cwd=tmp_path)
    assert ran.last["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", "prompt,prompt\na,b\n", "each by another name"),
        ("a.csv", "prompt,\na,\n", "name every column"),
        ("a.csv", 'prompt\n"a\n', "is not CSV"),
        ("a.csv", "prompt\n" + "a" * 140_000, "is not CSV"),
        ("a.jsonl", "[" * 100_000, "a.jsonl:1 is not JSON"),
    ],
)
def test_a_batch_file_that_is_damaged_is_a_sentence(
    name: str, content: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=told):
        read_prompts(tmp_path / name)


def test_only_a_line_end_ends_a_line(tmp_path: Path) -> None:
    prompt = "a\u2028b\x85c"
    (tmp_path / "a.txt").write_text(f"{prompt}\r\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": prompt}, ensure_ascii=False))
    for name in ("a.txt", "a.jsonl"):
        assert read_prompts(tmp_path / name) == [(f"{name}:1", {"prompt": prompt})]


def test_equal_lines_make_one_clip_and_it_says_so() -> None:
    lines = [("a:1", {"prompt": "x"}), ("a:2", {"prompt": "y"}), ("a:3", {"prompt": "x"})]
    assert [item.where for item in make_items({}, lines, [], [], 1)] == ["a:1, a:3", "a:2"]


@pytest.mark.parametrize(
    "text", ["seed=4..1", "seed=,", "seed=1..999999999999", "seed=1..1000000000000000000000,"]
)
def test_a_grid_that_is_empty_or_endless_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="grid"):
        read_grid([text, "cfg=1..101", "steps=1..100"] if text.endswith("0,") else [text])


def test_a_manifest_survives_a_kill_in_the_middle_of_a_line(tmp_path: Path) -> None:
    prompt = "a \N{SNOWMAN}\u2028ball"
    items = make_items({}, [("a:1", {"prompt": prompt}), ("a:2", {"prompt": "b"})], [], [], 1)
    whole = {"id": items[0].id, "file": "one.mp4", "request": {"prompt": prompt}}
    line = json.dumps(whole, ensure_ascii=False).encode()
    cut = line[: line.index("\N{SNOWMAN}".encode()) + 1]
    (tmp_path / "batch.jsonl").write_bytes(b'{"seed": 5}\n' + line + b"\n" + cut)
    for name in ("one.mp4", "two.mp4"):
        (tmp_path / name).write_bytes(b"")
    manifest = Manifest(tmp_path)
    assert manifest.seed() == 5
    assert manifest.file_of(items[0]) == tmp_path / "one.mp4"
    manifest.add(items[1], tmp_path / "two.mp4")
    assert Manifest(tmp_path).file_of(items[1]) == tmp_path / "two.mp4"
    (tmp_path / "batch.jsonl").write_text('{"seed": "x"}\n')
    with pytest.raises(BadRequest, match="seed='x'"):
        Manifest(tmp_path).seed()


@pytest.mark.parametrize(
    "template", ["{seed:s}", "{seed:>99999}", "{seed:{width}}", "{prompt.upper}", "../{seed}"]
)
def test_a_template_that_no_clip_can_fill_is_refused(run: Any, template: str) -> None:
    ran = run("generate", "x", "--dry-run", "--name-template", template)
    assert (ran.code, "name_template" in ran.err) == (2, True)


def test_a_recipe_that_was_tampered_with_is_a_sentence(run: Any, tiny: str, tmp_path: Path) -> None:
    assert run("generate", PROMPT, *small(tiny), "--out", "a.mp4").code == 0
    good = json.loads(read_recipe("a.mp4") or "")
    assert run("info", "a.mp4").code == 0
    tampered: list[dict[str, Any]] = [{"vidgen_recipe": 1}, good | {"plan": 5}]
    tampered += [{key: good[key] for key in good if key != lost} for lost in good]
    tampered += [good | {"plan": good["plan"] | change} for change in (
        {"fps": "0"}, {"width": "x"}, {"flow_shift": "q"}, {"loras": [5]}, {"vae_tiling": "x"},
    )]  # fmt: skip
    tampered += [good | {"adjustments": [{"x": 1}]}, good | {"finish": 3}, good | {"trace": 3}]
    for recipe in tampered:
        text = json.dumps(recipe)
        with VideoWriter("b.mp4", width=32, height=32, fps=Fraction(8), recipe=text) as writer:
            writer.write(np.zeros((1, 32, 32, 3), np.float32))
        assert run("info", "b.mp4").code == 0
        for words in (("info", "b.mp4", "--verify"), ("repeat", "b.mp4"), ("decode", "b.mp4")):
            ran = run(*words)
            assert (ran.code, "ecipe" in ran.err) == (2, True), (words, ran.err)


def test_settings_and_parts_that_cannot_be_read_are_sentences(run: Any, tmp_path: Path) -> None:
    (tmp_path / "number.yaml").write_text("1: 2\n")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name in ("number.yaml", "deep.json"):
        ran = run("generate", "x", "--dry-run", "--config", name)
        assert (ran.code, name in ran.err) == (2, True)
    (tmp_path / "vidgen.toml").write_bytes(b"\xff\n")
    ran = run("config", "set", "seed", "1", "--home", ".")
    assert (ran.code, "not UTF-8" in ran.err) == (2, True)
    with VideoWriter("a.mp4", width=32, height=32, fps=Fraction(8)) as writer:
        writer.write(np.zeros((8, 32, 32, 3), np.float32))
    for flag, value, told in (
        ("--trim", "9" * 400 + "-", "is not a part"), ("--trim", "0-0.01", "holds no frame"),
        ("--size", "9" * 5000 + "x2", "is not WIDTHxHEIGHT"),
    ):  # fmt: skip
        ran = run("finish", "a.mp4", "--out", "b.mp4", flag, value)
        assert (ran.code, told in ran.err) == (2, True), ran.err
