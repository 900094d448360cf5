"""Finishing: exact counts, kept colours, recipes with a history, sound of the right length."""

import json
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.media.pictures import NTSC, ffmpeg, patch_middles, patches, scene
from vidgen.errors import BadMedia, BadRequest, Cancelled, DoesNotFit, NotFound, VidgenError
from vidgen.media import (
    PROFILES,
    VideoWriter,
    comparison_grid,
    crossfade,
    finish_video,
    probe_video,
    read_recipe,
    read_video,
)
from vidgen.media.ffmpeg_run import run_ffmpeg

PROMPT = "ein Hund; 狗 = #1"


def clip(
    path: Path, frames: np.ndarray, fps: Fraction = Fraction(16), profile: str = "mp4"
) -> Path:
    """A clip with a recipe."""
    recipe = json.dumps({"prompt": PROMPT}, ensure_ascii=False)
    height, width = frames.shape[1:3]
    with VideoWriter(
        path, width=width, height=height, fps=fps, profile=profile, recipe=recipe, title="Ein Hund"
    ) as writer:
        writer.write(frames)
    return path


def tone(path: Path, seconds: float) -> Path:
    """A sine of 440 Hz in a wav file."""
    wave_values = 12000 * np.sin(np.arange(int(48000 * seconds)) * 2 * np.pi * 440 / 48000)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 48000, 0, "NONE", ""))
        file.writeframes(wave_values.astype("<i2").tobytes())
    return path


def sound(path: Path) -> np.ndarray:
    """The sound of a file as mono float at 48 kHz."""
    raw = ffmpeg("-i", path, "-ac", "1", "-ar", "48000", "-f", "f32le", "-")
    return np.frombuffer(raw, np.float32)


def whole(path: Path) -> np.ndarray:
    """All frames."""
    return np.concatenate(list(read_video(path)))


def history(path: Path) -> list[dict[str, object]]:
    """The finishing steps, after checking that the first recipe is still there."""
    recipe = json.loads(read_recipe(path) or "{}")
    assert recipe["prompt"] == PROMPT
    if path.is_file() and path.suffix != ".gif":
        with av.open(str(path)) as container:
            assert container.metadata["title"] == "Ein Hund"
    steps = recipe["finish"]
    assert isinstance(steps, list)
    return steps


@pytest.mark.parametrize("fps", [Fraction(16), NTSC, Fraction(25, 2)])
def test_trim_is_exact_to_the_frame(tmp_path: Path, fps: Fraction) -> None:
    frames = np.zeros((30, 64, 64, 3), np.float32)
    frames[:] = np.linspace(0, 1, 30)[:, None, None, None]
    source = clip(tmp_path / "a.mp4", frames, fps)
    for first, last in ((0, 30), (5, 6), (7, 22), (29, 30)):
        span = (float(first / fps), float(last / fps))
        done = finish_video(source, tmp_path / "b.mp4", trim=span)
        assert (done.num_frames, done.fps) == (last - first, fps)
        info = probe_video(tmp_path / "b.mp4")
        assert (info.num_frames, info.fps, info.variable_rate) == (last - first, fps, False)
        assert np.abs(whole(tmp_path / "b.mp4") - frames[first:last]).max() < 0.008
    assert finish_video(source, tmp_path / "c.mp4", trim=(float(10 / fps), None)).num_frames == 20
    for span in ((-1, 1), (1, 1), (0, 99)):
        with pytest.raises(BadRequest, match="outside the clip"):
            finish_video(source, tmp_path / "d.mp4", trim=span)


