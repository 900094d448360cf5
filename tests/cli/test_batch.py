"""Prompts x images x grid: one seed, resume by content, the same clips in any order."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import small
from vidgen import engine
from vidgen.errors import BadOutput

OPTIONS = {"size": "32x32", "frames": 5, "steps": 1}


def _flags(tiny: str, **changes: Any) -> list[str]:
    return [flag for flag in small(tiny, steps=1, **changes) if not flag.startswith("--seed")]


def _hashes(ran: Any) -> dict[str, str]:
    return {line["item"]: line["latents_sha256"] for line in ran.lines if line["event"] == "clip"}


def test_a_second_run_makes_only_what_is_missing(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("# two\na red ball\n\na blue star\n", "utf-8")
    words = ["batch", "p.txt", "--grid", "cfg=1,3", *_flags(tiny), "--json"]
    first = run(*words)
    assert first.code == 0, first.out
    assert first.last == {"event": "result", "items": 4, "finished": 4, "failed": 0}
    assert len(_hashes(first)) == 4
    assert len({line["seed"] for line in first.lines if line["event"] == "clip"}) == 1
    gone = next((tmp_path / "batch").glob("a_red_ball*.mp4"))
    gone.unlink()
    (tmp_path / "p.txt").write_text("a blue star\na red ball\na green cube\n", "utf-8")
    dry = run(*words, "--dry-run")
    assert [item["done"] is not None for item in dry.last["items"]].count(True) == 3
    assert dry.last["to_do"] == 3
    assert dry.last["items"][0]["tokens"] == 8
    second = run(*words)
    assert second.code == 0, second.out
    made = _hashes(second)
    assert len(made) == 3
    assert gone.exists()
    common = set(made) & set(_hashes(first))
    assert len(common) == 1
    assert all(made[name] == _hashes(first)[name] for name in common)
    lines = [json.loads(x) for x in (tmp_path / "batch/batch.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines[:2]] == [{"seed"}, {"id", "file", "request"}]


def test_order_and_neighbours_change_no_clip(run: Any, tiny: str, tmp_path: Path) -> None:
    rows = ["a red ball,1", "a blue star,2"]
    for name, lines in (("ab", rows), ("ba", rows[::-1]), ("b", rows[1:])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["prompt,seed", *lines]), "utf-8")
    made = [
        _hashes(run("batch", f"{name}.csv", *_flags(tiny), "--out", name, "--json"))
        for name in ("ab", "ba", "b")
    ]
    assert len(made[0]) == 2
    assert made[0] == made[1]
    assert made[2].items() <= made[0].items()


def test_images_and_lines_with_their_own_settings(run: Any, tiny: str, tmp_path: Path) -> None:
    for index in range(2):
        pixels = np.full((32, 32, 3), index * 200, np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"i{index}.png")
    (tmp_path / "p.jsonl").write_text(
        '{"prompt": "a red ball", "seconds": "1s"}\n{"prompt": "a blue star", "n": 2}\n', "utf-8"
    )
    words = ["batch", "p.jsonl", "--images", "i*.png", *_flags(tiny), "--dry-run", "--json"]
    items = run(*words).last["items"]
    assert len(items) == 6
    assert {item["request"]["image"] for item in items} == {
        str(tmp_path / "i0.png"),
        str(tmp_path / "i1.png"),
    }
    assert [item["request"].get("seconds") for item in items][:2] == [1.0, 1.0]
    seeds = sorted({item["request"]["seed"] for item in items})
    assert seeds[1] == seeds[0] + 1
    before = {item["item"] for item in items}
    Image.fromarray(np.full((32, 32, 3), 9, np.uint8)).save(tmp_path / "i0.png")
    after = {item["item"] for item in run(*words, "--seed", seeds[0]).last["items"]}
    assert len(after - before) >= 3


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("p.txt", "", [], "no prompt"),
        ("p.txt", "a ball", ["--grid", "cfg"], "KEY=A,B"),
        ("p.txt", "a ball", ["--grid", "stepps=1,2"], "steps"),
        ("p.txt", "a ball", ["--grid", "cfg=1", "--grid", "cfg=2"], "once"),
        ("p.txt", "a ball", ["--images", "none/*.png"], "none/*.png"),
        ("p.txt", "a ball", ["--max-fail", "0"], "1 or more"),
        ("p.csv", "prompt,image\na ball,x.png", ["--images", "p.csv"], "--images"),
        ("p.doc", "a ball", [], ".csv"),
        ("p.jsonl", '{"prompt": "a"}\n{"prompt": "b", "steps": 900}', [], "p.jsonl:2"),
        ("p.jsonl", "[1]", [], "p.jsonl:1"),
        ("p.jsonl", "{", [], "p.jsonl:1"),
        ("p.csv", "prompt,steps\na ball", [], "p.csv:2"),
        ("p.csv", "prompt,colour\na ball,red", [], "colour"),
        ("absent.txt", None, [], "absent.txt"),
    ],
)
def test_a_mistake_is_told_with_its_line_before_any_work(
    run: Any, tiny: str, tmp_path: Path, name: str, text: str | None, words: list[str], said: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    ran = run("batch", name, *_flags(tiny), *words)
    assert ran.code in (2, 4)
    assert said in ran.err
    assert not (tmp_path / "batch").exists()


def test_failures_are_counted_and_the_rest_goes_on(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, calls = engine.denoise, []

    def failing(*words: Any) -> Any:
        calls.append(1)
        if len(calls) in (2, 3):
            raise BadOutput("The latents are not finite after step 1 of 1.", code="nan_latents")
        return honest(*words)

    monkeypatch.setattr(engine, "denoise", failing)
    (tmp_path / "p.txt").write_text("a ball\na star\na cube\na tree\n", "utf-8")
    ran = run("batch", "p.txt", *_flags(tiny), "--max-fail", 2, "--json")
    assert ran.code == 1
    assert ran.last == {"event": "result", "items": 4, "finished": 1, "failed": 2}
    failed = [line for line in ran.lines if line["event"] == "failed"]
    assert [line["where"] for line in failed] == ["p.txt:2", "p.txt:3"]
    again = run("batch", "p.txt", *_flags(tiny), "--json")
    assert (again.code, len(_hashes(again))) == (0, 3)


def test_ctrl_c_keeps_what_is_finished(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os
    import signal

    honest, calls = engine.denoise, []

    def stopping(*words: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(*words)

    monkeypatch.setattr(engine, "denoise", stopping)
    (tmp_path / "p.txt").write_text("a ball\na star\na cube\n", "utf-8")
    ran = run("batch", "p.txt", *_flags(tiny))
    assert ran.code == 130
    assert len(list((tmp_path / "batch").glob("*.mp4"))) == 1
    assert run("batch", "p.txt", *_flags(tiny), "--dry-run", "--json").last["to_do"] == 2
