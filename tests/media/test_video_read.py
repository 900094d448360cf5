"""Reading: facts and pixels of files made by other programs, and one sentence for broken ones."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.media.pictures import (
    ACCURATE,
    NTSC,
    ffmpeg,
    ffmpeg_frames,
    patch_middles,
    patches,
    scene,
)
from vidgen.errors import BadMedia, BadRequest, NotFound
from vidgen.media import VideoWriter, probe_video, read_frame, read_recipe, read_still, read_video


def foreign(path: Path, frames: np.ndarray, *options: str | Path, rate: str = "16") -> Path:
    """A clip made by the ffmpeg program from raw 8-bit frames."""
    raw = path.with_suffix(".raw")
    raw.write_bytes(np.rint(frames * 255).astype(np.uint8).tobytes())
    height, width = frames.shape[1:3]
    source = (
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{width}x{height}",
        "-r",
        rate,
        "-i",
        raw,
    )
    ffmpeg(*source, *options, path)
    return path


def whole(path: Path) -> np.ndarray:
    """All frames."""
    return np.concatenate(list(read_video(path)))


def lossless(pixels: str, matrix: str, reach: str, tags: bool = True) -> tuple[str, ...]:
    """Options for H.264 without loss in a given coding."""
    scale = f"scale=flags={ACCURATE}:out_color_matrix={matrix}:out_range={reach},format={pixels}"
    if tags:
        name = {"bt601": "smpte170m", "bt2020": "bt2020nc"}.get(matrix, matrix)
        scale += f",setparams=range={reach}:colorspace={name}"
    else:
        scale += ",setparams=range=unknown:colorspace=unknown"
    return ("-vf", scale, "-c:v", "libx264", "-qp", "0")


@pytest.mark.parametrize("matrix", ["bt709", "bt601", "smpte240m", "fcc", "bt2020"])
@pytest.mark.parametrize("reach", ["tv", "pc"])
@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le"])
def test_every_tagged_coding_is_read_right(
    tmp_path: Path, matrix: str, reach: str, pixels: str
) -> None:
    source = patches(2, 64, 32, seed=3)
    path = foreign(tmp_path / "clip.mkv", source, *lossless(pixels, matrix, reach))
    info = probe_video(path)
    assert (info.matrix, info.range) == (matrix, reach)
    assert info.assumptions == ()
    error = 255 * patch_middles(whole(path) - source)
    assert abs(error.mean()) < 0.3
    assert np.abs(error).max() < 2.6


@pytest.mark.parametrize(("height", "matrix"), [(64, "bt601"), (720, "bt709")])
def test_untagged_files_are_assumed_by_height_and_say_so(
    tmp_path: Path, height: int, matrix: str
) -> None:
    source = np.zeros((1, height, 64, 3), np.float32)
    source[..., 0], source[..., 1] = 0.9, 0.2
    path = foreign(tmp_path / "clip.mkv", source, *lossless("yuv420p", matrix, "tv", tags=False))
    info = probe_video(path)
    assert (info.assumptions[0].field, info.assumptions[0].used) == ("color_matrix", matrix)
    assert (info.matrix, info.range) == (matrix, "tv")
    assert 255 * np.abs(whole(path) - source).max() < 2


@pytest.mark.parametrize("turn", ["90", "180", "270", "0"])
@pytest.mark.parametrize("flip", [None, "hflip", "vflip"])
def test_rotation_and_mirroring_are_honoured(tmp_path: Path, turn: str, flip: str | None) -> None:
    source = scene(2, 96, 64)
    plain = foreign(tmp_path / "plain.mp4", source, *lossless("yuv444p", "bt709", "tv"))
    path = tmp_path / "turned.mp4"
    extra = [] if flip is None else [f"-display_{flip}"]
    ffmpeg("-display_rotation", turn, *extra, "-i", plain, "-c", "copy", path)
    width, height = (64, 96) if turn in ("90", "270") else (96, 64)
    info = probe_video(path)
    assert (info.width, info.height) == (width, height)
    seen = ffmpeg_frames(path, width, height)  # the program turns pictures by itself
    assert np.abs(255 * whole(path) - seen).max() < 2.6
    assert np.abs(read_still(path).astype(float) - seen[0]).max() < 8


def test_ten_bits_keep_their_depth(tmp_path: Path) -> None:
    ramp = np.linspace(0.3, 0.4, 64, dtype=np.float32)
    source = np.broadcast_to(ramp[None, None, :, None], (2, 64, 64, 3))
    path = tmp_path / "clip.mp4"
    with VideoWriter(
        path, width=64, height=64, fps=Fraction(16), profile="mp4-10", crf=1
    ) as writer:
        writer.write(source)
    assert probe_video(path).pixel_format == "yuv420p10le"
    back = whole(path)
    assert len(np.unique(back[0, 32, :, 1])) > 48  # 8 bits hold 26 steps
    assert np.abs(back - source).max() < 0.5 / 255


@pytest.mark.parametrize(
    "options",
    [
        ("-pix_fmt", "nv12", "-c:v", "rawvideo"),
        ("-pix_fmt", "yuyv422", "-c:v", "rawvideo"),
        ("-pix_fmt", "bgra", "-c:v", "rawvideo"),
        ("-pix_fmt", "gray", "-c:v", "ffv1"),
        ("-pix_fmt", "yuv411p", "-c:v", "rawvideo"),
        ("-pix_fmt", "yuva444p10le", "-c:v", "ffv1"),
        ("-pix_fmt", "rgb24", "-c:v", "rawvideo"),
        ("-pix_fmt", "yuvj420p", "-c:v", "mjpeg", "-q:v", "1"),
        ("-c:v", "mpeg4", "-q:v", "1"),
    ],
)
def test_unusual_pixel_formats(tmp_path: Path, options: tuple[str, ...]) -> None:
    source = (
        np.repeat(np.array([[[[0.55, 0.5, 0.45]]]], np.float32), 64, 1).repeat(64, 2).repeat(2, 0)
    )
    if "gray" in options:
        source[:] = 0.5
    # AVI calls packed RGB "BGR", so that one goes into another container.
    name = "clip.mov" if "rgb24" in options else "clip.avi"
    path = foreign(tmp_path / name, source, "-sws_flags", ACCURATE, *options)
    back = whole(path)
    assert back.shape == source.shape
    assert 255 * np.abs(back - source).max() < 5


def test_chunks_ranges_and_single_frames_agree(tmp_path: Path) -> None:
    path = foreign(tmp_path / "clip.mp4", scene(61, 64, 48), "-c:v", "libx264", "-g", "20")
    frames = whole(path)
    assert [len(part) for part in read_video(path, chunk=25)] == [25, 25, 11]
    for start, stop in ((0, 1), (19, 23), (20, 61), (41, 60), (60, 61)):
        part = np.concatenate(list(read_video(path, start=start, stop=stop, chunk=7)))
        assert np.array_equal(part, frames[start:stop])
    for index in (0, 20, 33, 60, -1, -61):
        assert np.array_equal(read_frame(path, index), frames[index])
    for start, stop in ((-1, 4), (4, 4), (0, 62), (61, None)):
        with pytest.raises(BadRequest, match=r"0\.\.61"):
            read_video(path, start=start, stop=stop)
    with pytest.raises(BadRequest, match=r"use 0\.\.60"):
        read_frame(path, 61)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_every_single_frame_is_found_in_open_groups(tmp_path: Path, suffix: str) -> None:
    grouping = ("-x264-params", "keyint=8:min-keyint=8:open-gop=1:bframes=3:scenecut=0")
    path = foreign(tmp_path / f"a{suffix}", scene(26, 48, 32), "-c:v", "libx264", *grouping)
    frames = whole(path)
    assert len(frames) == 26
    for index in range(26):
        assert np.array_equal(read_frame(path, index), frames[index]), index


def test_frames_that_an_edit_list_hides_do_not_count(tmp_path: Path) -> None:
    path = foreign(
        tmp_path / "clip.mp4", scene(60, 64, 48), "-c:v", "libx264", "-g", "20", "-bf", "0"
    )
    cut = tmp_path / "cut.mp4"
    ffmpeg("-ss", "1.5", "-i", path, "-c", "copy", cut)
    assert probe_video(cut).num_frames == len(whole(cut)) == len(ffmpeg_frames(cut, 64, 48))


def test_a_varying_rate_is_named(tmp_path: Path) -> None:
    path = foreign(
        tmp_path / "clip.mkv", scene(12, 64, 48), "-vf", "setpts=N*(N+1)/2/16/TB",
        "-fps_mode", "vfr", "-c:v", "libx264", "-bf", "0",
    )  # fmt: skip
    info = probe_video(path)
    assert info.variable_rate
    assert info.num_frames == 12
    assert "varies" in str(info.assumptions[-1])
    steady = foreign(tmp_path / "even.mkv", scene(12, 64, 48), "-c:v", "libx264", rate="24000/1001")
    assert (probe_video(steady).fps, probe_video(steady).variable_rate) == (NTSC, False)


def test_sound_and_names_are_told(tmp_path: Path) -> None:
    tone = ("-f", "lavfi", "-i", "sine=duration=1", "-c:a", "aac", "-shortest", "-c:v", "libx264")
    path = foreign(tmp_path / "clip.mp4", scene(16, 64, 48), *tone)
    info = probe_video(path)
    assert (info.has_audio, info.codec, info.num_frames) == (True, "h264", 16)
    assert "mp4" in info.container


def test_broken_files_are_one_sentence(tmp_path: Path) -> None:
    good = foreign(
        tmp_path / "clip.mp4", scene(40, 64, 48), "-c:v", "libx264", "-movflags", "+faststart"
    )
    data = good.read_bytes()
    late = foreign(tmp_path / "late.mp4", scene(40, 64, 48), "-c:v", "libx264").read_bytes()
    sound = tmp_path / "sound.m4a"
    ffmpeg("-f", "lavfi", "-i", "sine=duration=0.2", sound)
    cases = {
        "empty.mp4": (b"", "empty"),
        "text.mp4": (b"not a video\n" * 50, "not a video"),
        "noise.mp4": (np.random.default_rng(0).bytes(5000), "not a video"),
        "cut.mp4": (data[: len(data) * 2 // 3], "cut off"),
        "head.mp4": (late[: len(late) // 2], "cut off"),
        "sound.mp4": (sound.read_bytes(), "holds no video"),
    }
    for name, (content, words) in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        for action in (probe_video, lambda p: list(read_video(p)), lambda p: read_frame(p, 0)):
            with pytest.raises(BadMedia, match=words) as caught:
                action(path)
            assert "\n" not in str(caught.value)
            assert str(caught.value).startswith(name)
    with pytest.raises(NotFound, match="No file"):
        probe_video(tmp_path / "none.mp4")
    with pytest.raises(BadMedia, match="folder"):
        probe_video(tmp_path)


def test_damage_inside_the_stream_is_an_error_not_a_guess(tmp_path: Path) -> None:
    path = foreign(tmp_path / "clip.mp4", scene(30, 64, 48), "-c:v", "libx264")
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 400] = bytes(400)
    path.write_bytes(bytes(data))
    with pytest.raises(BadMedia, match="damaged"):
        whole(path)


def test_a_missing_range_is_assumed_and_said(tmp_path: Path) -> None:
    path = foreign(tmp_path / "clip.avi", scene(2, 64, 48), "-pix_fmt", "nv12", "-c:v", "rawvideo")
    notes = {note.field: note.used for note in probe_video(path).assumptions}
    assert notes == {"color_matrix": "bt601", "color_range": "tv"}


def test_a_playlist_cannot_make_us_open_other_files(tmp_path: Path) -> None:
    foreign(tmp_path / "secret.ts", scene(8, 64, 48), "-c:v", "libx264")
    playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.ts\n#EXT-X-ENDLIST\n"
    path = tmp_path / "a.m3u8"
    path.write_text(playlist)
    assert b"frame=" in ffmpeg("-i", path, "-progress", "-", "-f", "null", "-")  # ffmpeg would
    for name in ("a.m3u8", "a.mp4"):
        (tmp_path / name).write_text(playlist)
        for action in (probe_video, read_recipe):
            with pytest.raises(BadMedia):
                action(tmp_path / name)


@pytest.mark.parametrize("suffix", [".ts", ".avi", ".mkv", ".mov", ".flv", ".h264", ".mpg"])
def test_other_containers_start_where_they_start(tmp_path: Path, suffix: str) -> None:
    source = scene(21, 64, 48)
    codec = ("-c:v", "mpeg2video") if suffix == ".mpg" else ("-c:v", "libx264", "-bf", "2")
    rate = "25" if suffix in (".h264", ".mpg") else "16"
    path = foreign(tmp_path / f"a{suffix}", source, "-pix_fmt", "yuv420p", *codec, rate=rate)
    info = probe_video(path)
    assert (info.num_frames, info.fps) == (21, Fraction(rate))
    frames = whole(path)
    assert np.abs(frames - source).mean() < 0.03
    for index in (0, 7, 20):
        assert np.array_equal(read_frame(path, index), frames[index])


def test_a_name_like_an_option_or_a_pattern_is_only_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-i.mp4", "a%03d.mp4", "http:x.mp4", "ü 狗.mp4"):
        with VideoWriter(name, width=32, height=32, fps=Fraction(16)) as writer:
            writer.write(patches(2, 32))
        assert probe_video(name).num_frames == 2


def test_stills_are_small_and_quick(tmp_path: Path) -> None:
    path = foreign(tmp_path / "clip.mp4", scene(3, 96, 64), "-c:v", "libx264")
    still = read_still(path, max_side=48)
    assert (still.shape, still.dtype) == ((32, 48, 3), np.uint8)
    (tmp_path / "bad.mp4").write_bytes(b"no" * 99)
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"no" * 99)
    for name in ("bad.mp4", "bad.png"):
        with pytest.raises(BadMedia):
            read_still(tmp_path / name)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_cut_off_mkv_is_told(tmp_path: Path, share: float) -> None:
    whole = tmp_path / "whole.mkv"
    with VideoWriter(whole, width=32, height=32, fps=Fraction(16), profile="master") as writer:
        writer.write(np.random.default_rng(0).random((24, 32, 32, 3), dtype=np.float32))
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
    info = probe_video(cut)
    told = [(note.field, note.asked, note.used) for note in info.assumptions]
    assert told == ([] if share == 1 else [("num_frames", 24, info.num_frames)])
    assert (info.num_frames == 24) == (share == 1)
