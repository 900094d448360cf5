"""What each strategy asks of a model, what a chain says while it runs, and what it advises."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.advice import before_run
from chaining.chain import Chain
from chaining.events import ChainProgress, ClipFinished
from chaining.joins import sharpest
from chaining.maker import Ask
from chaining.seam_score import seam_score
from chaining.story import parse_story
from tests.chaining.drifty import SIDE, DriftyMaker, Float, Maker, still
from vidgen.errors import BadOutput, BadRequest, Unsupported


class Recorder(DriftyMaker):
    """Keeps what it made beside what it was asked."""

    made: list[Float]

    def draw(self, ask: Ask) -> tuple[Float, Float | None]:
        frames, latents = super().draw(ask)
        self.made = [*getattr(self, "made", []), frames]
        return frames, latents


def run(folder: Path, maker: Maker, seconds: float = 2.0, **fields: Any) -> Any:
    shots = fields.pop("shots", [{"prompt": "a", "seconds": seconds}])
    controls = {"colour_lock": "off", **fields.pop("controls", {})}
    story = parse_story({"shots": shots, "seed": 1, "controls": controls, **fields})
    return Chain(story, maker, folder / "chain", measure=False).run()


def test_last_frame_gives_the_very_frame(tmp_path: Path) -> None:
    maker = Recorder(noise=0.01)
    run(tmp_path, maker)
    for before, ask in zip(maker.made, maker.asks[1:], strict=False):
        assert ask.image_rwc is not None
        assert (ask.image_rwc == before[-1]).all()
        assert ask.prefix_frwc is None


@pytest.mark.parametrize(
    ("mode", "renoise", "noise"), [("pin", False, 0), ("noise", False, 0.03), ("renoise", True, 0)]
)
def test_overlap_gives_the_last_frames(
    tmp_path: Path, mode: str, renoise: bool, noise: float
) -> None:
    maker = Recorder(noise=0.01)
    handover = {"overlap": 5, "mode": mode} | ({"noise": noise} if noise else {})
    run(tmp_path, maker, strategy="overlap", handover=handover)
    assert maker.calls > 2
    for before, ask in zip(maker.made, maker.asks[1:], strict=False):
        assert ask.prefix_frwc is not None
        assert (ask.prefix_frwc == before[-5:]).all()
        assert (ask.renoise, ask.history_noise) == (renoise, noise)
        assert ask.image_rwc is None


def test_blend_starts_on_the_first_frame_of_the_overlap(tmp_path: Path) -> None:
    maker = Recorder(noise=0.01)
    run(tmp_path, maker, strategy="overlap", handover={"overlap": 5, "mode": "blend"})
    for before, ask in zip(maker.made, maker.asks[1:], strict=False):
        assert ask.image_rwc is not None
        assert (ask.image_rwc == before[-5]).all()


def test_last_latent_gives_latents_their_frames_and_what_came_before(tmp_path: Path) -> None:
    maker = Recorder(clip_frames=17, noise=0.01)
    result = run(tmp_path, maker, 3.0, strategy="last_latent", handover={"latents": 2})
    for take, before, ask in zip(result.takes, maker.made, maker.asks[1:], strict=False):
        latents = take.latents_ctrw
        assert latents is not None
        assert ask.prefix_latents_ctrw is not None
        assert ask.prefix_frwc is not None
        assert ask.context_ctrw is not None
        assert (ask.prefix_latents_ctrw == latents[:, -2:]).all()
        assert (ask.context_ctrw == latents[:, -4:-2]).all()
        assert (ask.prefix_frwc == before[-5:]).all()


def test_sharpest_hands_over_the_sharpest_of_the_last_eight(tmp_path: Path) -> None:
    class Blurry(Recorder):
        def draw(self, ask: Ask) -> tuple[Float, Float | None]:
            frames, latents = super().draw(ask)
            flat = frames.mean(axis=(1, 2), keepdims=True)
            frames[:] = np.where(np.arange(len(frames))[:, None, None, None] == 12, frames, flat)
            self.made[-1] = frames
            return frames, latents

    maker = Blurry(clip_frames=17)
    result = run(tmp_path, maker, 2.0, handover={"pick": "sharpest"})
    assert sharpest(maker.made[0][9:]) == 3
    assert result.takes[0].ends == 13
    assert maker.asks[1].image_rwc is not None
    assert (maker.asks[1].image_rwc == maker.made[0][12]).all()
    assert result.takes[-1].first + result.takes[-1].ends == result.schedule.num_frames


def test_latents_of_a_clip_with_frames_to_spare_end_with_what_is_shown(tmp_path: Path) -> None:
    """A clip before may end early by sharpest; the one that latents go on from may not."""
    shots = [
        {"prompt": "a", "seconds": 3.0},
        {"prompt": "b", "seconds": 1.0, "strategy": "last_latent"},
    ]
    maker = Recorder(clip_frames=21, noise=0.01)
    result = run(tmp_path, maker, shots=shots, handover={"pick": "sharpest"})
    last = [take for take in result.takes if take.plan.shot == 0][-1]
    ask = maker.asks[last.plan.index + 1]
    assert [take.plan.window for take in result.takes[:4]] == [8, 8, 1, 1]
    assert last.ends == last.plan.num_frames
    assert ask.prefix_frwc is not None
    assert ask.prefix_latents_ctrw is not None
    shown = maker.made[last.plan.index][last.ends - 1, ::8, ::8]
    assert (np.moveaxis(ask.prefix_latents_ctrw[:, -1], 0, -1) == shown).all()
    assert result.takes[-1].first + result.takes[-1].ends == result.schedule.num_frames


def test_keyframes_bound_their_clips(tmp_path: Path) -> None:
    maker = Recorder(noise=0.01)
    shots = [{"prompt": "a", "seconds": 1.0, "image": "a.png"}]
    result = run(tmp_path, maker, strategy="keyframes", shots=shots, end_image="z.png")
    anchor, end = maker.picture("a.png"), maker.picture("z.png")
    made = dict(zip((clip.index for clip in result.schedule.clips), maker.made, strict=True))
    keys = [clip.index for clip in result.schedule.clips if clip.kind == "keyframe"]
    bounds = [anchor, *(made[key][-1] for key in keys), end]
    for key in keys:
        image = maker.asks[key].image_rwc
        assert image is not None
        assert (image == anchor).all()
    for number, take in enumerate(result.takes):
        ask = maker.asks[take.plan.index]
        assert ask.image_rwc is not None
        assert ask.last_image_rwc is not None
        assert (ask.image_rwc == bounds[number]).all()
        assert (ask.last_image_rwc == bounds[number + 1]).all()


def test_a_bridge_is_given_both_its_neighbours_frames(tmp_path: Path) -> None:
    maker = Recorder(noise=0.01)
    shots = [
        {"prompt": "a", "seconds": 0.5},
        {"prompt": "b", "seconds": 0.5, "transition": "bridge", "image": "b.png"},
    ]
    run(tmp_path, maker, shots=shots, handover={"bridge_seconds": 0.3})
    ask = maker.asks[2]
    assert ask.image_rwc is not None
    assert ask.last_image_rwc is not None
    assert (ask.image_rwc == maker.made[0][-1]).all()
    assert (ask.last_image_rwc == maker.made[1][0]).all()


def test_the_end_image_is_aimed_at_after_a_resume_too(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"shots": [{"prompt": "a", "seconds": 1.2}], "seed": 1}
    story = parse_story({**fields, "end_image": "z.png"})
    first = DriftyMaker(fail_at=1)
    with pytest.raises(RuntimeError):
        Chain(story, first, tmp_path / "chain", measure=False).run()
    again = DriftyMaker()
    Chain(story, again, tmp_path / "chain", measure=False).run(resume=True)
    aimed = [ask.last_image_rwc is not None for ask in again.asks]
    assert aimed == [False] * (again.calls - 1) + [True]


def test_progress_counts_the_whole_chain(tmp_path: Path) -> None:
    story = parse_story({"shots": [{"prompt": "a", "seconds": 2.0}], "seed": 1})
    events: list[Any] = []
    chain = Chain(story, DriftyMaker(), tmp_path / "chain", measure=False)
    chain.run(on=events.append)
    told = [event for event in events if isinstance(event, ChainProgress)]
    clips = len(chain.schedule.clips)
    assert [event.clip for event in told] == list(range(1, clips + 1))
    assert all(event.clips == clips and event.prompt == "a" for event in told)
    # Each clip took one second by the maker's word, and half of this one is left.
    made = [clip.num_frames for clip in chain.schedule.clips]
    for number in range(1, clips):
        pace = number / sum(made[:number])
        assert told[number].step.eta == pytest.approx(1.0 + pace * sum(made[number + 1 :]))
    finished = [event.clip for event in events if isinstance(event, ClipFinished)]
    assert finished == list(range(clips))


def test_advice_on_long_chains(tmp_path: Path) -> None:
    def codes(strategy: str, limit: int) -> list[str]:
        story = parse_story(
            {
                "shots": [{"prompt": "a", "seconds": 3}],
                "strategy": strategy,
                "controls": {"max_chain": limit},
            }
        )
        chain = Chain(story, DriftyMaker(), tmp_path / "none", measure=False)
        return [advice.code for advice in before_run(story, chain.schedule)]

    assert codes("last_frame", 4) == ["long_chain"]
    assert codes("last_frame", 5) == []  # six clips, five of which continue another
    assert codes("keyframes", 1) == []
    assert codes("last_latent", 99) == ["experimental"]


def test_a_seam_is_judged_by_the_change_beside_it() -> None:
    picture = still(3)
    moving = np.stack([np.roll(picture, i, axis=1) for i in range(6)])
    assert seam_score(moving[:3], moving[3:]) == pytest.approx(1.0, abs=1e-5)
    assert seam_score(moving[:2], moving[4:]) > 1.5
    assert seam_score(moving[:1].repeat(2, axis=0), moving[:1]) == 0


@pytest.mark.parametrize("wrong", [(8, SIDE, SIDE, 3), (9, SIDE, 2, 3)])
def test_a_maker_that_makes_something_else_is_told(tmp_path: Path, wrong: tuple[int, ...]) -> None:
    class Wrong(Maker):
        def draw(self, ask: Ask) -> tuple[Float, Float | None]:
            del ask
            return np.zeros(wrong, np.float32), None

    with pytest.raises(BadOutput, match="were asked for"):
        run(tmp_path, Wrong())


def test_controls_that_cannot_work_are_told(tmp_path: Path) -> None:
    class NoLatents(Recorder):
        def draw(self, ask: Ask) -> tuple[Float, Float | None]:
            return super().draw(ask)[0], None

    with pytest.raises(Unsupported, match="latent_adain"):
        run(tmp_path / "adain", NoLatents(), controls={"latent_adain": 0.5})
    with pytest.raises(Unsupported, match="history_noise=auto"):
        run(tmp_path / "noise", NoLatents(), controls={"history_noise": "auto"})
    with pytest.raises(BadRequest, match="drift meter"):
        run(tmp_path / "stop", Recorder(), controls={"drift_stop": True})
