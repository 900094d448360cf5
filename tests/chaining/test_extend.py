"""Extending a video: which frames stay and follow, what is said, and where its sound lies."""

# f frames  r rows  w columns  c channels  s samples
import json
import tracemalloc
import wave
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from chaining.chain import Chain, Result
from chaining.extend import (
    Continuing,
    Extended,
    Original,
    adjustments,
    extended_recipe,
    open_original,
)
from chaining.extend_write import Encoding, write_extended
from chaining.lengths import Lengths
from chaining.manifest import read_manifest
from chaining.recipe import chain_recipe
from chaining.sound import write_sound
from chaining.story import parse_story
from tests.chaining.drifty import DriftyMaker, IdentityMaker, Maker
from tests.media.pictures import ffmpeg
from vidgen.errors import BadRequest, Unsupported
from vidgen.media import VideoWriter, read_recipe, read_video

NTSC = Fraction(24000, 1001)
RATE = 48000
COUNT = 24
WIDE = (60, 44)


def levels(frames: Any) -> np.ndarray:
    """The middle level of each frame, by which frames are told apart."""
    found: np.ndarray = np.asarray(frames)[:, 20:24, 20:24].mean(axis=(1, 2, 3))
    return found


def numbered(count: int, size: tuple[int, int] = WIDE) -> np.ndarray:
    """Frames whose grey is 0.2 + 0.02 times their number."""
    grey = 0.2 + 0.02 * np.arange(count, dtype=np.float32)
    return np.broadcast_to(grey[:, None, None, None], (count, size[1], size[0], 3))


def clip(path: Path, frames: np.ndarray, profile: str = "master", fps: Fraction = NTSC) -> Path:
    rows, columns = frames.shape[1:3]
    with VideoWriter(path, width=columns, height=rows, fps=fps, profile=profile) as writer:
        writer.write(frames)
    return path


def click(path: Path, at: int, seconds: float) -> Path:
    """A wav file, silent but for one click: 20 samples of half the full level."""
    samples_s = np.zeros(round(RATE * seconds), "<i2")
    samples_s[at : at + 20] = 16000
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(samples_s.tobytes())
    return path


def heard(path: Path) -> np.ndarray:
    """The first channel of a file's sound, decoded by another program."""
    raw = ffmpeg("-i", path, "-ac", "1", "-ar", str(RATE), "-f", "f32le", "-")
    return np.frombuffer(raw, np.float32)


def extended(
    original: Original, folder: Path, maker: Maker, new: int = 16, **fields: Any
) -> tuple[Extended, Result]:
    """Go on with a video by so many frames."""
    maker.fps = original.info.fps
    count = original.num_opening(maker.lengths)
    shots = [
        {"prompt": original.prompt, "seconds": float(count / maker.fps), "strategy": "single"},
        {"prompt": "a", "seconds": float(new / maker.fps), "transition": "continue"},
    ]
    story = parse_story({"shots": shots, "seed": 1, **fields})
    result = Chain(story, Continuing(maker, original), folder, measure=False).run()
    return Extended(original, result.takes), result


def test_the_old_frames_stay_and_the_new_ones_follow_the_last(tmp_path: Path) -> None:
    """An identity maker repeats what it is given: all new frames show the frame gone on from."""
    original = open_original(clip(tmp_path / "a.mkv", numbered(COUNT)), from_frame=18)
    made, result = extended(original, tmp_path / "chain", IdentityMaker())
    assert (made.kept, made.num_frames) == (19, 35)
    assert len(result.takes) == 3  # the end, and two clips of 9 frames that each share one
    frames_frwc = np.concatenate(list(made.frames("linear")))
    assert frames_frwc.shape == (35, 44, 60, 3)
    want = np.concatenate([0.2 + 0.02 * np.arange(19), np.full(16, 0.56)])
    assert np.abs(levels(frames_frwc) - want).max() < 1e-3


@pytest.mark.parametrize("mode", ["pin", "blend"])
def test_an_overlap_is_given_whole_and_the_original_shown(tmp_path: Path, mode: str) -> None:
    original = open_original(clip(tmp_path / "a.mkv", numbered(COUNT)))
    maker = DriftyMaker(gain=0.9)
    fields = {"strategy": "overlap", "handover": {"overlap": 5, "mode": mode}}
    made, _ = extended(original, tmp_path / "chain", maker, new=8, **fields)
    ask = maker.asks[0]
    given = ask.prefix_frwc if mode == "pin" else ask.image_rwc[None]  # type: ignore[index]
    assert given is not None
    want = 0.2 + 0.02 * np.arange(COUNT - 5, COUNT)
    assert np.abs(levels(given) - want[: len(given)]).max() < 1e-3
    frames_frwc = np.concatenate(list(made.frames("linear")))
    assert (made.kept, len(frames_frwc)) == (COUNT, made.num_frames)
    assert np.abs(levels(frames_frwc[:COUNT]) - 0.2 - 0.02 * np.arange(COUNT)).max() < 1e-3


