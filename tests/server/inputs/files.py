"""Pictures and videos, good and bad, made by hand where a library would not write them."""

import io
import struct
import zlib
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from PIL import Image


def png(width: int = 64, height: int = 48, colour: tuple[int, int, int] = (200, 30, 30)) -> bytes:
    """Return a small picture."""
    return encoded(Image.new("RGB", (width, height), colour), "PNG")


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """Return a picture's file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def raw_png(width: int, height: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """Return a grey 1-bit PNG whose header says what it is told to."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = [(b"IHDR", header), *more, (b"IDAT", data), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks))


def _chunk(named: tuple[bytes, bytes]) -> bytes:
    name, content = named
    return struct.pack(">I", len(content)) + name + content + struct.pack(
        ">I", zlib.crc32(name + content)
    )  # fmt: skip


def squeezed(size: int) -> bytes:
    """Return so many zero bytes, compressed."""
    packer = zlib.compressobj(9)
    piece = bytes(1 << 20)
    whole = b"".join(packer.compress(piece) for _ in range(size >> 20))
    return whole + packer.compress(bytes(size % (1 << 20))) + packer.flush()


def gif(width: int, height: int, frames: int, frame_width: int = 1, frame_height: int = 1) -> bytes:
    """Return an animation whose frames each hold one pixel's worth of data."""
    header = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    place = b"," + struct.pack("<HHHHB", 0, 0, frame_width, frame_height, 0)
    return header + (place + b"\x02\x02D\x01\0") * frames + b";"


def ico(inside: bytes) -> bytes:
    """Return an icon that says it is 16x16 and holds any PNG."""
    header = struct.pack("<HHH", 0, 1, 1)
    entry = struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(inside), 22)
    return header + entry + inside


def video(path: Path, frames: int = 5, width: int = 64, height: int = 48) -> bytes:
    """Write and return a small mp4 at 8 frames a second."""
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(8), options={"crf": "30"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(frames):
            pixels = np.full((height, width, 3), 40 * number % 255, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    return path.read_bytes()
