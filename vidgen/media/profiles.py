"""The kinds of file that a clip is delivered as, one frozen row each."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from vidgen.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Profile:
    """One way to write a clip.

    suffix       of the file; "" means a folder
    container    ffmpeg's name of the file format; "" for a folder of PNG files
    codec        ffmpeg's name of the encoder
    pixels       ffmpeg's pixel format; deep_pixels for float and 16-bit frames where that differs
    crf          default quality, smaller is better; None where the codec has no such number
    options      encoder options, the same words for PyAV and for the ffmpeg program
    tag          codec tag that players ask for
    intra        every frame stands alone; otherwise a key frame comes at least every 2 s
    even         width and height must be even
    purpose      for whom, in a few words
    """

    name: str
    suffix: str
    container: str
    codec: str
    pixels: str
    deep_pixels: str
    crf: int | None
    options: tuple[tuple[str, str], ...]
    tag: str | None
    intra: bool
    even: bool
    purpose: str

    @property
    def holds_rgb(self) -> bool:
        """Whether the file holds RGB or a palette of it, not luma and chroma."""
        return self.pixels.startswith(("gbr", "rgb", "bgr", "pal"))

    def encoder_options(self, width: int, height: int) -> dict[str, str]:
        """Return the options with which this machine's encoder makes the same file each time.

        x264's AVX-512 code for macroblock trees reads memory that nobody set where a picture's
        blocks do not fill its vectors, 96x96 for one: no two files are alike. x265 does so in
        pictures of one coding unit.
        """
        options = dict(self.options)
        if self.codec == "libx264" and _has_avx512():
            options["x264-params"] += ":asm=AVX2"
        if self.codec == "libx265" and min(width, height) < _X265_SMALL:
            options["x265-params"] += ":ctu=16"
        return options


@cache
def _has_avx512() -> bool:
    try:
        return " avx512" in Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:  # not Linux
        return False


# Chroma finer by 6 steps of quantiser and no decimation of small coefficients: over 12 trips the
# largest error on saturated patches falls from 5.4 to 3.5 levels and the bias on a scene from 0.14
# to 0.07, for 8 % of bytes. H.264 and H.265 crop 4:2:0 by even numbers of pixels only.
_X264 = (
    ("preset", "medium"),
    ("profile", "high"),
    ("x264-params", "chroma-qp-offset=-6:no-dct-decimate=1:open-gop=0"),
)
# A coding unit has 64 pixels; in smaller pictures x265 writes beyond its memory now and then.
_X265_LEAST, _X265_SMALL = 64, 96
_X265 = (
    ("preset", "medium"),
    ("profile", "main10"),
    ("x265-params", "log-level=error:open-gop=0:cbqpoffs=-6:crqpoffs=-6"),
)
_VP9 = (("b", "0"), ("deadline", "good"), ("cpu-used", "4"), ("row-mt", "1"), ("auto-alt-ref", "1"))
_FFV1 = (("level", "3"), ("coder", "1"), ("context", "0"), ("slices", "4"), ("slicecrc", "1"))
_PRORES = (("profile", "3"), ("vendor", "apl0"))

_ROWS = (
    Profile(
        "mp4", ".mp4", "mp4", "libx264", pixels="yuv420p", deep_pixels="yuv420p", crf=16,
        options=_X264, tag=None, intra=False, even=True, purpose="browsers and sharing (H.264)",
    ),
    Profile(
        "mp4-10", ".mp4", "mp4", "libx265", pixels="yuv420p10le", deep_pixels="yuv420p10le", crf=16,
        options=_X265, tag="hvc1", intra=False, even=True, purpose="grading at 10 bits (H.265)",
    ),
    Profile(
        "master", ".mkv", "matroska", "ffv1", pixels="bgr0", deep_pixels="gbrp16le", crf=None,
        options=_FFV1, tag=None, intra=True, even=False,
        purpose="lossless archive: 8-bit frames exactly, float at 16 bits (FFV1)",
    ),
    Profile(
        "prores", ".mov", "mov", "prores_ks", pixels="yuv422p10le", deep_pixels="yuv422p10le",
        crf=None, options=_PRORES, tag="apch", intra=True, even=False,
        purpose="video editors (ProRes 422 HQ)",
    ),
    Profile(
        "png", "", "", "png", pixels="rgb24", deep_pixels="rgb48be", crf=None,
        options=(), tag=None, intra=True, even=False,
        purpose="compositing: a folder of PNG files, 16 bits for float frames",
    ),
    Profile(
        "webm", ".webm", "webm", "libvpx-vp9", pixels="yuv420p", deep_pixels="yuv420p", crf=18,
        options=_VP9, tag=None, intra=False, even=False, purpose="the web, odd sizes too (VP9)",
    ),
    Profile(
        "gif", ".gif", "gif", "gif", pixels="pal8", deep_pixels="pal8", crf=None,
        options=(), tag=None, intra=True, even=False,
        purpose="chats: 256 colours, time in steps of 1/100 s (GIF)",
    ),
)  # fmt: skip

PROFILES: dict[str, Profile] = {row.name: row for row in _ROWS}


def find_profile(name: str) -> Profile:
    """Return the row of a profile by name, or raise BadRequest naming them all."""
    if name not in PROFILES:
        known = ", ".join(PROFILES)
        raise BadRequest(f"profile={name!r} is unknown; use one of {known}.", field="profile")
    return PROFILES[name]


def check_size(profile: Profile, width: int, height: int) -> None:
    """Refuse a size that the profile's codec cannot hold, naming the nearest one that it can."""
    if width < 1 or height < 1:
        raise BadRequest(
            f"The size {width}x{height} holds no pixels; use 2x2 or more.", field="width"
        )
    if profile.codec == "libx265" and min(width, height) < _X265_LEAST:
        raise BadRequest(
            f"{width}x{height} is too small for {profile.name}, whose encoder needs {_X265_LEAST} "
            "pixels in each direction; use another profile, mp4 or master.",
            field="width" if width < _X265_LEAST else "height",
        )
    if profile.even and (width % 2 or height % 2):
        even = f"{max(2, width - width % 2)}x{max(2, height - height % 2)}"
        raise BadRequest(
            f"{width}x{height} is odd, which {profile.name} cannot hold; use {even}, "
            "or the profile webm, prores, png or master.",
            field="width" if width % 2 else "height",
        )


def choose_crf(profile: Profile, crf: int | None) -> int | None:
    """The quality asked for, after a check, or else the profile's own (None where it has none)."""
    if crf is None:
        return profile.crf
    if profile.crf is None:
        raise BadRequest(f"The profile {profile.name} has no crf; leave it out.", field="crf")
    lowest, highest = (0, 63) if profile.name == "webm" else (1, 51)
    if not lowest <= crf <= highest:
        raise BadRequest(
            f"crf={crf} is outside {lowest}..{highest} for {profile.name}.", field="crf"
        )
    return crf
