"""How frames that a clip continues from enter: shown with noise, or noised along with the rest."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.engine.cases import Case, engine_for, inputs_of, make_plan
from vidgen.conditioning import encode_normalised, video_tensor
from vidgen.errors import BadRequest, Cancelled, Unsupported
from vidgen.events import CancelToken, Progress
from vidgen.families import FAMILIES
from vidgen.inputs import Inputs
from vidgen.latents import latents_hash
from vidgen.unfinished import load_unfinished

pytestmark = pytest.mark.usefixtures("one_thread")
TOKEN_TIMES = [family for family in FAMILIES if family.token_times]
PREFIX = Case(TOKEN_TIMES[0], "prefix")
GIVEN = 2  # latent frames of a prefix of 5 frames
TRAIN_STEPS = 1000


class Seen:
    """What the transformer is shown at every forward: latents and the tokens' times."""

    def __init__(self) -> None:
        self.latents: list[torch.Tensor] = []
        self.times: list[torch.Tensor] = []

    def __call__(self, _module: Any, _args: Any, kwargs: dict[str, Any], _out: Any) -> None:
        self.latents.append(kwargs["hidden_states"].clone())
        self.times.append(kwargs["timestep"].clone())


def run(case: Case, inputs: Inputs, **fields: Any) -> tuple[torch.Tensor, Seen]:
    engine, seen = engine_for(case), Seen()
    handle = engine.components.transformer.register_forward_hook(seen, with_kwargs=True)
    try:
        return engine.run(make_plan(case, inputs, **fields), inputs).latents, seen
    finally:
        handle.remove()


def encoded(case: Case, frames: np.ndarray) -> torch.Tensor:
    return encode_normalised(engine_for(case).components.vae, video_tensor(frames) * 2 - 1)


@pytest.mark.parametrize("family", TOKEN_TIMES, ids=lambda family: family.name)
@pytest.mark.parametrize("task", ["i2v", "flf2v", "prefix"])
def test_a_noisy_history_is_shown_as_noisy_as_the_model_is_told(family: Any, task: Any) -> None:
    case, level = Case(family, task), 0.2
    inputs = inputs_of(case)
    latents, seen = run(case, inputs, history_noise=level)
    first = inputs.image[None] if task != "prefix" else inputs.video
    clean = encoded(case, first)
    given = clean.shape[2]
    tokens = seen.times[0].shape[1] // latents.shape[1] * given
    noise = (seen.latents[0][:, :, :given] - (1 - level) * clean) / level
    assert 0.8 < float(noise.std()) < 1.2
    assert abs(float(noise.mean())) < 0.3
    for shown, times in zip(seen.latents, seen.times, strict=True):
        assert torch.equal(shown[:, :, :given], seen.latents[0][:, :, :given])
        assert torch.equal(times[:, :tokens], torch.full_like(times[:, :tokens], 1000 * level))
        last = times.shape[1] - tokens // given if task == "flf2v" else times.shape[1]
        assert torch.all(times[:, tokens:last] == times[0, tokens])
        assert torch.all(times[:, last:] == 0)
    torch.testing.assert_close(latents[:, :given], clean[0], rtol=0, atol=1e-6)
    plain, _ = run(case, inputs)
    assert not torch.allclose(latents[:, given], plain[:, given], atol=1e-4)


def test_without_noise_nothing_changes() -> None:
    inputs = inputs_of(PREFIX)
    plain, _ = run(PREFIX, inputs)
    again, _ = run(PREFIX, inputs, history="pin", history_noise=0)
    assert torch.equal(plain, again)


