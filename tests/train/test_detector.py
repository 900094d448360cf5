"""The detector: exact on ground truth, and not to be talked into a wrong caption."""

from dataclasses import replace

import numpy as np

from benchmarks.train.captions import caption, parse
from benchmarks.train.detector import detect
from benchmarks.train.world import (
    BACKGROUNDS,
    COLOURS,
    MOTIONS,
    SHAPES,
    SIZES,
    SPEEDS,
    Scene,
    all_scenes,
    draw_path,
    draw_scene,
    render,
)

_VALUES = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "size": tuple(SIZES),
    "motion": tuple(name for name in MOTIONS if name != "still"),
    "speed": tuple(SPEEDS),
    "background": tuple(BACKGROUNDS),
}


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


def test_twenty_wrong_captions_are_called_wrong() -> None:
    rng = np.random.default_rng(5)
    moving = [scene for scene in all_scenes() if scene.motion != "still"]
    for turn in range(20):
        scene = moving[int(rng.integers(len(moving)))]
        name = list(_VALUES)[turn % len(_VALUES)]
        others = [value for value in _VALUES[name] if value != getattr(scene, name)]
        wrong = parse(
            caption(replace(scene, **{name: others[int(rng.integers(len(others)))]}), rng)
        )
        verdict = detect(render(scene, draw_path(rng, scene))).verdict(wrong)
        assert not verdict[name]
        assert all(right for other, right in verdict.items() if other != name)


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