@pytest.mark.parametrize("source_profile", ["mp4", "master", "webm", "prores", "mp4-10"])
def test_every_profile_to_every_profile_keeps_colours_count_rate_and_recipe(
    tmp_path: Path, source_profile: str
) -> None:
    frames = patches(6, 64)
    source = clip(tmp_path / f"a{PROFILES[source_profile].suffix}", frames, NTSC, source_profile)
    for name, row in PROFILES.items():
        target = tmp_path / f"to-{name}{row.suffix}"
        done = finish_video(source, target, profile=name)
        assert (done.num_frames, done.width, done.height) == (6, 64, 64)
        assert history(target)[0]["profile"] == name
        if name in ("png", "gif"):
            continue
        info = probe_video(target)
        assert (info.fps, info.primaries, info.transfer) == (NTSC, "bt709", "bt709")
        assert (info.matrix, info.range) == (("rgb", "pc") if name == "master" else ("bt709", "tv"))
        error = 255 * patch_middles(whole(target) - frames)
        assert abs(error.mean()) < 0.3
        assert np.abs(error).max() < 4.5
    assert len(list((tmp_path / "to-png").glob("frame_*.png"))) == 6
    assert probe_video(tmp_path / "to-gif.gif").num_frames == 6


@pytest.mark.parametrize(
    ("height", "matrix", "reach"), [(64, "bt601", "tv"), (64, "bt601", "pc"), (720, "bt709", "tv")]
)
def test_untagged_and_full_range_sources_come_out_right(
    tmp_path: Path, height: int, matrix: str, reach: str
) -> None:
    frames = np.zeros((2, height, 64, 3), np.float32)
    frames[:] = (0.9, 0.2, 0.1)
    raw, source = tmp_path / "raw", tmp_path / "a.mkv"
    raw.write_bytes(np.rint(frames * 255).astype(np.uint8).tobytes())
    ffmpeg(
        "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"64x{height}", "-r", "16", "-i", raw, "-vf",
        f"scale=out_color_matrix={matrix}:out_range={reach},format=yuv444p,"
        f"setparams=range={reach}:colorspace=unknown", "-c:v", "libx264", "-qp", "0", source,
    )  # fmt: skip
    finish_video(source, tmp_path / "b.mp4", profile="mp4")
    info = probe_video(tmp_path / "b.mp4")
    assert (info.matrix, info.range, info.primaries) == ("bt709", "tv", "bt709")
    assert 255 * np.abs(whole(tmp_path / "b.mp4") - frames).max() < 4.5


