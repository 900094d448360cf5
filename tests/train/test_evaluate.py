"""Evaluation: counts, intervals, chance, bounds, tables and sheets, on readings made by hand."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from benchmarks.train.acceptance import CRITERIA, accept
from benchmarks.train.card import write_card
from benchmarks.train.detector import Reading
from benchmarks.train.evaluate import Numbers, evaluate, held_out_prompts
from benchmarks.train.progress import Progress
from benchmarks.train.sheets import GIVEN, contact_sheet, titled
from benchmarks.train.tables import acceptance_table, markdown
from benchmarks.train.tally import READ, above_chance, tally, wilson
from benchmarks.train.world import SHAPES, Scene

STAR = Scene("red", "star", "big", "left", "quickly", "grass")


def reading(scene: Scene, **changes: str) -> Reading:
    values = {name: getattr(scene, name) for name in Scene.__slots__}
    return Reading(**{**values, **changes}, spurious=0.0, iou=0.9)


def test_wilson_s_interval_holds_the_share_and_stays_within_bounds() -> None:
    low, high = wilson(90, 96)
    assert 0.86 < low < 90 / 96 < high < 0.98
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_confusion_of_shapes_counts_what_was_read_for_what() -> None:
    scenes = [STAR, STAR, replace(STAR, shape="ball"), replace(STAR, shape="cube")]
    read = [reading(STAR, shape=name) for name in ("ball", "none", "ball", "cube")]
    table = tally(scenes, read)
    assert table["shape confusion"] == {
        "ball": {"ball": 1, "cube": 0, "star": 0, "none": 0},
        "cube": {"ball": 0, "cube": 1, "star": 0, "none": 0},
        "star": {"ball": 1, "cube": 0, "star": 0, "none": 1},
    }
    assert table["shape"]["hits"] == 2


def test_direction_and_speed_count_only_what_should_move() -> None:
    still = replace(STAR, motion="still", speed="none")
    table = tally([STAR, still], [reading(STAR), reading(still, motion="left", speed="quickly")])
    assert (table["direction"]["hits"], table["direction"]["of"]) == (1, 1)
    assert (table["motion"]["hits"], table["motion"]["of"]) == (1, 2)
    assert table["speed"]["of"] == 1


def test_a_constant_answer_is_chance_and_a_right_one_is_not() -> None:
    scenes = [scene for scene, _ in held_out_prompts(60, 0)]
    constant = [reading(STAR) for _ in scenes]
    assert above_chance(tally(scenes, constant)) == []
    assert above_chance(tally(scenes, [reading(scene) for scene in scenes])) == list(READ)


def test_bounds_are_met_from_the_right_side_and_missing_numbers_are_said_missing() -> None:
    table = tally([STAR] * 100, [reading(STAR)] * 80 + [reading(STAR, shape="none")] * 20)
    result = {"t2v": table, "vae": {"latent_mse": 0.015}, "cpu_seconds_per_clip": 5.0}
    rows = {row["name"]: row for row in accept(result)}
    assert len(rows) == len(CRITERIA)
    shape = rows["text to video: shape"]
    assert (shape["value"], shape["floor met"], shape["target met"]) == (0.8, True, False)
    latents = rows["VAE latents off the analytic ones"]
    assert (latents["floor met"], latents["target met"]) == (True, False)
    assert rows["one clip on one core"]["floor met"] is False
    assert rows["image to video: colour"]["floor met"] is None
    lines = acceptance_table(list(rows.values())).splitlines()
    (line,) = (line for line in lines if "text to video: shape" in line)
    assert line == "| text to video: shape | &ge; 70 % | &ge; 90 % | 80 % | yes | **no** |"
    assert any("not measured" in line for line in lines)


def test_the_floors_are_those_that_were_set() -> None:
    floors = {criterion.name: criterion.floor for criterion in CRITERIA}
    names = ("colour", "shape", "direction", "size", "speed", "background")
    wanted = [0.90, 0.70, 0.70, 0.75, 0.70, 0.98]
    assert [floors[f"text to video: {name}"] for name in names] == wanted


def test_a_sheet_has_a_row_per_pair_and_a_bar_under_given_frames(tmp_path: Path) -> None:
    clip = np.zeros((17, 32, 32, 3), np.float32)
    contact_sheet([("one", clip)] * 3, tmp_path / "sheet.png", given=[0])
    sheet = cv2.imread(str(tmp_path / "sheet.png"))[..., ::-1]
    assert sheet.shape == (2 * (15 + 32 + 5 + 2), 2 * (5 * 34 + 4), 3)
    marked = np.argwhere((sheet == GIVEN).all(axis=-1))
    assert set(marked[:, 1] % (5 * 34 + 4)) == set(range(32))


def test_a_title_says_what_was_read_otherwise() -> None:
    assert titled("a star", STAR, reading(STAR)) == "a star"
    assert titled("a star", STAR, reading(STAR, shape="ball")) == "a star  [shape read ball]"


def test_progress_says_how_long_the_rest_takes(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(total=10)
    progress.advance("t2v", 5, 5, 5.0)
    assert "t2v: 5 of 5; 0 s so far, about 0 s left" in capsys.readouterr().err
    progress._began -= 100
    progress.advance("t2v", 10, 10, 3.0)
    assert "about 25 s left" in capsys.readouterr().err


@pytest.mark.slow
def test_a_small_evaluation_fills_every_part(tmp_path: Path) -> None:
    from benchmarks.train.__main__ import SHIPPED

    few = Numbers(t2v=1, i2v=1, large=1, long=0, pinned=1, control=0, checks=4)
    result = evaluate(SHIPPED, few, num_steps=1, sheets=tmp_path)
    assert {"t2v", "i2v", "large", "pinned", "detector", "vae", "acceptance"} <= set(result)
    assert "long" not in result
    assert set(result["t2v"]["shape confusion"]) == set(SHAPES)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"toyworld-t2v.png", "toyworld-i2v.png", "toyworld-prefix-of-3.png"} <= names
    text = markdown(result)
    assert "| asked | read ball | read cube | read star | read none |" in text
    counts = {"step": 1, "clips": 2, "cpu_seconds": 3.0}
    weights = {"dit.a": torch.zeros(2), "text.a": torch.ones(3)}
    torch.save({"model": weights, "counts": counts}, tmp_path / "dit.pt")
    torch.save({"vae": weights, "counts": counts}, tmp_path / "vae.pt")
    write_card(tmp_path / "README.md", tmp_path, {**result, "date": "today", "command": "it"})
    card = (tmp_path / "README.md").read_text()
    assert text in card
    assert acceptance_table(result["acceptance"]) in card
    assert "$" not in card
