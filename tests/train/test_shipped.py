"""The shipped weights: small, stock, made with the shipped basis, and following a prompt."""

import json

import numpy as np
import pytest
import torch
from diffusers import WanPipeline

from benchmarks.train.__main__ import SHIPPED
from benchmarks.train.captions import NUM_TEMPLATES, caption
from benchmarks.train.data import SHIPPED_BASIS
from benchmarks.train.detector import detect
from benchmarks.train.export import MAX_BYTES, load_t2v
from benchmarks.train.latents import Basis
from benchmarks.train.stock import image_to_video, text_to_video
from benchmarks.train.vae import psnr, round_trip
from benchmarks.train.world import Scene, draw_path, render

SCENE = Scene("red", "ball", "big", "left", "quickly", "grass")
PROMPT = "a big red ball moves quickly left over the grass"


@pytest.fixture(scope="module")
def pipeline() -> WanPipeline:
    torch.set_num_threads(1)
    return load_t2v(SHIPPED)


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    return render(SCENE, draw_path(np.random.default_rng(0), SCENE))


def test_the_folder_is_small_and_says_how_it_wants_its_timesteps() -> None:
    size = sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file())
    assert size <= MAX_BYTES
    assert json.loads((SHIPPED / "model_index.json").read_text())["expand_timesteps"] is True
    assert not list(SHIPPED.rglob("*.bin"))


def test_the_vae_speaks_the_analytic_latents(pipeline: WanPipeline, clip: np.ndarray) -> None:
    basis = Basis.load(SHIPPED_BASIS)
    assert pipeline.vae.config.latents_std == pytest.approx((1 / basis.scale_z).tolist())
    pixels = torch.from_numpy(clip)[None] * 2 - 1
    with torch.no_grad():
        mean = pipeline.vae.encode(pixels.movedim(-1, 1)).latent_dist.mode()
    assert (mean - basis.encode(pixels)).square().mean() < 0.05
    assert psnr(round_trip(pipeline.vae, pixels), pixels) > 27


def test_a_prompt_is_followed(pipeline: WanPipeline) -> None:
    readings = [detect(each) for each in text_to_video(pipeline, [PROMPT] * 2)]
    for reading in readings:
        assert reading.colour == "red"
        assert reading.background == "grass"
    assert any(reading.motion == "left" for reading in readings)


def test_a_first_picture_is_kept(pipeline: WanPipeline, clip: np.ndarray) -> None:
    (moved,) = image_to_video(pipeline, [PROMPT], [clip[0]], num_steps=4)
    gap = torch.from_numpy(moved[0] * 2 - 1), torch.from_numpy(clip[0] * 2 - 1)
    assert psnr(*gap) > 27


def test_unknown_words_make_a_clip_all_the_same(pipeline: WanPipeline) -> None:
    odd = [
        "",
        "zeppelin",
        "\u8d64\u3044\u30dc\u30fc\u30eb \U0001f534 caf\u00e9",
        "!!! ,,, 42",
        "red ball " * 100,
        "a big red ball moves quickly left over the lawn , photorealistic , 8k",
    ]
    clips = list(text_to_video(pipeline, odd, num_steps=1))
    assert len(clips) == len(odd)
    assert all(np.isfinite(clip).all() for clip in clips)


@pytest.mark.slow
def test_every_wording_says_the_same(pipeline: WanPipeline) -> None:
    rng = np.random.default_rng(1)
    wordings = [caption(SCENE, rng, template) for template in range(NUM_TEMPLATES)]
    for clip in text_to_video(pipeline, wordings, num_steps=12):
        reading = detect(clip)
        assert (reading.colour, reading.background) == ("red", "grass")
        assert (reading.motion, reading.speed) == ("left", "quickly")


def test_a_word_more_changes_little_and_a_colour_changes_the_clip(pipeline: WanPipeline) -> None:
    texts = [PROMPT, "nice " + PROMPT, PROMPT.replace("red", "green")]
    same, extra, other = (
        next(text_to_video(pipeline, [text], num_steps=8, seed=3)) for text in texts
    )
    assert detect(extra).colour == "red"
    assert detect(other).colour == "green"
    assert np.abs(same - extra).mean() < np.abs(same - other).mean()
