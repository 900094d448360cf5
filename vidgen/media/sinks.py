"""Where encoded frames go: a video file, a GIF, or a folder of PNG files; the writer names, checks
and renames.
"""

# h rows  w columns  c red, green, blue
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from vidgen.media.colour import Coding, quantise_rgb, rgb_to_planes
from vidgen.media.disk import file_address, sync_file
from vidgen.media.profiles import Profile
from vidgen.media.recipe import Tags, add_gif_comment, write_folder_facts

if TYPE_CHECKING:
    import av

Frame = npt.NDArray[np.float32] | npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


class Sink(Protocol):
    """Takes frames of one size and one dtype, in order."""

    def write(self, frame_hwc: Frame) -> None:
        """Encode one frame."""

    def close(self) -> None:
        """Flush the encoder and put everything on disk."""

    def abort(self) -> None:
        """Let go of files and encoder; what was written is worthless."""


def to_float(frame_hwc: Frame) -> npt.NDArray[np.float32]:
    """Bring 8-bit and 16-bit frames to float 0..1; float frames pass."""
    if frame_hwc.dtype == np.uint8:
        return frame_hwc.astype(np.float32) / np.float32(255)
    if frame_hwc.dtype == np.uint16:
        return frame_hwc.astype(np.float32) / np.float32(65535)
    return frame_hwc.astype(np.float32, copy=False)


def to_integers(frame_hwc: Frame, bits: int) -> npt.NDArray[np.uint8] | npt.NDArray[np.uint16]:
    """Bring frames to 8-bit or 16-bit integers; those of that kind pass unchanged."""
    wanted = np.uint8 if bits == 8 else np.uint16
    if frame_hwc.dtype == wanted:
        return frame_hwc  # type: ignore[return-value]
    return quantise_rgb(to_float(frame_hwc), bits)


