"""Reading clips: exact facts about a file, and its frames as float RGB."""

# f frames  h rows  w columns  c red, green, blue
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vidgen.adjustment import Adjustment
from vidgen.errors import BadMedia, BadRequest
from vidgen.media.container import Timing, open_video, scan_timing, video_stream
from vidgen.media.decode import Colours, find_colours, find_orientation, frame_to_rgb
from vidgen.media.image import orient

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

Float = npt.NDArray[np.float32]

# Containers whose packets carry the time of showing; AVI, for one, has only that of decoding.
_TRUSTED = ("mov", "matroska")


@dataclass(frozen=True, slots=True)
class VideoInfo:
    """What a video file holds.

    width, height  as shown, after rotation
    fps            exact; the average where variable_rate
    num_frames     counted, not taken from the header
    rotation       clockwise degrees that the file asks for; orientation is the same with mirroring,
                   as in EXIF
    matrix, primaries, transfer, range  colour tags, "unknown" where missing; matrix and range are
                                        what is used
    assumptions    what was decided where the file says nothing
    """

    width: int
    height: int
    fps: Fraction
    num_frames: int
    duration_seconds: float
    variable_rate: bool
    rotation: int
    orientation: int
    pixel_format: str
    matrix: str
    primaries: str
    transfer: str
    range: str
    has_audio: bool
    codec: str
    container: str
    assumptions: tuple[Adjustment, ...]


def probe_video(path: str | Path) -> VideoInfo:
    """Read the facts of a video; walks over all packets and decodes one frame.

    Raises  NotFound, BadMedia (damaged, cut off, not a video): one sentence
    """
    name = Path(path).name
    timing = scan_timing(path)
    with open_video(path) as container:
        stream = video_stream(container, name)
        frame = next(container.decode(stream), None)
        if frame is None:
            raise BadMedia(f"{name} is damaged: none of its frames can be decoded.")
        return _describe(container, stream, timing, frame, name)


def read_video(
    path: str | Path, *, start: int = 0, stop: int | None = None, chunk: int = 16
) -> Iterator[Float]:
    """Yield the frames start..stop-1 as float RGB (f, h, w, 3) in 0..1, at most `chunk` at a time,
    upright.

    Matrix, range and depth are the file's; see `VideoInfo.assumptions` for what it leaves open.
    Raises  BadRequest (no such frames), NotFound, BadMedia; all but damage inside the file before
            the first frame
    """
    if chunk < 1:
        raise BadRequest(f"chunk={chunk} is too small; use 1 or more.")
    name = Path(path).name
    timing = scan_timing(path)
    count = timing.num_frames
    stop = count if stop is None else stop
    if not 0 <= start < stop <= count:
        raise BadRequest(f"Frames {start}..{stop} are not in {name}, which has 0..{count}.")
    return _read_chunks(path, timing, start, stop, chunk)


def read_frame(path: str | Path, index: int) -> Float:
    """Read one frame as float RGB (h, w, 3); a negative index counts from the end.

    Raises  BadRequest (no such frame), NotFound, BadMedia
    """
    name = Path(path).name
    timing = scan_timing(path)
    count = timing.num_frames
    if not -count <= index < count:
        raise BadRequest(f"Frame {index} is not in {name}, which has {count}; use 0..{count - 1}.")
    index %= count
    frame: Float = next(_read_chunks(path, timing, index, index + 1, 1))[0]
    return frame


