"""The drift benchmark's arms: each tells the same story in as many clips, one thing changed."""

from dataclasses import fields
from fractions import Fraction

import pytest

from benchmarks.drift_arms import (
    CHAIN_ARMS,
    CLEAN,
    CLIP_FRAMES,
    SPARSE_ARMS,
    TODAY,
    Arm,
    plots,
    story_of,
)
from benchmarks.train.world import is_held_out
from chaining.capabilities import capabilities_of
from chaining.lengths import Lengths
from chaining.schedule import make_schedule
from vidgen.models import resolve

CLIPS = 4
ARMS = (*CHAIN_ARMS, *SPARSE_ARMS)
SHAPE = (CLIP_FRAMES, 96, 96)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_every_arm_shows_as_many_clips_of_the_same_length(arm: Arm) -> None:
    family = resolve("toyworld").family
    story = story_of(plots(1, CLIPS)[0], arm, SHAPE, 10)
    lengths = Lengths.of(family, CLIP_FRAMES)
    made = make_schedule(story, lengths, Fraction(16), capabilities_of(family))
    assert [clip.num_frames for clip in made.shown] == [CLIP_FRAMES] * CLIPS
    assert sum(clip.shown for clip in made.shown) == (
        CLIP_FRAMES + (CLIPS - 1) * (CLIP_FRAMES - arm.shared)
    )
    assert made.adjustments == ()


def test_every_arm_differs_in_one_thing_from_what_it_is_judged_against() -> None:
    by_name = {arm.name: arm for arm in ARMS}
    assert len(by_name) == len(ARMS)
    for arm in ARMS:
        if arm.against is None or arm.name == CLEAN:
            continue
        changed = _settings(arm) ^ _settings(by_name[arm.against])
        names = {name for name, _ in changed}
        # What only names the kind of a change that another setting measures.
        kinds = {"overlap", "mode", "attention"}
        assert names, arm.name
        assert len(names - kinds) <= 1, (arm.name, names)
    assert by_name[CLEAN].against == TODAY


def _settings(arm: Arm) -> set[tuple[str, str]]:
    found = {("strategy", arm.strategy)}
    for item in fields(arm):
        if item.name in ("handover", "controls", "request"):
            found |= {(name, str(value)) for name, value in getattr(arm, item.name).items()}
    return found


def test_stories_turn_back_and_were_never_trained_on() -> None:
    for plot in plots(8, CLIPS):
        assert is_held_out(plot.scenes[0])
        there, back = plot.scenes[0].motion, plot.scenes[1].motion
        assert {there, back} in ({"left", "right"}, {"up", "down"}, {"still"})
        assert [scene.motion for scene in plot.scenes] == [there, back] * (CLIPS // 2)
        assert len({scene.colour for scene in plot.scenes}) == 1