@pytest.mark.parametrize("scheduler", ["unipc", "euler"])
def test_renoise_brings_the_history_to_every_steps_level(scheduler: str) -> None:
    inputs = inputs_of(PREFIX)
    latents, seen = run(PREFIX, inputs, history="renoise", guidance_scale=1.0, scheduler=scheduler)
    clean = encoded(PREFIX, inputs.video)
    noises = []
    for shown, times in zip(seen.latents, seen.times, strict=True):
        assert torch.all(times == times[0, 0])
        sigma = float(times[0, 0]) / TRAIN_STEPS
        noises.append((shown[:, :, :GIVEN] - (1 - sigma) * clean) / sigma)
    for noise in noises[1:]:
        torch.testing.assert_close(noise, noises[0], rtol=0, atol=2e-2)
    torch.testing.assert_close(latents[:, :GIVEN], clean[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("fields", [{"history": "renoise"}, {"history_noise": 0.1}])
def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path, fields: dict[str, Any]) -> None:
    engine, inputs = engine_for(PREFIX), inputs_of(PREFIX)
    made = make_plan(PREFIX, inputs, num_inference_steps=4, **fields)
    whole = engine.run(made, inputs).latents
    token, path = CancelToken(), tmp_path / "l.safetensors"

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and event.stage == "denoise" and event.done == 2:
            token.cancel()

    with pytest.raises(Cancelled):
        engine.run(made, inputs, on=stop, cancel=token, latents_path=path)
    clip = engine.run(made, inputs, resume=load_unfinished(path))
    assert torch.equal(clip.latents, whole)


def test_given_latents_stand_for_the_frames_they_were_decoded_from() -> None:
    inputs = inputs_of(PREFIX)
    clean = encoded(PREFIX, inputs.video)[0].numpy()
    with_latents = Inputs(video=inputs.video, prefix_latents=clean)
    assert torch.equal(run(PREFIX, inputs)[0], run(PREFIX, with_latents)[0])
    other = Inputs(video=inputs.video, prefix_latents=clean + 0.5)
    latents, _ = run(PREFIX, other)
    torch.testing.assert_close(latents[:, :GIVEN], torch.from_numpy(clean + 0.5))
    with pytest.raises(BadRequest, match="prefix_latents has the shape"):
        run(PREFIX, Inputs(video=inputs.video, prefix_latents=clean[:, :1]))


def test_latents_are_changed_before_they_are_kept_and_decoded() -> None:
    engine, inputs = engine_for(PREFIX), inputs_of(PREFIX)
    made = make_plan(PREFIX, inputs)
    plain = engine.run(made, inputs)
    halved = engine.run(made, inputs, edit_latents=lambda latents: latents * 0.5)
    assert torch.equal(halved.latents, plain.latents * 0.5)
    assert halved.recipe["latents_sha256"] == latents_hash(plain.latents * 0.5)
    assert not np.array_equal(halved.frames, plain.frames)


def test_context_is_decoded_before_the_clip_and_left_out() -> None:
    engine, inputs = engine_for(PREFIX), inputs_of(PREFIX)
    made = make_plan(PREFIX, inputs)
    plain = engine.run(made, inputs)
    assert plain.frames is not None
    context = torch.randn(plain.latents.shape[0], 2, *plain.latents.shape[2:])
    clip = engine.run(made, inputs, context=context)
    assert clip.frames is not None
    assert torch.equal(clip.latents, plain.latents)
    assert clip.frames.shape == plain.frames.shape
    longer = torch.cat([context, plain.latents], dim=1)
    whole = decoded(engine.components.vae, longer)
    assert whole.shape[0] == len(plain.frames) + 8
    np.testing.assert_allclose(clip.frames, whole[8:], atol=1e-5)
    assert np.abs(clip.frames - plain.frames).max() > 1e-3


def decoded(vae: Any, latents: torch.Tensor) -> np.ndarray:
    """diffusers' own decode of normalised latents, as frames in 0..1."""
    shape = (1, -1, 1, 1, 1)
    mean = torch.tensor(vae.config.latents_mean).view(shape)
    std = torch.tensor(vae.config.latents_std).view(shape)
    with torch.no_grad():
        pixels = vae.decode(latents[None] * std + mean).sample[0]
    return (pixels.permute(1, 2, 3, 0).numpy() / 2 + 0.5).clip(0, 1)


def test_what_cannot_act_is_refused() -> None:
    plain = next(row for row in FAMILIES if not row.token_times and "i2v" in row.tasks)
    for case, fields in (
        (Case(TOKEN_TIMES[0], "t2v"), {"history_noise": 0.1}),
        (Case(TOKEN_TIMES[0], "last"), {"history": "renoise"}),
        (Case(plain, "i2v"), {"history_noise": 0.1}),
    ):
        with pytest.raises(Unsupported, match="tokens have their own times"):
            make_plan(case, **fields)
    with pytest.raises(BadRequest, match="history=renoise sets its own noise"):
        make_plan(PREFIX, history="renoise", history_noise=0.1)