def test_the_sharpest_frame_may_lie_before_the_last(tmp_path: Path) -> None:
    """Frame 20 alone has an edge; what follows it is cut off, and the length stays as asked."""
    frames_frwc = np.array(numbered(COUNT))
    frames_frwc[20, ::2] = 0.9
    original = open_original(clip(tmp_path / "a.mkv", frames_frwc))
    maker = IdentityMaker(clip_frames=17)
    made, _ = extended(original, tmp_path / "c", maker, new=12, handover={"pick": "sharpest"})
    assert made.kept == 21
    shown_frwc = np.concatenate(list(made.frames("cut")))
    assert len(shown_frwc) == made.num_frames == COUNT + 12
    assert np.abs(shown_frwc[21:, 10] - 0.9).max() < 0.2


def test_a_video_shorter_than_a_clip_begins_with_copies(tmp_path: Path) -> None:
    original = open_original(clip(tmp_path / "a.mkv", numbered(2)))
    assert original.num_opening(Lengths(4, 9, 81)) == 5
    made, _ = extended(original, tmp_path / "chain", IdentityMaker(), new=8)
    shown = levels(np.concatenate(list(made.frames("cut"))))
    assert np.abs(shown - [0.2, *[0.22] * 9]).max() < 1e-3


def test_a_chain_goes_on_with_the_same_video_only(tmp_path: Path) -> None:
    path = clip(tmp_path / "a.mkv", numbered(COUNT))
    original = open_original(path)
    extended(original, tmp_path / "chain", IdentityMaker())
    assert read_manifest(tmp_path / "chain").identity["extends"]["from_frame"] == 23
    clip(path, numbered(COUNT)[::-1])
    story = read_manifest(tmp_path / "chain").parsed_story()
    maker = Continuing(IdentityMaker(fps=NTSC), open_original(path))
    with pytest.raises(BadRequest, match=r"extends\.sha256"):
        Chain(story, maker, tmp_path / "chain", measure=False).run(resume=True)


@pytest.mark.parametrize(
    ("words", "kept"),
    [({}, 24), ({"from_frame": 0}, 1), ({"from_frame": 23}, 24), ({"from_seconds": 0.0}, 1),
     ({"from_seconds": 0.5}, 12), ({"from_seconds": 24 * 1001 / 24000}, 24)],
)  # fmt: skip
def test_where_it_goes_on(tmp_path: Path, words: dict[str, Any], kept: int) -> None:
    """At 24000/1001 a second frame 11 is shown from 0.4588 s to 0.5005 s."""
    path = clip(tmp_path / "a.mkv", numbered(COUNT))
    assert open_original(path, **words).kept == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"from_frame": 24}, "from_frame=24 is not in a.mkv; its frames are 0 to 23"),
        ({"from_frame": -1}, "0 to 23"),
        ({"from_seconds": 1.5}, "from=1.5 s is not in a.mkv, which lasts 1.001 s"),
        ({"from_seconds": float("nan")}, "from=nan s is not in a.mkv"),
        ({"from_seconds": float("inf")}, "from=inf s is not in a.mkv"),
        ({"from_frame": 1, "from_seconds": 1.0}, "give one of them"),
    ],
)
def test_beyond_the_end(tmp_path: Path, words: dict[str, Any], said: str) -> None:
    path = clip(tmp_path / "a.mkv", numbered(COUNT))
    with pytest.raises(BadRequest, match=said):
        open_original(path, **words)


def test_a_variable_rate_is_refused(tmp_path: Path) -> None:
    steady = clip(tmp_path / "a.mkv", numbered(COUNT))
    path = tmp_path / "b.mkv"
    ffmpeg("-i", steady, "-vf", "setpts='if(gt(N,12),N+5,N)/(24*TB)'", "-fps_mode", "vfr",
           "-c:v", "ffv1", path)  # fmt: skip
    with pytest.raises(Unsupported, match="variable frame rate"):
        open_original(path)


def test_all_that_differs_is_told(tmp_path: Path) -> None:
    """Stored 44x60 with a quarter turn, so shown 60x44; the model makes 64x48 at 16."""
    tall = clip(tmp_path / "a.mp4", numbered(COUNT, (44, 60)), "mp4")
    path = tmp_path / "b.mp4"
    ffmpeg("-display_rotation", "90", "-i", tall, "-c", "copy", path)
    original = open_original(path, from_frame=9)
    assert (original.info.width, original.info.height) == WIDE
    assert original.last_frame().shape == (44, 60, 3)
    found = {item.field: item for item in adjustments(original, (64, 48), Fraction(16), "mp4")}
    assert set(found) == {"rotation", "size", "fps", "num_frames"}
    assert (found["size"].asked, found["size"].used) == ("60x44", "64x48")
    assert "0.978 times as wide" in found["size"].why  # (64 / 48) / (60 / 44)
    assert (found["fps"].asked, found["fps"].used) == ("16", "24000/1001")
    assert "1.50 times as fast" in found["fps"].why  # 23.976 / 16
    assert (found["num_frames"].asked, found["num_frames"].used) == (24, 10)
    same = open_original(clip(tmp_path / "c.mkv", numbered(4)))
    assert adjustments(same, WIDE, NTSC, "mp4") == ()


