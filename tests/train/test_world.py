"""The toy world: held-out split, paths that fit, captions that say the scene exactly."""

import numpy as np
import pytest

from benchmarks.train.captions import NUM_TEMPLATES, caption, parse, vocabulary
from benchmarks.train.world import (
    END_MARGIN,
    MOTIONS,
    SPEEDS,
    Scene,
    all_scenes,
    cover,
    draw_path,
    draw_scene,
    held_out_scenes,
    is_held_out,
    render,
    training_scenes,
)

BIG_FAST = Scene("red", "ball", "big", "left", "quickly", "grass")


def test_fifteen_per_cent_are_held_out_and_the_split_is_a_pure_function() -> None:
    scenes = all_scenes()
    assert len(scenes) == len(set(scenes)) == 1296
    assert 0.12 < len(held_out_scenes()) / len(scenes) < 0.18
    assert set(held_out_scenes()).isdisjoint(training_scenes())
    assert [is_held_out(scene) for scene in scenes] == [is_held_out(scene) for scene in scenes]


@pytest.mark.parametrize("shape", [(17, 96, 96), (33, 128, 128), (81, 192, 192)])
def test_every_path_stays_on_the_canvas_and_never_turns(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scene = draw_scene(rng, all_scenes())
        centre = draw_path(rng, scene, shape).centre_f2
        assert (centre >= END_MARGIN - 1e-3).all()
        assert (centre <= np.array(shape[:0:-1]) - END_MARGIN + 1e-3).all()
        step = np.diff(centre, axis=0)
        assert (step * np.array(MOTIONS[scene.motion]) >= 0).all()
        assert np.abs(step).max() <= SPEEDS.get(scene.speed, 0.0) + 1e-3


def test_on_the_base_canvas_the_object_moves_in_every_frame() -> None:
    rng = np.random.default_rng(0)
    steps = np.diff(draw_path(rng, BIG_FAST).centre_f2[:, 0])
    assert np.allclose(steps, -SPEEDS["quickly"], atol=1e-3)


def test_a_clip_is_float32_in_range_and_the_object_is_where_the_path_says() -> None:
    path = draw_path(np.random.default_rng(3), BIG_FAST)
    clip = render(BIG_FAST, path)
    assert clip.shape == (17, 96, 96, 3)
    assert clip.dtype == np.float32
    assert clip.min() >= 0
    assert clip.max() <= 1
    x, y = path.centre_f2[8].astype(int)
    assert clip[8, y, x, 0] > 0.6 > clip[8, y, x, 1]


def test_cover_is_the_area_of_the_object() -> None:
    scene = Scene("red", "ball", "small", "still", "none", "sand")
    covered = cover(scene, draw_path(np.random.default_rng(0), scene))
    assert covered.shape == (5, 12, 12)
    assert covered[0].sum() * 64 == pytest.approx(np.pi * 15**2, rel=0.05)
    assert np.allclose(covered[0], covered[4])


def test_every_wording_reads_back_as_its_scene() -> None:
    rng = np.random.default_rng(0)
    words = set(vocabulary())
    for scene in all_scenes()[::7]:
        for template in range(NUM_TEMPLATES):
            text = caption(scene, rng, template)
            assert parse(text) == scene
            assert set(text.split()) <= words


def test_a_caption_without_a_colour_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="names no colour"):
        parse("a big ball moves slowly left over the grass")
