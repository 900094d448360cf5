"""Frame arithmetic against frames that are laid down one by one."""

import itertools
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaining.capabilities import Capability
from chaining.controls import Handover
from chaining.lengths import Lengths, divide
from chaining.schedule import Schedule, make_schedule
from chaining.seeds import clip_seed
from chaining.story import Story, parse_story
from vidgen.errors import BadRequest, Unsupported

ALL = frozenset(Capability)


def story(*shots: dict[str, Any], **fields: Any) -> Story:
    made = [{"prompt": f"shot {i}", "seconds": 1.0, **shot} for i, shot in enumerate(shots)]
    return parse_story({"shots": made, "seed": 5, **fields})


def scheduled(
    made: Story, most: int = 17, step: int = 4, fps: int = 16, *, begun: bool = False
) -> Schedule:
    return make_schedule(made, Lengths(step, most, 81), Fraction(fps), ALL, begun=begun)


def laid_down(schedule: Schedule) -> list[tuple[int, int]]:
    """The video as (clip, frame of that clip), written as the clips would be shown one by one."""
    video: list[tuple[int, int]] = []
    for clip in schedule.shown:
        for frame in range(clip.overlap, clip.stop - clip.first):
            assert clip.first + frame == len(video), "a frame is lost or doubled"
            video.append((clip.index, frame))
    return video


