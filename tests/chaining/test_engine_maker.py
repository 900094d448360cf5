"""Chains of real clips by the smallest engine of a family, compared with plain runs."""

import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chaining.capabilities import Capability
from chaining.chain import Chain
from chaining.engine_maker import EngineMaker
from chaining.events import ChainProgress
from chaining.maker import ENVIRONMENT, Ask
from chaining.story import Story, parse_story
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.errors import Cancelled, Unsupported
from vidgen.events import CancelToken
from vidgen.families import family
from vidgen.inputs import Inputs
from vidgen.media import read_video, save_image
from vidgen.plan import plan
from vidgen.request import parse_request
from vidgen.tiny import tiny_components, tiny_model

REQUEST = {"width": 62, "height": 64, "num_frames": 9, "steps": 2, "negative": "dark", "crf": 20}
ENGINES: dict[str, Engine] = {}
DEVICE = named("cpu")


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def engine(name: str = "toyworld") -> Engine:
    if name not in ENGINES:
        row = family(name)
        ENGINES[name] = Engine(tiny_model(row), tiny_components(row))
    return ENGINES[name]


def story(seconds: float = 1.0, **fields: Any) -> Story:
    request = {**REQUEST, **fields.pop("request", {})}
    shots = [{"prompt": "a big red ball", "seconds": seconds, **fields.pop("shot", {})}]
    return parse_story({"shots": shots, "seed": 3, "request": request, **fields})


def maker(made: Story, name: str = "toyworld") -> EngineMaker:
    return EngineMaker(made, DEVICE, engine(name))


def test_a_clip_without_a_condition_is_the_plain_clip() -> None:
    made = maker(story()).make(Ask("a big red ball", 11, 9))
    request = parse_request({**REQUEST, "prompt": "a big red ball", "seed": 11})
    expected = engine().run(plan(request, DEVICE, model=engine().model))
    assert expected.frames is not None
    assert made.latents_ctrw is not None
    assert (made.frames_frwc == expected.frames).all()
    assert (made.latents_ctrw == expected.latents.numpy()).all()
    assert made.recipe["latents_sha256"] == expected.recipe["latents_sha256"]


def test_the_identity_says_where_clips_are_made() -> None:
    found = maker(story()).identity[ENVIRONMENT]
    assert found["torch"] == importlib.metadata.version("torch")
    assert (found["device"], found["attention_backend"]) == (DEVICE.name, "sdpa")
    assert {"offload", "vae_tiling", "diffusers", "python"} <= set(found)


def test_frames_go_over_as_they_are(tmp_path: Path) -> None:
    """The second clip is what the engine makes of the first one's last frame, given by hand."""
    made = story()
    result = Chain(
        parse_story({**made.model_dump(mode="json"), "controls": {"colour_lock": "off"}}),
        maker(made),
        tmp_path / "chain",
        measure=False,
    ).run(tmp_path / "video.mp4")
    first, second = result.takes
    request = {**REQUEST, "prompt": "a big red ball", "seed": second.seed}
    inputs = Inputs(image=first.tail_frwc[-1])
    planned = plan(parse_request(request), DEVICE, inputs, engine().model)
    expected = engine().run(planned, inputs)
    assert second.latents_ctrw is not None
    assert (second.latents_ctrw == expected.latents.numpy()).all()
    frames = np.concatenate(list(read_video(tmp_path / "video.mp4")))
    assert frames.shape == (17, 64, 62, 3)


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"strategy": "overlap", "handover": {"overlap": 5}}, {"prefix_frames": 5}),
        (
            {"strategy": "overlap", "handover": {"overlap": 5, "mode": "noise", "noise": 0.1}},
            {"history_noise": 0.1},
        ),
        (
            {"strategy": "overlap", "handover": {"overlap": 5, "mode": "renoise"}},
            {"history": "renoise"},
        ),
        ({"strategy": "last_latent", "handover": {"latents": 2}}, {"prefix_frames": 5}),
        ({"controls": {"history_noise": 0.05, "latent_adain": 0.5}}, {"history_noise": 0.05}),
        ({"strategy": "keyframes"}, {}),
        ({"request": {"attention": "topk", "density": 0.5}}, {"attention": "topk"}),
    ],
)
def test_strategies_stop_and_go_on_to_the_same_bits(
    tmp_path: Path, fields: dict[str, Any], asked: dict[str, Any]
) -> None:
    made = story(**fields)
    whole = Chain(made, maker(made), tmp_path / "whole", measure=False).run()
    cancel = CancelToken()

    def stop(event: Any) -> None:
        if (
            isinstance(event, ChainProgress)
            and event.clip == len(whole.schedule.clips)
            and event.step.stage == "denoise"
        ):
            cancel.cancel()

    with pytest.raises(Cancelled):
        Chain(made, maker(made), tmp_path / "part", measure=False).run(on=stop, cancel=cancel)
    assert len(list((tmp_path / "part" / "unfinished").iterdir())) == 1
    steps: list[int] = []
    densities: list[float | None] = []

    def count(event: Any) -> None:
        if isinstance(event, ChainProgress) and event.step.stage == "denoise":
            steps.append(event.step.done)
            assert event.step.attention_backend
            densities.append(event.step.density)

    again = Chain(made, maker(made), tmp_path / "part", measure=False).run(on=count, resume=True)
    assert steps == [2], "the step that was done is not done again"
    assert None not in densities
    assert not (tmp_path / "part" / "unfinished").exists()
    for one, two in zip(whole.takes, again.takes, strict=True):
        assert one.record["pixels_sha256"] == two.record["pixels_sha256"]
    request = whole.takes[-1].record["recipe"]["request"]
    assert {name: request[name] for name in asked} == asked