def test_sound_stays_where_it_was_sample_by_sample(tmp_path: Path) -> None:
    """A click at sample 30030 is 15 frames in: it stays, and after the cut there is silence."""
    silent = clip(tmp_path / "a.mkv", numbered(COUNT))
    track = click(tmp_path / "a.wav", 30030, 1.001)
    path = tmp_path / "b.mkv"
    ffmpeg("-i", silent, "-i", track, "-c", "copy", path)
    original = open_original(path, from_frame=17)
    made, result = extended(original, tmp_path / "chain", IdentityMaker(), new=8)
    recipe = chain_recipe(read_manifest(tmp_path / "chain"), result.takes)
    recipe = extended_recipe(recipe, made)
    texts: Any = {"join": "linear", "recipe": recipe, "title": "a"}
    until = write_extended(made, tmp_path / "c.mkv", Encoding("master", None), **texts)
    assert until == Fraction(18 * 1001, 24000)
    loud = np.flatnonzero(np.abs(heard(tmp_path / "c.mkv")) > 0.1)
    assert (loud[0], loud[-1]) == (30030, 30049)
    assert len(heard(tmp_path / "c.mkv")) == round(26 * 1001 / 24000 * RATE)
    with av.open(str(tmp_path / "c.mkv")) as container:
        assert sum(1 for _ in container.decode(video=0)) == 26
    assert json.loads(read_recipe(tmp_path / "c.mkv") or "")["extends"]["kept"] == 18
    assert [(c["start"], c["stop"]) for c in recipe["chain"]["clips"]] == [(0, 18), (18, 26)]
    early = open_original(path, from_frame=14)  # its sound ends where the click begins
    write_sound(path, tmp_path / "d.wav", Fraction(early.kept) / NTSC, Fraction(2))
    assert np.abs(heard(tmp_path / "d.wav")).max() == 0


def test_sound_of_a_phone_lies_right_after_aac(tmp_path: Path) -> None:
    """Sound that begins late, as AAC: the click comes out where ffmpeg's own decoder has it."""
    silent = clip(tmp_path / "a.mp4", numbered(COUNT), "mp4")
    track = click(tmp_path / "a.wav", 10010, 0.8)
    path = tmp_path / "b.mp4"
    ffmpeg("-i", silent, "-itsoffset", "0.1", "-i", track, "-c:v", "copy", "-c:a", "aac", path)
    original = open_original(path)
    made, result = extended(original, tmp_path / "chain", IdentityMaker(), new=8)
    recipe = chain_recipe(read_manifest(tmp_path / "chain"), result.takes)
    texts: Any = {"join": "linear", "recipe": extended_recipe(recipe, made), "title": "a"}
    write_extended(made, tmp_path / "c.mp4", Encoding("mp4", None), **texts)
    loud = np.flatnonzero(np.abs(heard(tmp_path / "c.mp4")) > 0.25)
    assert abs(int(loud[0]) - (10010 + 4800)) <= 2
    assert len(list(read_video(tmp_path / "c.mp4", chunk=1))) == 32


def test_long_sound_goes_through_in_pieces(tmp_path: Path) -> None:
    """20 s of sound and 40 s of silence would be 23 MB as one array of floats."""
    silent = clip(tmp_path / "a.mkv", numbered(COUNT))
    path = tmp_path / "b.mkv"
    track = click(tmp_path / "a.wav", 19 * RATE, 20)
    ffmpeg("-i", silent, "-i", track, "-c:v", "copy", "-ac", "2", "-c:a", "flac", path)
    tracemalloc.start()
    try:
        write_sound(path, tmp_path / "c.wav", Fraction(20), Fraction(60))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6
    sound = heard(tmp_path / "c.wav")
    assert len(sound) == 60 * RATE
    loud = np.flatnonzero(np.abs(sound) > 0.1)
    assert (loud[0], loud[-1]) == (19 * RATE, 19 * RATE + 19)


def test_what_holds_no_sound_says_so(tmp_path: Path) -> None:
    silent = clip(tmp_path / "a.mkv", numbered(COUNT))
    path = tmp_path / "b.mkv"
    ffmpeg("-i", silent, "-i", click(tmp_path / "a.wav", 5, 1.0), "-c", "copy", path)
    told = adjustments(open_original(path), WIDE, NTSC, "gif")
    assert [str(item) for item in told] == ["audio: keep -> drop (gif holds no sound)"]
    made, _ = extended(open_original(silent), tmp_path / "chain", IdentityMaker(), new=8)
    texts: Any = {"join": "cut", "recipe": {}, "title": "a"}
    assert write_extended(made, tmp_path / "c.gif", Encoding("gif", None), **texts) is None
