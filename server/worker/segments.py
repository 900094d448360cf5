"""Segments: a clip as a piece of fragmented MP4, to be played while later clips are made.

All pieces of a job are encoded alike, so that one beginning (init.mp4) serves them all: it and the
pieces one after another are one file, and so are a playlist's map and segments.
"""

# r rows  w columns  c channels
import io
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vidgen.media.colour import rgb_to_planes
from vidgen.media.disk import part_of, publish
from vidgen.media.profiles import PROFILES
from vidgen.media.sinks import coding_of, frame_from_planes, tag_colours, to_float

Frames = npt.NDArray[np.float32]

_FLAGS = "empty_moov+default_base_moof+frag_keyframe+skip_trailer"
_CRF = "20"


class Segment:
    """Encodes the frames of one clip; no frame refers to another clip."""

    def __init__(self, size: tuple[int, int], fps: Fraction, first: int) -> None:
        """Begin.

        size   width and height that are shown; an odd one loses its last row or column
        first  frame of the video that the clip's first frame is
        """
        import av

        width, height = (max(2, side - side % 2) for side in size)
        self._size = (width, height)
        self._fps = fps
        self._first = first
        self._count = 0
        self._buffer = io.BytesIO()
        profile = PROFILES["mp4"]
        self._pixels = profile.pixels
        coding = coding_of(profile.pixels)
        assert coding is not None
        self._coding = coding
        self._container = av.open(
            self._buffer, "w", format=profile.container, options={"movflags": _FLAGS}
        )
        # Without frames that look ahead, times begin at 0 and no player has to shift them.
        options = profile.encoder_options(*self._size)
        options |= {"crf": _CRF, "preset": "veryfast", "bf": "0"}
        stream: Any = self._container.add_stream(profile.codec, fps, options=options)
        stream.width, stream.height = self._size
        stream.pix_fmt = self._pixels
        stream.codec_context.time_base = 1 / fps
        stream.codec_context.gop_size = max(1, int(2 * fps))
        stream.time_base = Fraction(1, timescale(fps))
        tag_colours(stream.codec_context, rgb=False)
        self._stream = stream

    def write(self, frames_frwc: Frames) -> None:
        """Encode frames, float 0..1, at the size that is shown or larger around the same centre."""
        width, height = self._size
        for frame_rwc in frames_frwc:
            top, left = (frame_rwc.shape[0] - height) // 2, (frame_rwc.shape[1] - width) // 2
            cut_rwc = frame_rwc[top : top + height, left : left + width]
            planes = rgb_to_planes(to_float(cut_rwc), self._coding)
            frame = frame_from_planes(planes, width, height, self._pixels)
            tag_colours(frame, rgb=False)
            frame.pts, frame.time_base = self._count, 1 / self._fps
            self._count += 1
            self._container.mux(self._stream.encode(frame))

    def close(self) -> tuple[bytes, bytes]:
        """Return the common beginning and the clip's own piece."""
        self._container.mux(self._stream.encode(None))
        self._container.close()
        data = self._buffer.getvalue()
        split = next(start for start, kind, _ in _boxes(data, 0, len(data)) if kind == b"moof")
        piece = bytearray(data[split:])
        _shift(piece, self._first * timescale(self._fps) // self._fps)
        return data[:split], bytes(piece)


def timescale(fps: Fraction) -> int:
    """Return the ticks of a second in which every frame begins at a whole one."""
    fps = Fraction(fps)
    return fps.numerator * max(1, -(-10000 // fps.numerator))


def write_whole(path: Path, *parts: bytes) -> None:
    """Write a file of some parts, whole or not at all."""
    part = part_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        part.write_bytes(b"".join(parts))
        publish(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _shift(piece: bytearray, ticks: Fraction | int) -> None:
    """Let a piece begin at its own time; its fragments are numbered by when they begin."""
    for start, kind, end in _boxes(piece, 0, len(piece)):
        if kind != b"moof":
            continue
        begins = 0
        for inner, name, stop in _boxes(piece, start + 8, end):
            if name == b"traf":
                begins = _shift_track(piece, inner + 8, stop, int(ticks))
        for inner, name, _ in _boxes(piece, start + 8, end):
            if name == b"mfhd":
                struct.pack_into(">I", piece, inner + 12, (begins + 1) & 0xFFFFFFFF)


def _shift_track(piece: bytearray, start: int, end: int, ticks: int) -> int:
    for inner, name, _ in _boxes(piece, start, end):
        if name == b"tfdt":
            wide = piece[inner + 8] == 1
            form = ">Q" if wide else ">I"
            (old,) = struct.unpack_from(form, piece, inner + 12)
            struct.pack_into(form, piece, inner + 12, old + ticks)
            return int(old + ticks)
    raise AssertionError("a fragment has no time")


def _boxes(data: bytes | bytearray, start: int, end: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield start, kind and end of the boxes of an MP4 between two places."""
    while start < end:
        (length,) = struct.unpack_from(">I", data, start)
        assert length >= 8, "a box of a fragment is long or open-ended"
        yield start, bytes(data[start + 4 : start + 8]), start + length
        start += length
