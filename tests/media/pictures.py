"""Pictures and programs that the media tests judge by: none of them comes from the code under
test.
"""

import io
import struct
import subprocess
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[Any]
FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
ACCURATE = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"


def ffmpeg(*arguments: str | Path) -> bytes:
    """Run the bundled program; what it says on stdout."""
    command = [FFMPEG, "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def ffmpeg_frames(path: Path, width: int, height: int, *filters: str) -> Pixels:
    """Decode a clip with the program, by its accurate path, to uint8 (f, h, w, 3)."""
    graph = ",".join([*filters, f"scale=flags={ACCURATE}", "format=rgb24"])
    raw = ffmpeg("-i", path, "-vf", graph, "-fps_mode", "passthrough", "-f", "rawvideo", "-")
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


def patches(num_frames: int = 3, size: int = 128, patch: int = 32, seed: int = 0) -> Pixels:
    """Flat patches of random and of fully saturated colours, float32 (f, size, size, 3)."""
    rng = np.random.default_rng(seed)
    count = size // patch
    colours = rng.integers(0, 256, (count, count, 3)) / 255
    corners = [(r, g, b) for r in (0, 1) for g in (0, 1) for b in (0, 1)]
    colours.reshape(-1, 3)[: len(corners)] = corners[: count * count]
    picture = colours.repeat(patch, 0).repeat(patch, 1).astype(np.float32)
    return np.repeat(picture[None], num_frames, 0)


def patch_middles(frames: Pixels, patch: int = 32, margin: int = 8) -> Pixels:
    """The pixels of `patches` that lie away from the seams."""
    f, h, w, _ = frames.shape
    cells = frames.reshape(f, h // patch, patch, w // patch, patch, 3)
    inner = slice(margin, patch - margin)
    return cells[:, :, inner, :, inner]


def scene(num_frames: int = 3, width: int = 192, height: int = 128, seed: int = 1) -> Pixels:
    """Something like a photograph: sky, textured ground, soft coloured bodies, grain; panning.
    float32.
    """
    rng = np.random.default_rng(seed)
    wide = width + 4 * num_frames
    rows, columns = np.mgrid[0:height, 0:wide].astype(np.float32)
    spectrum = np.fft.rfft2(rng.standard_normal((height, wide)))
    radius = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(wide)[None])
    texture = np.fft.irfft2(spectrum / np.maximum(radius, 1 / wide) ** 1.3, (height, wide))
    texture = (texture / texture.std()).astype(np.float32)
    depth = rows / height
    picture = np.stack([0.35 + 0.4 * depth, 0.55 + 0.2 * depth, 0.85 - 0.3 * depth], -1)
    ground = 1 / (1 + np.exp(-(depth - 0.55) * 40))[..., None]
    soil = np.array([0.45, 0.38, 0.22]) * (1 + 0.25 * texture[..., None])
    picture = picture * (1 - ground) + soil * ground
    for _ in range(14):
        x, y, size = rng.random(3) * (wide, height, 20) + (0, 0, 6)
        distance = np.minimum(np.hypot(columns - x, rows - y) - size, 50)
        body = 1 / (1 + np.exp(distance))[..., None]
        shade = 0.75 + 0.25 * np.cos((columns - x + rows - y) / size)[..., None]
        picture = picture * (1 - body) + body * rng.random(3) * shade
    picture = np.clip(picture + 0.01 * rng.standard_normal(picture.shape), 0, 1)
    steps = [picture[:, 4 * i : 4 * i + width] for i in range(num_frames)]
    return np.stack(steps).astype(np.float32)


def png_bytes(pixels: Pixels, colour_type: int, extra: bytes = b"") -> bytes:
    """A PNG of 8 or 16 bits made by hand: 0 grey, 2 RGB, 4 grey and alpha, 6 RGB and alpha."""
    height, width = pixels.shape[:2]
    bits = 8 * pixels.dtype.itemsize
    rows = pixels.astype(pixels.dtype.newbyteorder(">")).reshape(height, -1)
    body = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    parts = png_chunk(b"IHDR", header) + extra + png_chunk(b"IDAT", zlib.compress(body))
    return b"\x89PNG\r\n\x1a\n" + parts + png_chunk(b"IEND", b"")


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One chunk of a PNG."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """An image saved by Pillow."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def boxes(path: Path) -> list[str]:
    """The top-level boxes of an mp4, in order."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if size == 1:
            size = struct.unpack(">Q", data[at + 8 : at + 16])[0]
        found.append(kind.decode())
        at += size
    return found


NTSC = Fraction(24000, 1001)
