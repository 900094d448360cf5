"""Given frames through the engine: kept as well as the VAE can, each kind where it belongs."""

import numpy as np
import pytest
import torch

from benchmarks.train.__main__ import SHIPPED
from benchmarks.train.control import write_untrained
from benchmarks.train.detector import detect
from benchmarks.train.evaluate import held_out_prompts
from benchmarks.train.export import load_t2v
from benchmarks.train.pinned import KINDS, continued, engine_of, kept
from benchmarks.train.stock import text_to_video
from benchmarks.train.tally import above_chance, tally
from benchmarks.train.world import Scene, Video, draw_path, render
from vidgen.engine import Engine

SCENE = Scene("red", "ball", "big", "left", "quickly", "grass")
PROMPT = "a big red ball moves quickly left over the grass"


@pytest.fixture(scope="module")
def engine() -> Engine:
    torch.set_num_threads(1)
    return engine_of(SHIPPED)


@pytest.fixture(scope="module")
def truth() -> Video:
    return render(SCENE, draw_path(np.random.default_rng(0), SCENE))


def test_painted_and_given_frames_share_no_frame_and_leave_out_only_the_held_ones() -> None:
    for name, kind in KINDS.items():
        painted = list(range(17))[kind.painted]
        assert not set(painted) & set(kind.given), name
        assert len(painted) + len(kind.given) == (17 - 3 if kind.last else 17), name


@pytest.mark.parametrize("name", KINDS)
def test_given_frames_come_back_as_well_as_through_the_vae(
    engine: Engine, truth: Video, name: str
) -> None:
    kind = KINDS[name]
    # A last frame is decoded after painted ones, so these must be painted well.
    clip = continued(engine, PROMPT, truth, kind, num_steps=20 if kind.last else 2)
    assert clip.shape == truth.shape
    pair = kept(engine.components.vae, clip, truth, kind)
    assert pair.vae_db > 25
    assert pair.clip_db > pair.vae_db - 1


def test_frames_that_were_not_given_are_seen_to_be_lost(engine: Engine, truth: Video) -> None:
    clip = continued(engine, PROMPT, truth, KINDS["first"], num_steps=2)
    pair = kept(engine.components.vae, clip, truth, KINDS["prefix of 3"])
    assert pair.clip_db < pair.vae_db - 3


@pytest.mark.slow
def test_untrained_weights_of_the_same_shape_know_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("untrained")
    write_untrained(SHIPPED, folder)
    pipeline, shipped = load_t2v(folder), load_t2v(SHIPPED)
    assert pipeline.transformer.num_parameters() == shipped.transformer.num_parameters()
    pairs = held_out_prompts(16, 0)
    for each, known in ((pipeline, False), (shipped, True)):
        clips = text_to_video(each, [text for _, text in pairs], num_steps=6)
        above = above_chance(tally([scene for scene, _ in pairs], [detect(clip) for clip in clips]))
        assert ("colour" in above) is known
        assert bool(above) is known