shots = st.lists(
    st.fixed_dictionaries(
        {
            "seconds": st.floats(0.05, 6),
            "transition": st.sampled_from(["continue", "cut", "bridge"]),
            "strategy": st.sampled_from(
                ["last_frame", "last_latent", "overlap", "keyframes", "single"]
            ),
        }
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    shots,
    st.integers(1, 8),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(0, 6),
    st.sampled_from([8, 16, 24]),
    st.fixed_dictionaries(
        {
            "pick": st.sampled_from(["last", "sharpest"]),
            "mode": st.sampled_from(["pin", "noise", "renoise", "blend"]),
            "latents": st.integers(1, 3),
            "join": st.sampled_from(["cut", "linear", "ease"]),
            "join_frames": st.integers(0, 20),
            "bridge_seconds": st.floats(0.05, 3),
        }
    ),
    st.booleans(),
)
def test_no_frame_is_lost_or_doubled(
    asked: list[dict[str, Any]],
    groups: int,
    step: int,
    shared: int,
    fps: int,
    handover: dict[str, Any],
    ends: bool,
) -> None:
    asked = [dict(shot) for shot in asked]
    asked[0].pop("transition")
    extra = {"end_image": "end.png"} if ends else {}
    made = story(*asked, handover={**handover, "overlap": step * shared + 1}, **extra)
    most = step * groups + 1
    try:
        # Begun, so that an option which no shot reads is none to refuse.
        schedule = scheduled(made, most, step, fps, begun=True)
    except BadRequest:
        assume(False)
    video = laid_down(schedule)
    assert len(video) == schedule.num_frames
    assert schedule.seconds == Fraction(len(video), fps)
    by_index = {clip.index: clip for clip in schedule.clips}
    assert list(by_index) == list(range(len(schedule.clips)))
    for clip in schedule.clips:
        longest = 81 if clip.strategy == "single" else most
        assert (clip.num_frames - 1) % step == 0
        assert 1 <= clip.num_frames <= longest
        assert clip.shown + clip.dropped + clip.mixed == clip.num_frames
        if clip.kind == "keyframe":
            continue
        # However early the clip before ends, the frames that are made reach the end.
        early = 0 if clip.previous is None else by_index[clip.previous].window - 1
        assert clip.stop - clip.first + early <= clip.num_frames
        if clip.end is not None and clip.kind == "clip":
            assert clip.stop - clip.first == clip.num_frames, "it ends on its picture"
        for source in (clip.start, clip.end):
            assert source is None or source.clip is None or source.clip < clip.index
        if clip.previous is not None:
            assert clip.previous < clip.index
            before = by_index[clip.previous]
            assert before.stop - before.first >= clip.overlap
            if clip.strategy == "last_latent":
                exact = before.num_frames == before.stop - before.first
                free = before.previous is not None and by_index[before.previous].window > 1
                assert exact, "latents end with the frame that is shown last"
                assert not free
    # A shot ends within half a step of where it was asked to end; bridges push it on.
    ends_at = [0] * len(asked)
    for clip in schedule.shown:
        ends_at[clip.shot] = max(ends_at[clip.shot], clip.stop)
    if all(shot["seconds"] * fps > 2 * step + 1 for shot in asked) and most > step + 1:
        added = 0
        for number, end in enumerate(ends_at):
            added += sum(c.shown for c in schedule.shown if c.kind == "bridge" and c.shot == number)
            wanted = sum(shot["seconds"] for shot in asked[: number + 1]) * fps + added
            assert abs(end - wanted) <= step / 2 + 0.51


@pytest.mark.parametrize("overlap", [1, 5, 9, 13])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_full_clips_give_the_length_of_the_formula(overlap: int, count: int) -> None:
    """N + (K - 1)(N - o) frames of K clips of N with overlap o."""
    most = 17
    frames = most + (count - 1) * (most - overlap)
    made = story({"seconds": frames / 16}, strategy="overlap", handover={"overlap": overlap})
    schedule = scheduled(made, most)
    assert schedule.num_frames == frames
    assert [clip.num_frames for clip in schedule.clips] == [most] * count
    assert schedule.adjustments == ()


def test_groups_are_divided_among_as_few_clips_as_can_hold_them() -> None:
    for groups, first_room in itertools.product(range(1, 25), range(1, 6)):
        for room in range(1, first_room + 1):
            found = divide(groups, first_room, room)
            assert sum(found) == groups
            assert min(found) >= 1
            assert found[0] <= first_room
            assert max(found[1:], default=0) <= room
            even = max(found) - min(found) <= 1
            assert even or min(found[1:]) == room
            assert first_room + (len(found) - 2) * room < groups or len(found) == 1


def test_scheduling_needs_no_torch() -> None:
    code = (
        "import sys, chaining.schedule, chaining.story_files; "
        "print([name for name in ('torch', 'diffusers', 'av') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_what_seconds_became_is_told() -> None:
    schedule = scheduled(story({"seconds": 2.0}, {"transition": "bridge", "seconds": 1.0}))
    told = {item.field: (item.asked, item.used) for item in schedule.adjustments}
    assert told["shots.0.seconds"] == (2.0, 33 / 16)
    assert told["seconds"] == (3.0, round(schedule.num_frames / 16, 6))


def test_a_bridge_lies_between_the_shots_and_is_made_after_both_ends() -> None:
    schedule = scheduled(story({}, {"transition": "bridge"}, handover={"bridge_seconds": 0.5}))
    bridge = next(clip for clip in schedule.clips if clip.kind == "bridge")
    assert bridge.start is not None
    assert bridge.end is not None
    before, after = (schedule.clips[source.clip or 0] for source in (bridge.start, bridge.end))
    assert (before.shot, after.shot) == (0, 1)
    assert (bridge.start.at, bridge.end.at) == ("last", "first")
    assert (before.place, bridge.place, after.place) == (0, 1, 2)
    assert (bridge.num_frames, bridge.shown) == (13, 11)  # 8 frames asked, and both ends
    assert after.first == before.stop + 11
    assert after.follows == "anchor"


def test_keyframes_come_from_the_start_and_never_from_a_neighbour() -> None:
    made = story({"seconds": 3, "image": "a.png"}, {"transition": "continue"}, strategy="keyframes")
    schedule = scheduled(made)
    for clip in schedule.clips:
        if clip.kind == "keyframe":
            assert clip.start is not None
            assert clip.start.path == "a.png"
        else:
            assert clip.previous is None
    for one, two in itertools.pairwise(schedule.shown):
        assert one.end == two.start


def test_the_end_image_is_for_the_last_clip_only() -> None:
    for strategy in ("last_frame", "overlap", "keyframes"):
        handover = {"overlap": 5} if strategy == "overlap" else {}
        made = story({"seconds": 3}, strategy=strategy, end_image="z.png", handover=handover)
        aimed = [
            clip.place
            for clip in scheduled(made).shown
            if clip.end is not None and clip.end.path == "z.png"
        ]
        assert aimed == [len(scheduled(made).shown) - 1]


def test_the_clip_before_an_aimed_one_ends_on_its_last_frame() -> None:
    made = story({"seconds": 3}, handover={"pick": "sharpest"}, end_image="z.png")
    shown = scheduled(made).shown
    assert [clip.window for clip in shown[:-2]] == [8] * (len(shown) - 2)
    assert [clip.window for clip in shown[-2:]] == [1, 1]


def test_seeds_are_stable_and_differ() -> None:
    # sha256 of "vidgen chain 5 clip 0", first 8 bytes, without the lowest bit
    assert clip_seed(5, "clip 0") == 0x1F4115807F6931ED
    made = story({"seconds": 5}, {"seed": 77, "seconds": 3})
    seeds = [clip.seed for clip in scheduled(made).clips]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [clip.seed for clip in scheduled(made).clips]
    assert next(clip.seed for clip in scheduled(made).clips if clip.shot == 1) == 77
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_todays_practice_has_one_seed() -> None:
    """That of the first clip, so that chains with a seed for each clip begin alike."""
    made = story({"seconds": 5}, handover={"seeds": "same"})
    first = scheduled(story({"seconds": 5})).clips[0].seed
    assert {clip.seed for clip in scheduled(made).clips} == {first}


@pytest.mark.parametrize(
    ("shot", "fields", "able", "words"),
    [
        ({"seconds": 3}, {"strategy": "keyframes"}, ALL - {Capability.LAST_FRAME}, "last_frame"),
        ({"seconds": 3}, {"strategy": "overlap"}, ALL - {Capability.MULTI_FRAME}, "several first"),
        (
            {"seconds": 3},
            {"strategy": "overlap", "handover": {"mode": "noise"}},
            ALL - {Capability.PER_TOKEN_T},
            "noise level",
        ),
        ({"seconds": 3}, {}, ALL - {Capability.TEXT}, "image"),
        ({}, {"end_image": "a.png"}, ALL - {Capability.END_FRAME}, "ends on a picture"),
        ({}, {"controls": {"history_noise": 0.1}}, ALL - {Capability.PER_TOKEN_T}, "history_noise"),
    ],
)
def test_a_model_that_lacks_something_is_told_before_it_runs(
    shot: dict[str, Any], fields: dict[str, Any], able: frozenset[Capability], words: str
) -> None:
    with pytest.raises(Unsupported, match=words):
        make_schedule(story(shot, **fields), Lengths(4, 21, 81), Fraction(16), able)


@pytest.mark.parametrize(
    ("shots", "fields", "words"),
    [
        ([{}], {"strategy": "overlap", "handover": {"overlap": 6}}, "use 5"),
        ([{}], {"strategy": "overlap", "handover": {"overlap": 17}}, "leaves none"),
        ([{"seconds": 30}], {"strategy": "single"}, "last_frame"),
        ([{}, {"transition": "continue"}], {"strategy": "single"}, "Shot 2"),
        ([{}, {"transition": "continue", "image": "a.png"}], {}, "cut or bridge"),
        (
            [{"seconds": 0.3}, {}],
            {"strategy": "overlap", "handover": {"overlap": 13}},
            "longer shot",
        ),
    ],
)
def test_what_cannot_be_laid_down_is_one_sentence(
    shots: list[dict[str, Any]], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRequest, match=words) as refused:
        scheduled(story(*shots, **fields))
    assert refused.value.message.count(". ") == 0


OVERLAP = {"strategy": "overlap"}


@pytest.mark.parametrize(
    ("shots", "fields", "words"),
    [
        ([{}], {"handover": {"overlap": 5}}, r"overlap=5 does nothing with strategy last_frame;"),
        ([{}], {"handover": {"latents": 2}}, r"latents=2 .* strategy last_latent"),
        ([{}], {"handover": {"mode": "noise"}}, r"mode=noise .* strategy overlap"),
        ([{}], {"handover": {"join": "cut"}}, r"join=cut .* strategy overlap"),
        ([{}], {"handover": {"bridge_seconds": 1}}, r"bridge_seconds=1\.0 .* transition bridge"),
        ([{}], {"strategy": "single", "handover": {"through": "mp4"}}, "that hands over"),
        (
            [{}],
            OVERLAP | {"handover": {"pick": "sharpest"}},
            "with strategy overlap; .* last_frame",
        ),
        ([{}], OVERLAP | {"handover": {"overlap": 5, "noise": 0.1}}, r"handover\.mode=noise"),
        (
            [{}],
            OVERLAP | {"handover": {"overlap": 5, "join": "cut", "join_frames": 3}},
            "join_frames=3 .* a join that mixes",
        ),
        ([{}, {"strategy": "last_latent"}], {"handover": {"noise": 0.1}}, "frame and last_latent;"),
        (
            [{}, OVERLAP],
            {"handover": {"overlap": 5, "mode": "renoise"}, "controls": {"history_noise": 0.1}},
            "renoise sets its own noise",
        ),
        ([{}], {"strategy": "keyframes", "controls": {"history_noise": 0.1}}, "does nothing"),
    ],
)
def test_an_option_that_would_do_nothing_is_one_sentence(
    shots: list[dict[str, Any]], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadRequest, match=words) as refused:
        scheduled(story(*shots, **fields))
    assert refused.value.message.count(". ") == 0


def test_options_that_one_shot_reads_or_that_are_as_they_would_be_are_none_to_refuse() -> None:
    shots = ({}, OVERLAP, {"strategy": "last_latent"}, {"transition": "bridge"})
    handover = {
        "overlap": 5,
        "latents": 2,
        "pick": "sharpest",
        "bridge_seconds": 1,
        "seeds": "same",
    }
    scheduled(story(*shots, handover=handover))
    scheduled(story({}, handover=Handover().model_dump()))
    scheduled(story({}, strategy="single", handover={"seeds": "same"}))


def test_a_chain_that_was_begun_with_an_option_that_does_nothing_goes_on() -> None:
    made = story({}, handover={"overlap": 5})
    with pytest.raises(BadRequest):
        scheduled(made)
    scheduled(made, begun=True)
    scheduled(story({}, strategy="keyframes", controls={"history_noise": 0.1}), begun=True)
