"""Opening video files with PyAV: only known formats, one error sentence, and what the packets say
about time.
"""

# f frames
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from vidgen.errors import BadMedia
from vidgen.media.disk import file_address
from vidgen.media.source import existing_file

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

# Playlists and concat scripts are left out: they make ffmpeg open other files and addresses.
FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,gif,apng,mpegts,mpeg,flv,asf,ogg,ivf,h264,hevc,"
    "mpegvideo"
)
AUDIO_FORMATS = FORMATS + ",wav,mp3,flac,aac,aiff"
MAX_PIXELS = 64_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """When the frames of a stream are shown.

    num_frames  that decoding will give
    pts         their times in ticks of the stream, ascending; empty if the file carries none
    fps         exact rate; the average where it varies
    variable    the frames do not lie on a grid of 1/fps
    """

    num_frames: int
    pts: tuple[int, ...]
    fps: Fraction
    variable: bool


@contextmanager
def open_video(path: str | Path) -> Iterator["InputContainer"]:
    """Open a video for reading; what goes wrong inside the block is told as BadMedia too."""
    import av

    file = existing_file(path)
    if file.stat().st_size == 0:
        raise BadMedia(f"{file.name} is empty (0 bytes).")
    options = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}
    try:
        with av.open(file_address(file), options=options) as container:
            yield container
    except av.FFmpegError as error:
        reason = (error.strerror or str(error)).rstrip(".")
        raise BadMedia(f"{file.name} is damaged, cut off or not a video ({reason}).") from error


def video_stream(container: "InputContainer", name: str) -> "VideoStream":
    """The first stream of moving pictures (cover art does not count)."""
    from av.stream import Disposition

    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic:
            if stream.width * stream.height > MAX_PIXELS:
                raise BadMedia(f"{name} is {stream.width}x{stream.height}, too large to be read.")
            stream.thread_type = "AUTO"
            return stream
    raise BadMedia(f"{name} holds no video.")


def scan_timing(path: str | Path) -> Timing:
    """Walk over all packets without decoding.

    Raises  BadMedia if the header promises more frames than the file holds
    """
    name = Path(path).name
    with open_video(path) as container:
        stream = video_stream(container, name)
        shown: list[int | None] = []
        stored = 0
        for packet in container.demux(stream):
            if packet.size:
                stored += 1
                if not packet.is_discard:
                    shown.append(packet.pts)
        if stream.frames > stored:
            raise BadMedia(
                f"{name} is cut off: {stored} of its {stream.frames} frames are in the file."
            )
        if not shown:
            raise BadMedia(f"{name} holds no frames.")
        rates = (stream.average_rate, stream.guessed_rate, stream.base_rate)
        return _judge(shown, stream.time_base, [rate for rate in rates if rate])


def _judge(shown: list[int | None], tick: Fraction | None, guesses: list[Fraction]) -> Timing:
    """Find the rate on whose grid the frames lie; without one, the average."""
    pts = tuple(sorted(time for time in shown if time is not None))
    guess = Fraction(guesses[0] if guesses else 25)
    if len(pts) != len(shown) or tick is None:
        return Timing(len(shown), (), guess, False)
    for rate in guesses:
        if _on_grid(pts, tick, rate):
            return Timing(len(pts), pts, Fraction(rate), False)
    if pts[-1] == pts[0]:
        return Timing(len(pts), pts, guess, False)
    return Timing(len(pts), pts, (len(pts) - 1) / ((pts[-1] - pts[0]) * tick), True)


def _on_grid(pts: tuple[int, ...], tick: Fraction, rate: Fraction) -> bool:
    """Whether frame k is shown k / rate after the first, up to the rounding of ticks."""
    slack = max(Fraction(1), Fraction(1, 50) / rate / tick)
    step = 1 / (rate * tick)
    return all(abs(time - pts[0] - k * step) <= slack for k, time in enumerate(pts))


def check_audio(path: str | Path) -> Path:
    """Return the path of a file that holds sound, or raise NotFound or BadMedia."""
    import av

    file = existing_file(path)
    options = {"format_whitelist": AUDIO_FORMATS, "protocol_whitelist": "file"}
    try:
        with av.open(file_address(file), options=options) as container:
            if container.streams.audio and next(container.decode(audio=0), None) is not None:
                return file
    except av.FFmpegError as error:
        reason = (error.strerror or str(error)).rstrip(".")
        raise BadMedia(
            f"{file.name} is damaged, cut off or not a sound file ({reason})."
        ) from error
    raise BadMedia(f"{file.name} holds no sound.")
