"""Video files for the meter: boundaries, cuts, and the same numbers from file and memory."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.cuts import find_cuts
from chaining.drift.arrays import Float
from chaining.drift.bases import Synthetic
from chaining.drift.inject import Injector
from chaining.drift.meter import measure
from chaining.footage import open_footage
from chaining.measure_file import measure_file
from vidgen.errors import BadMedia, BadRequest
from vidgen.media import VideoWriter

_CLIP = 24


def _write(path: Path, frames: Float, recipe: dict[str, Any] | None = None) -> Path:
    profile = "mp4" if path.suffix == ".mp4" else "master"
    text = None if recipe is None else json.dumps(recipe)
    with VideoWriter(
        path, width=frames.shape[2], height=frames.shape[1], fps=Fraction(16), profile=profile,
        recipe=text,
    ) as writer:  # fmt: skip
        writer.write(frames)
    return path


@pytest.fixture(scope="module")
def darkening() -> Float:
    """Return four clips that darken by 3 per cent each, as 8-bit codes."""
    base, injector = Synthetic(0, 96, 54, _CLIP), Injector.parse("gain=0.97")
    clips = [injector.apply(base.frames(k * _CLIP, _CLIP), k) for k in range(4)]
    frames = np.rint(np.clip(np.concatenate(clips), 0, 1) * 255) / np.float32(255)
    return np.asarray(frames, np.float32)


@pytest.fixture(scope="module")
def still() -> Float:
    """Return 96 dull frames that are quick to write."""
    return np.full((96, 54, 96, 3), 0.4, np.float32)


@pytest.fixture(scope="module")
def dull(still: Float, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lossless file of the dull frames."""
    return _write(tmp_path_factory.mktemp("dull") / "dull.mkv", still)


def test_a_lossless_file_reads_as_the_frames_in_memory(darkening: Float, tmp_path: Path) -> None:
    wanted = measure(darkening, [_CLIP] * 4, fps=16)
    footage = open_footage(_write(tmp_path / "a.mkv", darkening), clip_frames=_CLIP)
    seen: list[int] = []
    found = measure_file(footage, watch=seen.append).drift
    assert found.verdict == wanted.verdict
    assert found.verdict.overall == "fail"
    assert set(found.slopes) == set(wanted.slopes)
    for name, slope in wanted.slopes.items():
        assert found.slopes[name].value == pytest.approx(slope.value, abs=1e-3), name
        assert found.slopes[name].ci95 == pytest.approx(slope.ci95, abs=1e-3), name
    assert [seam.frame for seam in found.seams] == [24, 48, 72]
    assert found.source.kind == "png"
    assert found.source.sha256 is not None
    assert seen[-1] == 96


def test_a_delivered_file_says_that_it_is_lossy(still: Float, tmp_path: Path) -> None:
    footage = open_footage(_write(tmp_path / "a.mp4", still[:8]))
    measured = measure_file(footage)
    assert measured.drift.source.kind == "lossy"
    assert any("h264" in note for note in measured.notes)


@pytest.mark.parametrize(
    ("given", "lengths"),
    [
        ({"clip_frames": 24}, (24, 24, 24, 24)),
        ({"clip_seconds": 1.5}, (24, 24, 24, 24)),
        ({"clip_seconds": 1.5, "fps": 32}, (48, 48)),
        ({"clip_frames": 40}, (40, 56)),
        ({"clip_frames": 36}, (36, 36, 24)),
        ({"clip_frames": 96}, (96,)),
        ({}, (96,)),
    ],
)
def test_lengths(given: dict[str, Any], lengths: tuple[int, ...], dull: Path) -> None:
    footage = open_footage(dull, **given)
    assert footage.clips.lengths == lengths
    pieces = [sum(len(chunk) for chunk in piece) for piece in footage.pieces()]
    assert pieces == list(lengths)
    uneven = len(set(lengths)) > 1
    assert bool(footage.clips.notes) == (uneven or not given)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"clip_frames": 0}, "--clip-frames 0"),
        ({"clip_frames": 97}, "has 96"),
        ({"clip_seconds": 0}, "--clip-seconds 0"),
        ({"clip_seconds": float("inf")}, "--clip-seconds inf"),
        ({"clip_seconds": 0.01}, "0.0625 or more"),
        ({"clip_frames": 8, "clip_seconds": 1}, "give one of them"),
        ({"clip_frames": 8, "cuts": True}, "give one of them"),
        ({"fps": 0}, "--fps 0"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(given: dict[str, Any], word: str, dull: Path) -> None:
    with pytest.raises(BadRequest, match=word) as raised:
        open_footage(dull, **given)
    assert raised.value.message.count(". ") == 0


def test_the_recipe_names_the_clips(still: Float, tmp_path: Path) -> None:
    rows = [
        {"start": 0, "stop": 30, "kind": "continue"},
        {"start": 30, "stop": 70, "kind": "continue"},
        {"start": 70, "stop": 96, "kind": "cut"},
    ]
    path = _write(tmp_path / "a.mkv", still, {"chain": {"clips": rows}})
    clips = open_footage(path).clips
    assert (clips.lengths, clips.kinds) == ((30, 40, 26), ("continue", "continue", "cut"))
    assert clips.found == "recipe"
    assert open_footage(path, clip_frames=48).clips.lengths == (48, 48)
    plain = _write(tmp_path / "b.mkv", still[:20], {"vidgen_recipe": 1})
    assert open_footage(plain).clips.found == "whole"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        "none",
        [{"start": 0, "stop": 12}],
        [{"start": 0, "stop": 9, "kind": "continue"}],
        [{"start": 5, "stop": 12, "kind": "continue"}],
        [{"start": 0, "stop": 12, "kind": "jump"}],
        [
            {"start": 0, "stop": 8, "kind": "continue"},
            {"start": 4, "stop": 8, "kind": "continue"},
        ],
        [{"start": 0, "stop": 0, "kind": "cut"}, {"start": 0, "stop": 12, "kind": "cut"}],
    ],
)
def test_a_damaged_or_outdated_recipe_is_not_believed(
    rows: Any, still: Float, tmp_path: Path
) -> None:
    path = _write(tmp_path / "a.mkv", still[:12], {"chain": {"clips": rows}})
    with pytest.raises(BadMedia, match="--clip-frames"):
        open_footage(path)


def test_cuts_are_found_but_not_pans_flashes_or_fades() -> None:
    one, two = (Synthetic(seed, 96, 54, 60).frames(0, 40) for seed in (0, 5))
    two = two[..., ::-1] ** np.float32(1.8)
    flash = one.copy()
    flash[20:23] = np.minimum(flash[20:23] + np.float32(0.4), 1)
    fade = one * np.linspace(1, 0.2, 40, dtype=np.float32)[:, None, None, None]
    assert find_cuts([np.concatenate([one[:30], two[:30]]), one]) == [30, 60]
    assert find_cuts([one]) == []
    assert find_cuts([flash]) == []
    assert find_cuts([fade]) == []
    assert find_cuts([one[:1]]) == []


def test_scenes_are_kept_apart(tmp_path: Path) -> None:
    one, two = (Synthetic(seed, 96, 54, 60).frames(0, 20) for seed in (0, 5))
    frames = np.concatenate([one, two[..., ::-1] ** np.float32(1.8)])
    footage = open_footage(_write(tmp_path / "a.mkv", frames), cuts=True)
    assert footage.clips.lengths == (20, 20)
    assert footage.clips.kinds == ("continue", "cut")
    assert "1 hard cut" in footage.clips.notes[0]
