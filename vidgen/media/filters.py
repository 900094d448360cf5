"""Chains of ffmpeg filters with exact colour and exact frame counts; knows no files and runs
nothing.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest
from vidgen.media.profiles import Profile
from vidgen.media.video_read import VideoInfo

Stream = Any  # ffmpeg-python has no types

ACCURATE = "lanczos+accurate_rnd+full_chroma_int+full_chroma_inp"


def is_deep(info: VideoInfo) -> bool:
    """Whether a file holds more than 8 bits per sample."""
    deep = ("p9", "p10", "p12", "p14", "p16", "gray1", "48", "64")
    return any(word in info.pixel_format for word in deep)


def output_pixels(row: Profile, deep: bool) -> str:
    """The pixel format that a profile encodes from a source of 8 bits or more."""
    if row.name == "gif":
        return "rgb24"
    return row.deep_pixels if deep else row.pixels


def steady(picture: Stream, info: VideoInfo, fps: Fraction | None = None) -> Stream:
    """Put frames on an exact grid: a varying rate is resampled, a steady one only freed of
    rounding.
    """
    if not info.variable_rate:
        picture = picture.filter("setpts", f"N/({info.fps}*TB)")
    return picture.filter("fps", fps=str(fps or info.fps), start_time=0)


def cut_frames(picture: Stream, first: int, last: int) -> Stream:
    """Keep the frames first..last-1 and start the clock at zero."""
    picture = picture.filter("trim", start_frame=first, end_frame=last)
    return picture.filter("setpts", "PTS-STARTPTS")


def convert(
    picture: Stream, info: VideoInfo, pixels: str, size: tuple[int, int] | None = None
) -> Stream:
    """Scale and bring to a pixel format in one accurate pass, with tags that are true.

    A file tagged bt709 or bt2020 keeps its matrix, others become bt709.
    """
    to_rgb = _is_rgb(pixels)
    options: dict[str, Any] = {"flags": ACCURATE, "in_range": info.range}
    if info.matrix != "rgb":
        options["in_color_matrix"] = info.matrix
    options["out_range"] = "pc" if to_rgb else "tv"
    if not to_rgb:
        options["out_color_matrix"] = _kept_matrix(info)
    picture = picture.filter("scale", *(size or ()), **options).filter("format", pixels)
    return tag(picture, info, pixels).filter("setsar", 1)


def tag(picture: Stream, info: VideoInfo, pixels: str) -> Stream:
    """Set the colour tags of what `convert` made; primaries and transfer are the source's, else
    bt709.
    """
    names = {"unknown": "bt709"}
    matrix = "gbr" if _is_rgb(pixels) else _kept_matrix(info).replace("bt2020", "bt2020nc")
    return picture.filter(
        "setparams",
        range="pc" if _is_rgb(pixels) else "tv",
        colorspace=matrix,
        color_primaries=names.get(info.primaries, info.primaries),
        color_trc=names.get(info.transfer, info.transfer),
    )


def converted(info: VideoInfo, pixels: str) -> VideoInfo:
    """The facts that hold for a stream after `convert`."""
    if _is_rgb(pixels):
        return replace(info, matrix="rgb", range="pc", pixel_format=pixels)
    return replace(info, matrix=_kept_matrix(info), range="tv", pixel_format=pixels)


def full_chroma(pixels: str) -> str:
    """The format of the same depth without subsampling, for filters that take no other."""
    pixels = pixels.replace("420", "444").replace("422", "444")
    return "gbrp" if pixels in ("bgr0", "rgb24") else pixels.replace("rgb48be", "gbrp16le")


def _is_rgb(pixels: str) -> bool:
    return pixels.startswith(("gbr", "rgb", "bgr"))


def _kept_matrix(info: VideoInfo) -> str:
    return "bt2020" if info.matrix == "bt2020" else "bt709"


def interpolate(
    picture: Stream, info: VideoInfo, factor: int, count: int
) -> tuple[Stream, VideoInfo, list[Adjustment]]:
    """Put factor - 1 motion-compensated frames behind each of `count` frames; the last one is held.

    Returns  the stream, the facts that now hold for it, and what had to be adjusted
    """
    if factor not in (2, 4):
        raise BadRequest(
            f"interpolate={factor} is not possible; use 1, 2 or 4.", field="interpolate"
        )
    if count < 3:
        raise BadRequest(
            f"Interpolation needs 3 frames, the clip has {count}.", field="interpolate"
        )
    notes = []
    if is_deep(info):
        why = "motion is compensated at 8 bits"
        notes.append(Adjustment("interpolate", info.pixel_format, "8 bits", why))
    if info.matrix == "rgb":
        picture = convert(picture, info, "yuv444p")
        info = converted(info, "yuv444p")
    picture = picture.filter("tpad", stop_mode="clone", stop=8)
    rate = info.fps * factor
    picture = picture.filter(
        "minterpolate", fps=str(rate), mi_mode="mci", mc_mode="aobmc", me_mode="bidir", vsbmc=1
    )
    return picture.filter("trim", end_frame=count * factor), replace(info, fps=rate), notes
