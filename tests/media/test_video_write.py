"""Writing: exact counts and rates, whole files or none, honest refusals, bounded memory."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.media.pictures import NTSC, boxes, ffmpeg, ffmpeg_frames, patches, scene
from vidgen.errors import BadOutput, BadRequest, DoesNotFit, VidgenError
from vidgen.media import PROFILES, VideoWriter, probe_video, read_video
from vidgen.media.sinks import FileSink

VIDEO_PROFILES = ["mp4", "mp4-10", "master", "prores", "webm"]


def write(path: Path, frames: np.ndarray, fps: Fraction = Fraction(16), **options: object) -> Path:
    """Write a clip in two calls."""
    height, width = frames.shape[1:3]
    with VideoWriter(path, width=width, height=height, fps=fps, **options) as writer:  # type: ignore[arg-type]
        writer.write(frames[:1])
        if len(frames) > 1:
            writer.write(frames[1:])
    return path


@pytest.mark.parametrize("profile", VIDEO_PROFILES)
def test_the_same_frames_make_the_same_pictures(tmp_path: Path, profile: str) -> None:
    """Of sizes whose blocks do not fill a vector, of frames in which much moves a little."""
    chance = np.random.default_rng(0)
    for size in (64, 96):
        coarse = chance.random((24, size // 4, size // 4, 3)).astype(np.float32)
        frames = np.cumsum(coarse, axis=0).repeat(4, axis=1).repeat(4, axis=2) % 1.0
        made = set()
        for turn in range(5):
            name = f"{size}-{turn}{PROFILES[profile].suffix}"
            written = write(tmp_path / name, frames, profile=profile)
            made.add(np.concatenate(list(read_video(written))).tobytes())
        assert len(made) == 1, size


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    profile=st.sampled_from(VIDEO_PROFILES), count=st.integers(1, 40),
    fps=st.sampled_from([NTSC, Fraction(25, 2), Fraction(16), Fraction(24), Fraction(30000, 1001),
                         Fraction(60), Fraction(8), Fraction(1), Fraction(120)]),
)  # fmt: skip
def test_count_and_rate_come_back_exactly(
    tmp_path: Path, profile: str, count: int, fps: Fraction
) -> None:
    path = tmp_path / f"clip{PROFILES[profile].suffix}"
    write(path, np.repeat(patches(1, 64, 16), count, 0), fps, profile=profile)
    info = probe_video(path)
    assert (info.num_frames, info.fps, info.variable_rate) == (count, fps, False)
    assert info.duration_seconds == pytest.approx(float(count / fps))
    assert sum(len(part) for part in read_video(path)) == count
    if fps != 1:  # ffmpeg's program shows what players believe
        assert len(ffmpeg_frames(path, 64, 64)) == count


def test_gif_has_every_frame_and_the_recipe(tmp_path: Path) -> None:
    source = scene(5, 96, 64)
    path = write(tmp_path / "clip.gif", source, Fraction(10), profile="gif", recipe='{"a": 1}')
    info = probe_video(path)
    assert (info.num_frames, info.fps, info.width, info.height) == (5, 10, 96, 64)
    back = np.concatenate(list(read_video(path)))
    assert np.abs(back - source).mean() < 0.02
    assert len(ffmpeg_frames(path, 96, 64)) == 5


def test_png_folder_holds_sixteen_bits_facts_and_recipe(tmp_path: Path) -> None:
    source = np.random.default_rng(0).random((3, 9, 7, 3), dtype=np.float32)
    recipe = '{"prompt":  "ein Hund"}'
    folder = write(tmp_path / "clip", source, NTSC, profile="png", recipe=recipe, title="T")
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["clip.json", *(f"frame_{i:06d}.png" for i in range(3)), "recipe.json"]
    assert (folder / "recipe.json").read_text() == recipe
    facts = json.loads((folder / "clip.json").read_text())
    assert facts == {"fps": "24000/1001", "num_frames": 3, "title": "T"}
    raw = ffmpeg("-i", folder / "frame_000001.png", "-f", "rawvideo", "-pix_fmt", "rgb48le", "-")
    seen = np.frombuffer(raw, np.uint16).reshape(9, 7, 3)
    assert np.abs(seen - source[1].astype(np.float64) * 65535).max() < 0.51
    write(folder, (source * 255).astype(np.uint8), profile="png")  # replaces the folder as a whole
    assert sorted(file.name for file in folder.iterdir())[-1] == "frame_000002.png"


def test_nothing_but_a_clip_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "clip"
    target.write_text("a file of that name")
    with pytest.raises(BadRequest, match="is a file and a folder of frames"):
        write(target, patches(2, 32, 16), profile="png")
    movie = tmp_path / "clip.mp4"
    movie.mkdir()
    (movie / "old").write_text("x")
    with pytest.raises(BadRequest, match="is a folder"):
        write(movie, patches(2, 32, 16))
    with pytest.raises(BadRequest, match=r"holds other files .* old"):
        write(movie, patches(2, 32, 16), profile="png")
    assert target.read_text() == "a file of that name"
    assert (movie / "old").read_text() == "x"
    frames = tmp_path / "frames"
    write(frames, patches(3, 32, 16), profile="png")
    write(frames, patches(2, 32, 16), profile="png")
    assert len(list(frames.glob("frame_*.png"))) == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_clips_shorter_than_the_encoder_looks_ahead(tmp_path: Path, count: int) -> None:
    for seed in range(12):  # what the times of so few frames are without care depends on content
        path = tmp_path / f"{seed}.mp4"
        noise = np.random.default_rng(seed).random((count, 64, 64, 3), dtype=np.float32)
        write(path, noise, profile="mp4-10")
        info = probe_video(path)
        assert (info.num_frames, info.fps) == (count, Fraction(16))


def test_mp4_starts_playing_at_once_and_seeks(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", scene(100, 64, 48), Fraction(16), title="ein Hund 🐕")
    order = boxes(path)
    assert order.index("moov") < order.index("mdat")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.profile) == ("h264", "High")
        assert container.metadata["title"] == "ein Hund 🐕"
        keys = [packet.pts for packet in container.demux(stream) if packet.is_keyframe]
        assert stream.time_base is not None
        gaps = np.diff([float(pts * stream.time_base) for pts in keys])
    assert len(keys) >= 4
    assert gaps.max() <= 2.0


def test_crop_keeps_the_centre(tmp_path: Path) -> None:
    source = scene(2, 64, 48)
    path = tmp_path / "clip.mkv"
    with VideoWriter(
        path, width=64, height=48, fps=Fraction(16), profile="master", crop=(61, 44)
    ) as w:
        w.write(source)
        assert (w.width, w.height) == (61, 44)
    back = np.concatenate(list(read_video(path)))
    assert np.abs(back - source[:, 2:46, 1:62]).max() < 1e-4


@pytest.mark.parametrize("profile", ["webm", "master", "prores"])
def test_odd_sizes_show_as_asked(tmp_path: Path, profile: str) -> None:
    source = scene(2, 85, 47)
    path = write(tmp_path / f"clip{PROFILES[profile].suffix}", source, profile=profile)
    info = probe_video(path)
    assert (info.width, info.height) == (85, 47)
    assert ffmpeg_frames(path, 85, 47).shape == (2, 47, 85, 3)
    back = np.concatenate(list(read_video(path)))
    assert np.abs(back - source).mean() < 0.012


@pytest.mark.parametrize("profile", ["mp4", "mp4-10"])
def test_odd_mp4_is_refused_with_the_nearest_even_size(tmp_path: Path, profile: str) -> None:
    with pytest.raises(BadRequest, match=r"853x479 is odd.*use 852x478") as caught:
        VideoWriter(tmp_path / "a.mp4", width=853, height=479, fps=Fraction(16), profile=profile)
    assert caught.value.field == "width"
    with VideoWriter(
        tmp_path / "a.mp4", width=86, height=68, fps=Fraction(16), profile=profile, crop=(84, 66)
    ) as writer:
        writer.write(scene(2, 86, 68))
    assert (probe_video(tmp_path / "a.mp4").width, writer.num_frames) == (84, 2)


def test_pictures_too_small_for_an_encoder_are_refused(tmp_path: Path) -> None:
    for width, height, field in ((62, 64, "width"), (640, 48, "height")):
        with pytest.raises(BadRequest, match=rf"{width}x{height} is too small.*64") as caught:
            VideoWriter(
                tmp_path / "a.mp4", width=width, height=height, fps=Fraction(16), profile="mp4-10"
            )
        assert caught.value.field == field


def test_an_error_in_the_block_leaves_the_earlier_file(tmp_path: Path) -> None:
    path = write(tmp_path / "clip.mp4", patches(3, 64))
    before = path.read_bytes()

    def fail_midway() -> None:
        with VideoWriter(path, width=64, height=64, fps=Fraction(16)) as writer:
            writer.write(patches(2, 64, seed=5))
            raise RuntimeError("model broke")

    with pytest.raises(RuntimeError, match="model broke"):
        fail_midway()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize("profile", [*VIDEO_PROFILES, "gif", "png"])
def test_an_error_leaves_nothing_behind(tmp_path: Path, profile: str) -> None:
    path = tmp_path / f"clip{PROFILES[profile].suffix}"
    frames = patches(2, 64)
    frames[1, 3, 4, 1] = np.nan
    with (
        pytest.raises(BadOutput, match="Frame 1 ") as caught,
        VideoWriter(path, width=64, height=64, fps=Fraction(16), profile=profile) as writer,
    ):
        writer.write(frames)
    assert caught.value.code == "nan_frames"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: FileSink) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FileSink, "close", fail)
    with pytest.raises(DoesNotFit, match=r"disk is full while writing clip\.mp4"):
        write(tmp_path / "clip.mp4", patches(2, 64))
    assert list(tmp_path.iterdir()) == []


def test_a_file_limit_of_the_system_is_told(tmp_path: Path) -> None:
    """A real write failure, from the system: files may not grow beyond 64 KiB."""
    script = """
        import resource, signal, sys
        import numpy as np
        from fractions import Fraction
        from vidgen.errors import VidgenError
        from vidgen.media import VideoWriter
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        noise = np.random.default_rng(0).random((8, 64, 64, 3), dtype=np.float32)
        try:
            rate = Fraction(16)
            with VideoWriter(sys.argv[1], width=64, height=64, fps=rate, profile="master") as w:
                w.write(noise)
        except VidgenError as error:
            print(error)
        """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "clip.mkv")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.startswith("clip.mkv grew beyond the largest file that")
    assert "ulimit -f" in said
    assert list(tmp_path.iterdir()) == []


def test_kill_in_the_middle_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    script = """
        import sys, time
        import numpy as np
        from fractions import Fraction
        from vidgen.media import VideoWriter
        writer = VideoWriter(sys.argv[1], width=64, height=64, fps=Fraction(16))
        for _ in range(80):
            writer.write(np.random.default_rng(0).random((2, 64, 64, 3), dtype=np.float32))
        print("ready", flush=True)
        time.sleep(60)
        """
    path = tmp_path / "clip.mp4"
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert not path.exists()
    write(path, patches(3, 64))  # the part that was left is in nobody's way
    left = [file.name for file in tmp_path.iterdir() if file != path]
    assert all(name.startswith("clip.mp4.") and name.endswith(".part") for name in left)


def test_1920_frames_in_bounded_memory(tmp_path: Path) -> None:
    """Frames held whole would be 1,920 x 96 x 96 x 3 floats: 212 MB."""
    script = """
        import sys
        import numpy as np
        from fractions import Fraction
        from vidgen.media import VideoWriter
        def rss():
            fields = open("/proc/self/status").read().split()
            return int(fields[fields.index("VmRSS:") + 1]) / 1024
        ramp = np.linspace(0, 1, 96, dtype=np.float32)
        chunk = np.broadcast_to(ramp[None, :, None, None], (16, 96, 96, 3))
        with VideoWriter(sys.argv[1], width=96, height=96, fps=Fraction(16)) as writer:
            for index in range(120):
                writer.write(chunk)
                if index == 7:
                    early = rss()
            print(early, rss())
        """
    path = tmp_path / "long.mp4"
    command = [sys.executable, "-c", textwrap.dedent(script), str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    early, late = map(float, said.split())
    assert late - early < 20
    assert late < 250
    assert probe_video(path).num_frames == 1920


def test_refusals_are_one_sentence(tmp_path: Path) -> None:
    good = {"width": 64, "height": 64, "fps": Fraction(16)}
    asks: list[tuple[dict[str, object], str]] = [
        ({"profile": "avi"}, "profile='avi' is unknown"),
        ({"profile": "webm"}, r"does not end in \.webm.*use clip\.webm"),
        ({"fps": Fraction(0)}, "fps=0 is outside"),
        ({"fps": Fraction(23.976)}, "too fine for a file; use 2997/125"),
        ({"crf": 99}, "crf=99 is outside 1..51"),
        ({"crop": (66, 64)}, "crop=66x64 is larger"),
        ({"width": 0}, "holds no pixels"),
        ({"recipe": "text"}, "JSON object"),
        ({"recipe": "[1]"}, "JSON object"),
    ]
    for ask, words in asks:
        with pytest.raises(BadRequest, match=words):
            VideoWriter(tmp_path / "clip.mp4", **(good | ask))  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="has no crf"):
        VideoWriter(tmp_path / "a.mkv", profile="master", crf=3, **good)  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="No frame was written"):
        VideoWriter(tmp_path / "clip.mp4", **good).close()  # type: ignore[arg-type]
    for frames, words in (
        (patches(1, 32), r"shape \(1, 32, 32, 3\), not \(frames, 64, 64, 3\)"),
        (patches(1, 64).astype(np.int32), "int32"),
    ):
        with pytest.raises(BadRequest, match=words):
            VideoWriter(tmp_path / "clip.mp4", **good).write(frames)  # type: ignore[arg-type]
    with VideoWriter(tmp_path / "clip.mp4", **good) as writer:  # type: ignore[arg-type]
        writer.write(patches(1, 64))
        with pytest.raises(BadRequest, match="uint8 after float32"):
            writer.write(np.zeros((1, 64, 64, 3), np.uint8))
    with pytest.raises(VidgenError, match="already closed"):
        writer.write(patches(1, 64))


def test_values_outside_are_clipped_and_all_dtypes_agree(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    outside = whole / np.float32(255)
    outside[0, :4] = 1.7
    outside[0, 4:8] = -3
    clipped = np.clip(outside, 0, 1)
    a = write(tmp_path / "a.mkv", outside.astype(np.float32), profile="master")
    b = write(tmp_path / "b.mkv", clipped.astype(np.float64), profile="master")
    c = write(tmp_path / "c.mkv", np.rint(clipped * 65535).astype(np.uint16), profile="master")
    first, *others = (np.concatenate(list(read_video(path))) for path in (a, b, c))
    assert all(np.array_equal(first, other) for other in others)