def test_scaling_is_lanczos_to_the_asked_size(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", scene(3, 96, 64))
    done = finish_video(source, tmp_path / "b.mp4", size=(192, 128))
    info = probe_video(tmp_path / "b.mp4")
    assert (info.width, info.height, done.width, done.height) == (192, 128, 192, 128)
    assert np.abs(whole(tmp_path / "b.mp4")[:, ::2, ::2] - scene(3, 96, 64)).mean() < 0.03
    with pytest.raises(BadRequest, match="use 96x62"):
        finish_video(source, tmp_path / "c.mp4", size=(97, 63))
    assert finish_video(source, tmp_path / "c.webm", size=(97, 63)).width == 97


@pytest.mark.parametrize("factor", [2, 4])
def test_interpolation_keeps_the_duration_and_the_given_frames(tmp_path: Path, factor: int) -> None:
    frames = np.zeros((8, 64, 96, 3), np.float32) + 0.2
    for index in range(8):
        frames[index, 20:44, 8 + 8 * index : 32 + 8 * index] = (0.9, 0.5, 0.3)
    source = clip(tmp_path / "a.mp4", frames, NTSC)
    done = finish_video(source, tmp_path / "b.mp4", interpolate=factor)
    info = probe_video(tmp_path / "b.mp4")
    assert (info.num_frames, info.fps) == (8 * factor, NTSC * factor)
    assert info.duration_seconds == pytest.approx(float(8 / NTSC))
    assert done.adjustments == ()
    made = whole(tmp_path / "b.mp4")
    assert np.abs(made[::factor] - frames).mean() < 0.02
    between = made[factor // 2 :: factor][:-1]
    centre = (between[..., 0] > 0.5).nonzero()
    at = [centre[2][centre[0] == index].mean() for index in range(7)]
    assert np.allclose(at, [19.5 + 8 * index + 4 for index in range(7)], atol=1.5)


def test_interpolation_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", patches(2, 64))
    with pytest.raises(BadRequest, match="needs 3 frames"):
        finish_video(source, tmp_path / "b.mp4", interpolate=2)
    with pytest.raises(BadRequest, match="use 1, 2 or 4"):
        finish_video(source, tmp_path / "b.mp4", interpolate=3)


@pytest.mark.parametrize("seconds", [0.3, 3.0])
def test_sound_is_cut_or_padded_to_the_clip(tmp_path: Path, seconds: float) -> None:
    source = clip(tmp_path / "a.mp4", patches(16, 64))
    before = whole(source)
    done = finish_video(source, tmp_path / "b.mp4", audio=tone(tmp_path / "a.wav", seconds))
    assert np.array_equal(whole(tmp_path / "b.mp4"), before)  # pictures are copied
    assert history(tmp_path / "b.mp4")[0]["audio"] == "a.wav"
    with av.open(str(tmp_path / "b.mp4")) as container:
        stream = container.streams.audio[0]
        assert stream.codec_context.name == "aac"
    heard = sound(tmp_path / "b.mp4")
    assert len(heard) / 48000 == pytest.approx(1.0, abs=0.05)
    loud = np.abs(heard[: len(heard) // 480 * 480]).reshape(-1, 480).max(1) > 0.1
    assert loud.sum() / 100 == pytest.approx(min(seconds, 1.0), abs=0.05)
    assert done.num_frames == 16
    again = finish_video(tmp_path / "b.mp4", tmp_path / "c.mp4", trim=(0.5, 1.0))
    assert again.num_frames == 8
    assert len(sound(tmp_path / "c.mp4")) / 48000 == pytest.approx(0.5, abs=0.05)
    assert [step["do"] for step in history(tmp_path / "c.mp4")] == ["finish", "finish"]
    finish_video(tmp_path / "b.mp4", tmp_path / "d.mp4", audio="drop")
    assert not probe_video(tmp_path / "d.mp4").has_audio
    finish_video(tmp_path / "b.mp4", tmp_path / "e.mp4")
    assert np.array_equal(sound(tmp_path / "e.mp4"), heard)  # copied too


def test_sound_goes_into_every_container_that_has_any(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", patches(8, 64))
    finish_video(source, tmp_path / "b.mp4", audio=tone(tmp_path / "a.wav", 1))
    for name, row in PROFILES.items():
        target = tmp_path / f"c-{name}{row.suffix}"
        done = finish_video(tmp_path / "b.mp4", target, profile=name)
        if name in ("png", "gif"):
            assert "holds no sound" in str(done.adjustments[0])
            with pytest.raises(BadRequest, match="no sound"):
                finish_video(source, target, profile=name, audio=tmp_path / "a.wav")
        else:
            assert done.adjustments == ()
            assert probe_video(target).has_audio


def test_bad_sound_is_one_sentence(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", patches(4, 64))
    (tmp_path / "text.wav").write_text("no sound")
    with pytest.raises(BadMedia, match="not a sound file"):
        finish_video(source, tmp_path / "b.mp4", audio=tmp_path / "text.wav")
    with pytest.raises(BadMedia, match="holds no sound"):
        finish_video(source, tmp_path / "b.mp4", audio=source)
    with pytest.raises(NotFound):
        finish_video(source, tmp_path / "b.mp4", audio="none.wav")


def test_crossfade_has_the_right_length_and_mix(tmp_path: Path) -> None:
    dark, light = (
        np.full((20, 64, 64, 3), 0.2, np.float32),
        np.full((12, 64, 64, 3), 0.8, np.float32),
    )
    first, second = clip(tmp_path / "a.mp4", dark, NTSC), clip(tmp_path / "b.mp4", light, NTSC)
    done = crossfade(first, second, tmp_path / "c.mp4", seconds=8 * 1001 / 24000)
    assert done.num_frames == probe_video(tmp_path / "c.mp4").num_frames == 24
    level = whole(tmp_path / "c.mp4").mean((1, 2, 3))
    assert np.abs(level[:12] - 0.2).max() < 0.01
    assert np.abs(level[-3:] - 0.8).max() < 0.01
    assert (np.diff(level[12:20]) > 0.03).all()
    assert json.loads(str(history(tmp_path / "c.mp4")[0]["second_recipe"]))["prompt"] == PROMPT
    assert crossfade(first, first, tmp_path / "d.mkv", seconds=0.25).num_frames == 34
    other = clip(tmp_path / "e.mp4", patches(12, 32), NTSC)
    with pytest.raises(BadRequest, match=r"64x64 at 24000/1001 and e\.mp4 32x32"):
        crossfade(first, other, tmp_path / "f.mp4", seconds=0.2)
    for seconds in (0, 9):
        with pytest.raises(BadRequest, match="use 1 to 11"):
            crossfade(first, second, tmp_path / "f.mp4", seconds=seconds)


def test_crossfade_mixes_sound_if_both_have_it(tmp_path: Path) -> None:
    silent = clip(tmp_path / "a.mp4", patches(16, 64))
    loud = finish_video(silent, tmp_path / "b.mp4", audio=tone(tmp_path / "t.wav", 1)).path
    both = crossfade(loud, loud, tmp_path / "c.mp4", seconds=0.5)
    assert both.adjustments == ()
    assert len(sound(both.path)) / 48000 == pytest.approx(1.5, abs=0.05)
    one = crossfade(loud, silent, tmp_path / "d.mp4", seconds=0.5)
    assert "both have sound" in str(one.adjustments[0])


def test_grid_shows_all_clips_in_step_below_their_labels(tmp_path: Path) -> None:
    colours = [(0.9, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.9)]
    paths = []
    for index, colour in enumerate(colours):
        frames = np.broadcast_to(np.array(colour, np.float32), (4 + 4 * index, 64, 96, 3))
        paths.append(clip(tmp_path / f"c{index}.mp4", frames))
    done = comparison_grid(paths, tmp_path / "g.mp4", labels=["dense", "top-k", "c"], columns=2)
    info = probe_video(tmp_path / "g.mp4")
    assert (info.width, info.height) == (done.width, done.height)
    assert (info.width, info.num_frames, info.primaries) == (192, 12, "bt709")
    bar = info.height // 2 - 64
    assert 8 <= bar <= 40
    frames = whole(tmp_path / "g.mp4")
    for index, colour in enumerate(colours):
        top, left = index // 2 * (64 + bar), index % 2 * 96
        middle = frames[:, top + bar + 8 : top + bar + 56, left + 8 : left + 88]
        assert np.abs(255 * (middle - colour)).max() < 3  # the last frame is held
        label = frames[0, top : top + bar, left : left + 96]
        assert label.max() > 0.7
        assert label.min() < 0.2
    steps = json.loads(read_recipe(tmp_path / "g.mp4") or "{}")["finish"]
    assert json.loads(steps[0]["recipes"][2])["prompt"] == PROMPT


def test_grid_takes_mixed_sizes_rates_and_the_same_file_twice(tmp_path: Path) -> None:
    small = clip(tmp_path / "a.webm", scene(6, 51, 37), Fraction(8), "webm")
    large = clip(tmp_path / "b.mp4", scene(6, 96, 64), Fraction(16))
    done = comparison_grid([small, large, large], tmp_path / "g.mkv")
    assert (done.fps, done.num_frames, done.width) == (16, 12, 288)
    for count in (1, 17):
        with pytest.raises(BadRequest, match="2 to 16"):
            comparison_grid([large] * count, tmp_path / "h.mp4")
    with pytest.raises(BadRequest, match="1 labels for 2"):
        comparison_grid([large, large], tmp_path / "h.mp4", labels=["a"])
    with pytest.raises(BadRequest, match="columns=0"):
        comparison_grid([large, large], tmp_path / "h.mp4", columns=0)


def test_progress_rises_to_one(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", scene(24, 128, 96))
    seen: list[float] = []
    finish_video(source, tmp_path / "b.mp4", interpolate=4, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    assert all(0 < share <= 1 for share in seen)


def test_progress_is_the_share_of_frames_that_the_program_reports(tmp_path: Path) -> None:
    script = tmp_path / "program"
    script.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != -progress ]; do shift; done\n'
        "file=${2#file:}\n"
        "for count in 6 12 24; do\n"
        '  printf "frame=%d\\nprogress=continue\\n" $count >> "$file"\n'
        '  while [ "$(cat "$3")" != $count ]; do sleep 0.01; done\n'
        "done\n"
    )
    script.chmod(0o755)
    read = tmp_path / "read"
    read.write_text("0")
    seen: list[float] = []

    def note(share: float) -> None:
        seen.append(share)
        read.write_text({0.25: "6", 0.5: "12", 0.999: "24"}.get(share, "end"))

    run_ffmpeg([str(script), str(read)], name="a.mp4", num_frames=24, on_progress=note)
    assert seen == [0.25, 0.5, 0.999, 1.0]


def test_cancel_stops_at_once_and_keeps_the_earlier_file(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", scene(60, 192, 128))
    target = clip(tmp_path / "b.mp4", patches(2, 64))
    before = target.read_bytes()

    class Token:
        asked = 0

        @property
        def cancelled(self) -> bool:
            self.asked += 1
            return self.asked > 2

    with pytest.raises(Cancelled, match=r"b\.mp4 was cancelled"):
        finish_video(source, target, interpolate=4, cancel=Token())
    assert target.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.mp4", "b.mp4"]


def test_ffmpegs_own_words_reach_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vidgen.media import graph

    source = clip(tmp_path / "a.mp4", patches(4, 64))
    monkeypatch.setattr(graph, "picture_options", lambda _: {"c:v": "no_such_codec"})
    with pytest.raises(VidgenError, match=r"ffmpeg could not make b\.mp4.*no_such_codec") as caught:
        finish_video(source, tmp_path / "b.mp4", size=(32, 32))
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["a.mp4"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """A real one: /dev/full takes nothing."""
    from vidgen.media.ffmpeg_run import ffmpeg_program, run_ffmpeg

    source = clip(tmp_path / "a.mp4", patches(4, 64))
    command = [ffmpeg_program(), "-y", "-i", str(source), "-f", "matroska", "/dev/full"]
    with pytest.raises(DoesNotFit, match=r"disk is full while making b\.mkv"):
        run_ffmpeg(command, name="b.mkv", num_frames=4)


def test_awkward_names_and_huge_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = json.dumps({"prompt": PROMPT, "long": "x" * 300_000})
    for name in ("-y.mp4", "a%03d.mp4", "a b'c.mp4"):
        with VideoWriter(name, width=32, height=32, fps=Fraction(16), recipe=recipe) as writer:
            writer.write(patches(3, 32))
        done = finish_video(name, f"out {name}", size=(64, 64))
        assert done.num_frames == 3
        assert len(read_recipe(done.path) or "") > 300_000
        finish_video(name, f"dir%d {name}", profile="png")
    assert len(list(tmp_path.glob("dir*/frame_*.png"))) == 9


def test_targets_are_checked(tmp_path: Path) -> None:
    source = clip(tmp_path / "a.mp4", patches(3, 64))
    with pytest.raises(BadRequest, match=r"must end in one of \.gif, \.mkv, \.mov, \.mp4, \.webm"):
        finish_video(source, tmp_path / "b.avi")
    with pytest.raises(BadRequest, match=r"crf=99 is outside 1\.\.51 for mp4"):
        finish_video(source, tmp_path / "b.mp4", crf=99)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.mp4"]
    with pytest.raises(BadRequest, match=r"must end in \.mkv for master"):
        finish_video(source, tmp_path / "b.mp4", profile="master")
    deep = clip(tmp_path / "deep.mp4", patches(3, 128), profile="mp4-10")
    assert finish_video(deep, tmp_path / "c.mp4", size=(64, 64)).profile == "mp4-10"
