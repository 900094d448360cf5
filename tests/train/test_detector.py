"""The detector: exact on ground truth, and not to be talked into a wrong caption."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKLWan

from benchmarks.train.__main__ import SHIPPED
from benchmarks.train.checks import read_truth, read_wrong_captions
from benchmarks.train.detector import detect
from benchmarks.train.pinned import KINDS
from benchmarks.train.world import Scene, all_scenes, draw_path, draw_scene, render


def test_ground_truth_is_read_exactly() -> None:
    rng = np.random.default_rng(11)
    verdicts = []
    for _ in range(100):
        scene = draw_scene(rng, all_scenes())
        reading = detect(render(scene, draw_path(rng, scene)))
        assert reading.spurious == 0
        verdicts.append(reading.verdict(scene))
    share = {name: np.mean([verdict[name] for verdict in verdicts]) for name in verdicts[0]}
    assert min(share["colour"], share["motion"], share["speed"], share["background"]) >= 0.99
    assert min(share["shape"], share["size"]) >= 0.97


def test_longer_and_larger_clips_are_read_too() -> None:
    rng = np.random.default_rng(2)
    for shape in ((33, 96, 96), (33, 128, 128), (33, 192, 192)):
        for motion in ("left", "down"):
            scene = Scene("white", "star", "small", motion, "quickly", "sand")
            assert all(
                detect(render(scene, draw_path(rng, scene, shape), shape)).verdict(scene).values()
            )


@pytest.mark.parametrize("shape", [(33, 192, 192), (81, 192, 192), (81, 96, 96), (33, 96, 128)])
def test_a_clip_that_rests_at_the_edge_is_read_by_its_moving_part(
    shape: tuple[int, int, int],
) -> None:
    for motion, speed in (("right", "quickly"), ("up", "slowly"), ("still", "none")):
        scene = Scene("yellow", "star", "small", motion, speed, "night")
        clip = render(scene, draw_path(np.random.default_rng(1), scene, shape), shape)
        reading = detect(clip)
        assert all(reading.verdict(scene).values())
        assert reading.spurious == 0


@pytest.mark.parametrize("kind", ["first and last", "prefix of 2", "prefix of 3", "last"])
def test_the_painted_part_of_a_clip_is_enough(kind: str) -> None:
    rng = np.random.default_rng(8)
    for _ in range(12):
        scene = draw_scene(rng, all_scenes())
        clip = render(scene, draw_path(rng, scene))[KINDS[kind].painted]
        verdict = detect(clip).verdict(scene)
        assert all(verdict.values()), (scene, verdict)


def test_twenty_wrong_captions_are_called_wrong() -> None:
    assert read_wrong_captions(20, 5) == {
        "said wrong": 20, "rest said right": 20, "missed": 0, "of": 20
    }  # fmt: skip


def test_what_the_vae_makes_of_a_true_clip_is_read_like_the_clip() -> None:
    torch.set_num_threads(1)
    vae = AutoencoderKLWan.from_pretrained(SHIPPED / "vae")
    table = read_truth(12, 4, vae=vae)
    for name in ("colour", "motion", "speed", "background"):
        assert table[name]["share"] == 1.0
    assert min(table["shape"]["share"], table["size"]["share"]) >= 0.9


def test_an_empty_scene_and_noise_hold_no_object() -> None:
    scene = Scene("red", "ball", "small", "still", "none", "night")
    path = draw_path(np.random.default_rng(0), scene)
    clip = render(scene, path)
    empty = np.repeat(clip[:, :, -20:].mean(axis=2, keepdims=True), 96, axis=2)
    assert detect(empty).colour == "none"
    noise = np.random.default_rng(0).random(clip.shape, np.float32)
    assert detect(noise).shape == "none"


def test_two_objects_make_one_of_them_spurious() -> None:
    rng = np.random.default_rng(1)
    first = Scene("red", "ball", "big", "still", "none", "sand")
    path = draw_path(rng, first)
    path.centre_f2[:] = (24, 48)
    clip = render(first, path)
    second = replace(first, colour="blue", size="small")
    path.centre_f2[:] = (74, 48)
    clip[:, :, 52:] = render(second, path)[:, :, 52:]
    reading = detect(clip)
    assert reading.colour == "red"
    assert reading.spurious == 1.0


def test_a_pixel_too_many_on_a_tip_does_not_hide_a_star() -> None:
    """The template is laid where it overlaps most, and no overlap is above 1."""
    scene = Scene("blue", "star", "big", "still", "none", "sand")
    clip = render(scene, draw_path(np.random.default_rng(3), scene))
    clean = detect(clip)
    blue = (clip[..., 2] - clip[..., 0] > 0.4).any(axis=0)
    column = int(np.nonzero(blue.any(axis=0))[0][-1])
    row = int(np.nonzero(blue[:, column])[0][0])
    clip[:, row, column : column + 6] = (0.12, 0.30, 0.96)
    reading = detect(clip)
    assert (clean.shape, reading.shape) == ("star", "star")
    assert clean.iou - 0.03 < reading.iou < clean.iou <= 1.0