class FileSink:
    """A video stream in an mp4, mov, mkv or webm file."""

    def __init__(
        self, part: Path, profile: Profile, size: tuple[int, int], fps: Fraction, crf: int | None,
        deep: bool, tags: Tags,
    ) -> None:  # fmt: skip
        import av

        self._part = part
        self._rate = fps
        self._count = 0
        self._pixels = profile.deep_pixels if deep else profile.pixels
        self._coding = coding_of(self._pixels)
        movable = profile.container in ("mp4", "mov")
        flags = {"movflags": "faststart+use_metadata_tags"} if movable else {}
        address = file_address(part)
        self._container = av.open(address, "w", format=profile.container, options=flags)
        self._container.metadata.update(tags)
        encoder_options = profile.encoder_options(*size) | (
            {} if crf is None else {"crf": str(crf)}
        )
        stream: Any = self._container.add_stream(profile.codec, fps, options=encoder_options)
        self._stream = stream
        stream.width, stream.height = size
        stream.pix_fmt = self._pixels
        context = stream.codec_context
        context.time_base = 1 / fps
        context.gop_size = 1 if profile.intra else max(1, int(2 * fps))
        if profile.tag is not None:
            context.codec_tag = profile.tag
        tag_colours(context, rgb=self._coding is None)

    def write(self, frame_hwc: Frame) -> None:
        """Encode one frame."""
        if self._coding is None:
            planes: Iterable[npt.NDArray[Any]] = _rgb_planes(frame_hwc, self._pixels)
        else:
            planes = rgb_to_planes(to_float(frame_hwc), self._coding)
        frame = frame_from_planes(planes, frame_hwc.shape[1], frame_hwc.shape[0], self._pixels)
        tag_colours(frame, rgb=self._coding is None)
        frame.pts, frame.time_base = self._count, 1 / self._rate
        self._count += 1
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Flush the encoder and put the file on disk."""
        packets = self._stream.encode(None)
        if self._count <= _X265_NEEDS and self._stream.codec_context.name == "libx265":
            # With fewer frames than it looks ahead, x265 hands out times that were never set.
            for number, packet in enumerate(packets):
                packet.pts = packet.dts = number
                packet.time_base = 1 / self._rate
        self._container.mux(packets)
        self._container.close()
        sync_file(self._part)

    def abort(self) -> None:
        """Close without care for the content."""
        self._container.close()


_X265_NEEDS = 2  # frames up to which x265 neither reorders nor knows its times


class GifSink:
    """An animated GIF with a palette of its own for every frame, so that memory stays bounded."""

    def __init__(self, part: Path, size: tuple[int, int], fps: Fraction, tags: Tags) -> None:
        import av

        self._part, self._rate, self._count = part, fps, 0
        self._comment = tags.get("comment")
        self._graph = _palette_graph(size, fps)
        self._container = av.open(file_address(part), "w", format="gif")
        stream: Any = self._container.add_stream("gif", fps)
        self._stream = stream
        stream.width, stream.height = size
        stream.pix_fmt = "pal8"
        stream.codec_context.time_base = 1 / fps

    def write(self, frame_hwc: Frame) -> None:
        """Encode one frame."""
        frame = packed_frame(to_integers(frame_hwc, 8))
        frame.pts, frame.time_base = self._count, 1 / self._rate
        self._count += 1
        self._graph.push(frame)
        self._drain()

    def close(self) -> None:
        """Flush the encoder, add the recipe as a comment and put the file on disk."""
        self._graph.push(None)
        self._drain()
        self._container.mux(self._stream.encode(None))
        self._container.close()
        if self._comment is not None:
            add_gif_comment(self._part, self._comment)
        sync_file(self._part)

    def abort(self) -> None:
        """Close without care for the content."""
        self._container.close()

    def _drain(self) -> None:
        import av

        while True:
            try:
                frame = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return
            self._container.mux(self._stream.encode(frame))


class PngSink:
    """A folder of numbered PNG files beside `clip.json` and `recipe.json`."""

    def __init__(
        self, part: Path, size: tuple[int, int], fps: Fraction, deep: bool, tags: Tags
    ) -> None:
        import av

        part.mkdir(parents=True)
        self._part, self._count, self._tags, self._fps = part, 0, tags, fps
        self._bits, self._pixels = (16, "rgb48be") if deep else (8, "rgb24")
        self._encoder: Any = av.CodecContext.create("png", "w")
        self._encoder.width, self._encoder.height = size
        self._encoder.pix_fmt = self._pixels
        self._encoder.time_base = 1 / fps

    def write(self, frame_hwc: Frame) -> None:
        """Write one file."""
        frame = packed_frame(to_integers(frame_hwc, self._bits))
        frame.pts, frame.time_base = self._count, 1 / self._fps
        target = self._part / f"frame_{self._count:06d}.png"
        target.write_bytes(b"".join(bytes(packet) for packet in self._encoder.encode(frame)))
        sync_file(target)
        self._count += 1

    def close(self) -> None:
        """Write the recipe and put the folder on disk."""
        write_folder_facts(self._part, self._fps, self._count, self._tags)

    def abort(self) -> None:
        """Nothing is held open."""


def _rgb_planes(frame_hwc: Frame, pixels: str) -> list[npt.NDArray[Any]]:
    """The planes of gbrp16le, or the single one of bgr0, in which FFV1 keeps 8-bit RGB."""
    if pixels == "bgr0":
        codes = to_integers(frame_hwc, 8)
        packed = np.zeros((*codes.shape[:2], 4), np.uint8)
        packed[..., :3] = codes[..., ::-1]
        return [packed.reshape(len(packed), -1)]
    red, green, blue = np.moveaxis(to_integers(frame_hwc, 16), -1, 0)
    return [green, blue, red]


def coding_of(pixels: str) -> Coding | None:
    """The coding of a YUV pixel format that is written here; None for RGB."""
    if pixels.startswith(("gbr", "rgb", "bgr", "pal")):
        return None
    bits = 10 if "p10" in pixels else 8
    return Coding("bt709", bits, False, halve_x="444" not in pixels, halve_y="420" in pixels)


def tag_colours(target: Any, *, rgb: bool) -> None:
    """Tag an encoder or a frame as bt709, narrow range; or as RGB, full range."""
    target.color_primaries = target.color_trc = 1
    target.colorspace, target.color_range = (0, 2) if rgb else (1, 1)


def packed_frame(pixels_hwc: npt.NDArray[Any]) -> "av.VideoFrame":
    """A frame of 8-bit or 16-bit RGB."""
    import av

    kind = "rgb24" if pixels_hwc.dtype == np.uint8 else "rgb48be"
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels_hwc), format=kind)


def frame_from_planes(
    planes: Iterable[npt.NDArray[Any]], width: int, height: int, pixels: str
) -> "av.VideoFrame":
    """Copy planes into a new frame, whose rows may be longer than the picture's."""
    import av

    frame = av.VideoFrame(width, height, pixels)
    for plane, values in zip(frame.planes, planes, strict=True):
        rows, columns = values.shape
        buffer = np.frombuffer(memoryview(plane), values.dtype)
        buffer.reshape(plane.height, -1)[:rows, :columns] = values
    return frame


def _palette_graph(size: tuple[int, int], fps: Fraction) -> Any:
    from av.filter import Graph

    graph: Any = Graph()
    source = graph.add_buffer(width=size[0], height=size[1], format="rgb24", time_base=1 / fps)
    split = graph.add("split", "2")
    generate = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
    use = graph.add("paletteuse", "new=1:dither=sierra2_4a")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(use, 0, 0)
    split.link_to(generate, 1, 0)
    generate.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    return graph