def read_still(path: str | Path, *, max_side: int | None = None) -> npt.NDArray[np.uint8]:
    """Read the first frame of a video, GIF or picture as a quick 8-bit still (h, w, 3), e.g. for a
    thumbnail.

    max_side  bound on width and height; larger ones are scaled down
    The colours are imageio's, about one level off; use `read_frame` for pixels that count.
    """
    import imageio.v3 as iio
    from PIL import Image

    from vidgen.media.source import existing_file

    file = existing_file(path)
    with file.open("rb") as handle:
        head = handle.read(16)
    try:
        if _is_picture(head):
            still = iio.imread(file, index=0, plugin="pillow", mode="RGB", rotate=True)
        else:
            info = probe_video(file)
            still = orient(iio.imread(file, index=0, plugin="pyav"), info.orientation)
    except (OSError, ValueError, SyntaxError) as error:
        if isinstance(error, BadMedia):
            raise
        raise BadMedia(f"{file.name} is damaged or cut off: {error}.") from error
    picture = Image.fromarray(np.ascontiguousarray(still))
    if max_side is not None:
        picture.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _read_chunks(
    path: str | Path, timing: Timing, start: int, stop: int, chunk: int
) -> Iterator[Float]:
    name = Path(path).name
    with open_video(path) as container:
        stream = video_stream(container, name)
        frames = islice(_frames_from(container, stream, timing, start), stop - start)
        colours: Colours | None = None
        batch: list[Float] = []
        done = 0
        for frame in frames:
            if frame.is_corrupt:
                raise BadMedia(f"{name} is damaged at frame {start + done}.")
            if colours is None:
                colours = find_colours(frame, name)
            batch.append(orient(frame_to_rgb(frame, colours), find_orientation(frame)[0]))
            done += 1
            if len(batch) == chunk:
                yield np.stack(batch)
                batch = []
        if batch:
            yield np.stack(batch)
        if done < stop - start:
            raise BadMedia(f"{name} is damaged: frame {start + done} cannot be decoded.")


def _frames_from(
    container: "InputContainer", stream: "VideoStream", timing: Timing, start: int
) -> Iterator["VideoFrame"]:
    """Decode from frame `start` on, jumping to the key frame before it where times can be
    trusted.
    """
    if start and timing.pts and container.format.name.startswith(_TRUSTED):
        wanted = timing.pts[start]
        container.seek(wanted, stream=stream, backward=True)
        frames = (frame for frame in container.decode(stream) if _time_of(frame) >= wanted)
        first = next(frames, None)
        if first is not None and first.pts == wanted:
            yield first
            yield from frames
            return
        # The key frame found lies behind the wanted frame (open groups of pictures).
        container.seek(0)
    yield from islice(container.decode(stream), start, None)


def _time_of(frame: "VideoFrame") -> int:
    return -1 if frame.pts is None else frame.pts


def _describe(
    container: "InputContainer",
    stream: "VideoStream",
    timing: Timing,
    frame: "VideoFrame",
    name: str,
) -> VideoInfo:
    colours = find_colours(frame, name)
    orientation, rotation = find_orientation(frame)
    width, height = (frame.width, frame.height) if orientation < 5 else (frame.height, frame.width)
    notes = list(colours.assumptions)
    aspect = stream.sample_aspect_ratio
    if aspect is not None and aspect not in (0, 1):
        notes.append(
            Adjustment("pixel_aspect", str(aspect), "1", "pixels are read as stored, square")
        )
    if timing.variable:
        why = "the frame rate varies; frames are read in order and the average rate is named"
        notes.append(Adjustment("fps", "variable", str(timing.fps), why))
    elif not timing.pts:
        why = "the file carries no times"
        notes.append(Adjustment("fps", None, str(timing.fps), why))
    told = _told_frames(stream, timing)
    if told > timing.num_frames + 1:
        why = "the file is cut off: what it says of its length is longer than what it holds"
        notes.append(Adjustment("num_frames", told, timing.num_frames, why))
    return VideoInfo(
        width=width,
        height=height,
        fps=timing.fps,
        num_frames=timing.num_frames,
        duration_seconds=float(timing.num_frames / timing.fps),
        variable_rate=timing.variable,
        rotation=rotation,
        orientation=orientation,
        pixel_format=frame.format.name,
        matrix=colours.matrix,
        primaries=colours.primaries,
        transfer=colours.transfer,
        range=colours.range,
        has_audio=bool(container.streams.audio),
        codec=stream.codec_context.name,
        container=container.format.name,
        assumptions=tuple(notes),
    )


def _told_frames(stream: "VideoStream", timing: Timing) -> int:
    """Return how many frames the length in a Matroska file's tags makes; 0 without one.

    Other containers that are cut off are refused when they are opened.
    """
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", stream.metadata.get("DURATION", ""))
    if match is None or timing.variable:
        return 0
    hours, minutes, seconds = match.groups()
    return int((int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds)) * timing.fps)


def _is_picture(head: bytes) -> bool:
    starts = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*")
    return head.startswith(starts) or head[8:12] in (b"WEBP", b"avif")
