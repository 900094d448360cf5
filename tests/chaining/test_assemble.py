"""The delivered video frame by frame: numbered frames in, each of them once out."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.assemble import joined
from chaining.chain import Chain, Result
from chaining.footage import open_footage
from chaining.maker import Ask
from chaining.story import parse_story
from tests.chaining.drifty import SIDE, Float, Maker
from vidgen.media import probe_video, read_recipe, read_video

CODE = 1 / 1024


class CountingMaker(Maker):
    """Frame i of a clip shows (number of the clip, i) as flat colours, exact in 16 bits."""

    def draw(self, ask: Ask) -> tuple[Float, Float | None]:
        frames = np.zeros((ask.num_frames, SIDE, SIDE, 3), np.float32)
        frames[..., 0] = (self.calls - 1) * CODE
        frames[..., 1] = np.arange(ask.num_frames)[:, None, None] * CODE
        return frames, np.zeros((1, (ask.num_frames - 1) // 4 + 1, 2, 2), np.float32)


def run(folder: Path, **fields: Any) -> Result:
    shots = fields.pop("shots", [{"prompt": "a", "seconds": 2.5}])
    request = {"format": "master"}
    story = parse_story(
        {
            "shots": shots,
            "seed": 1,
            "request": request,
            "controls": {"colour_lock": "off"},
            **fields,
        }
    )
    maker = CountingMaker(clip_frames=13)
    return Chain(story, maker, folder / "chain", measure=False).run(folder / "video.mkv")


def numbers(folder: Path) -> list[tuple[int, int]]:
    """(clip, frame) of every frame of the file."""
    frames = np.concatenate(list(read_video(folder / "video.mkv")))
    found = [np.rint(frame[0, 0, :2] / CODE).astype(int) for frame in frames]
    return [(int(clip), int(frame)) for clip, frame in found]


@pytest.mark.parametrize(
    ("strategy", "handover"),
    [
        ("last_frame", {}),
        ("last_latent", {"latents": 2}),
        ("overlap", {"overlap": 5, "join_frames": 0}),
        ("overlap", {"overlap": 5, "join": "cut"}),
        ("keyframes", {}),
    ],
)
def test_every_frame_is_shown_once(tmp_path: Path, strategy: str, handover: dict[str, Any]) -> None:
    result = run(tmp_path, strategy=strategy, handover=handover)
    overlap = {"last_frame": 1, "last_latent": 5, "overlap": 5, "keyframes": 1}[strategy]
    skipped = 3 if handover.get("join") == "cut" else overlap  # the older run keeps the middle
    expected = []
    for number, take in enumerate(result.takes):
        last = number == len(result.takes) - 1
        stop = take.plan.num_frames - (0 if last else overlap - skipped)
        start = skipped if number else 0
        expected += [(take.plan.index, frame) for frame in range(start, stop)]
    assert numbers(tmp_path) == expected
    assert len(expected) == result.num_frames == result.schedule.num_frames


def test_a_bridge_shows_neither_of_its_end_frames(tmp_path: Path) -> None:
    shots = [
        {"prompt": "a", "seconds": 0.5},
        {"prompt": "b", "seconds": 0.5, "transition": "bridge"},
    ]
    result = run(tmp_path, shots=shots, handover={"bridge_seconds": 0.4})
    before, bridge, after = result.takes
    assert numbers(tmp_path) == [
        *((before.plan.index, frame) for frame in range(9)),
        *((bridge.plan.index, frame) for frame in range(1, 8)),
        *((after.plan.index, frame) for frame in range(9)),
    ]


def test_an_overlap_is_mixed_in_linear_light(tmp_path: Path) -> None:
    """Half of 0 and half of 1 by light: sRGB 0.7354, not 0.5."""

    class Flat(Maker):
        def draw(self, ask: Ask) -> tuple[Float, Float | None]:
            level = np.float32(self.calls % 2 == 0)
            return np.full((ask.num_frames, SIDE, SIDE, 3), level), None

    story = parse_story(
        {
            "shots": [{"prompt": "a", "seconds": 13 / 16}],
            "strategy": "overlap",
            "handover": {"overlap": 5, "join_frames": 3},
            "request": {"format": "master"},
            "controls": {"colour_lock": "off"},
        }
    )
    result = Chain(story, Flat(clip_frames=9), tmp_path / "chain", measure=False).run(
        tmp_path / "video.mkv"
    )
    levels = np.concatenate(list(read_video(tmp_path / "video.mkv")))[:, 0, 0, 0]
    assert [take.plan.num_frames for take in result.takes] == [9, 9]
    middle = 1.055 * 0.5 ** (1 / 2.4) - 0.055
    quarter = 1.055 * 0.25 ** (1 / 2.4) - 0.055
    three = 1.055 * 0.75 ** (1 / 2.4) - 0.055
    expected = [0] * 6 + [quarter, middle, three] + [1] * 4
    assert levels == pytest.approx(expected, abs=2 / 65535)


@pytest.mark.parametrize("chunk", [1, 2, 5, 16])
def test_chunks_change_nothing(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(tmp_path, strategy="overlap", handover={"overlap": 5, "join": "ease"})
    whole = np.concatenate(list(joined(result.takes, "ease")))
    shown = type(result.takes[0]).shown
    with monkeypatch.context() as patch:
        patch.setattr(type(result.takes[0]), "shown", lambda take, start: shown(take, start, chunk))
        pieces = list(joined(result.takes, "ease"))
    assert max(len(piece) for piece in pieces) <= chunk + 5
    assert (np.concatenate(pieces) == whole).all()


def test_masters_keep_16_bits(tmp_path: Path) -> None:
    levels = np.linspace(0, 1, SIDE * SIDE * 3, dtype=np.float32).reshape(1, SIDE, SIDE, 3)

    class Ramp(Maker):
        def draw(self, ask: Ask) -> tuple[Float, Float | None]:
            return np.repeat(levels, ask.num_frames, axis=0), None

    story = parse_story({"shots": [{"prompt": "a", "seconds": 0.5}]})
    result = Chain(story, Ramp(), tmp_path / "chain", measure=False).run()
    kept = next(result.takes[0].shown(0))
    assert np.abs(kept[0] - levels[0]).max() <= 0.5 / 65535 + 1e-7


def test_the_file_is_cropped_and_carries_the_recipe_of_the_whole_chain(tmp_path: Path) -> None:
    import json

    maker = CountingMaker(clip_frames=13, export_size=(SIDE - 8, SIDE - 2))
    story = parse_story({"shots": [{"prompt": "a cat", "seconds": 2}], "seed": 4})
    chain = Chain(story, maker, tmp_path / "chain", measure=False)
    result = chain.run(tmp_path / "video.mp4")
    info = probe_video(tmp_path / "video.mp4")
    assert (info.width, info.height, info.fps) == (SIDE - 8, SIDE - 2, Fraction(16))
    assert info.num_frames == result.num_frames == 33
    recipe = json.loads(read_recipe(tmp_path / "video.mp4") or "")
    assert recipe["story"] == story.model_dump(mode="json")
    assert recipe["seed"] == 4
    clips = recipe["chain"]["clips"]
    assert [clip["seed"] for clip in clips] == [ask.seed for ask in maker.asks]
    assert [(clip["start"], clip["stop"]) for clip in clips] == [(0, 9), (9, 21), (21, 33)]
    footage = open_footage(tmp_path / "video.mp4")
    assert (footage.clips.lengths, footage.clips.found) == ((9, 12, 12), "recipe")