def test_a_failed_decode_is_made_up_for_without_denoising_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = story()
    whole = Chain(made, maker(made), tmp_path / "whole", measure=False).run()

    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the decoder broke")

    broken = Chain(made, maker(made), tmp_path / "part", measure=False)
    with monkeypatch.context() as patch:
        patch.setattr("vidgen.decode_clip.decode_groups", fail)
        with pytest.raises(RuntimeError, match="decoder broke"):
            broken.run()
    stages: set[str] = set()
    first_only = CancelToken()

    def watch(event: Any) -> None:
        if isinstance(event, ChainProgress) and event.clip == 1:
            stages.add(event.step.stage)
        if type(event).__name__ == "ClipFinished":
            first_only.cancel()

    chain = Chain(made, maker(made), tmp_path / "part", measure=False)
    with pytest.raises(Cancelled):
        chain.run(on=watch, cancel=first_only, resume=True)
    assert stages == {"decode"}
    again = Chain(made, maker(made), tmp_path / "part", measure=False).run(resume=True)
    for one, two in zip(whole.takes, again.takes, strict=True):
        assert one.record["pixels_sha256"] == two.record["pixels_sha256"]


def test_another_ask_does_not_go_on_with_what_is_left() -> None:
    picture = np.zeros((64, 64, 3), np.float32)
    asks = [
        Ask("a", 1, 9),
        Ask("b", 1, 9),
        Ask("a", 2, 9),
        Ask("a", 1, 13),
        Ask("a", 1, 9, image_rwc=picture),
        Ask("a", 1, 9, last_image_rwc=picture),
        Ask("a", 1, 9, image_rwc=picture + 1e-7),
        Ask("a", 1, 9, history_noise=0.1),
    ]
    assert len({ask.digest for ask in asks}) == len(asks)
    assert Ask("a", 1, 9, keep=Path("x")).digest == asks[0].digest


def test_last_latents_are_shown_as_they_were_decoded_before(tmp_path: Path) -> None:
    """With the latents before them for the decoder, pinned latents decode to the same frames."""
    made = story(strategy="last_latent", handover={"latents": 2}, request={"num_frames": 13})
    result = Chain(made, maker(made), tmp_path / "chain", measure=False).run()
    first, second = result.takes[:2]
    assert first.latents_ctrw is not None
    assert second.latents_ctrw is not None
    assert (second.latents_ctrw[:, :2] == first.latents_ctrw[:, -2:]).all()
    again = np.concatenate(list(read_video(second.folder / "frames.mkv")))[:5]
    assert np.abs(again - first.tail_frwc).max() < 2e-2


def test_a_picture_is_fitted_once_and_sets_the_size(tmp_path: Path) -> None:
    wide = np.linspace(0, 1, 60 * 96 * 3).reshape(60, 96, 3)
    save_image(tmp_path / "a.png", np.rint(wide * 255).astype(np.uint8))
    shot = {"prompt": "a", "seconds": 0.5, "image": str(tmp_path / "a.png")}
    made = parse_story({"shots": [shot], "request": {"num_frames": 5, "steps": 1}})
    size = maker(made).size
    assert size[0] > size[1]
    assert maker(made).picture(str(tmp_path / "a.png")).shape == (size[1], size[0], 3)
    result = Chain(made, maker(made), tmp_path / "chain", measure=False).run()
    assert result.takes[0].head_rwc.shape == (size[1], size[0], 3)


def test_what_a_family_cannot_is_refused_before_it_runs(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    save_image(picture, np.zeros((64, 64, 3), np.uint8))
    made = story(strategy="overlap", handover={"overlap": 5}, shot={"image": str(picture)})
    with pytest.raises(Unsupported, match="give the shot an image"):
        maker(story(), "wan2.2-i2v-a14b")
    chains = maker(made, "wan2.2-i2v-a14b")
    assert chains.capabilities == {Capability.FIRST_FRAME, Capability.LAST_FRAME}
    with pytest.raises(Unsupported, match="usable here: single, last_frame, keyframes"):
        Chain(made, chains, tmp_path / "chain")
