"""From a decoded PyAV frame to float RGB: matrix, range, depth and orientation as the file says."""

# h rows  w columns  c red, green, blue
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vidgen.adjustment import Adjustment
from vidgen.errors import BadMedia
from vidgen.media.colour import Coding, planes_to_rgb

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.plane import VideoPlane

Float = npt.NDArray[np.float32]

# ffmpeg's numbers and names (ISO 23091-2).
MATRIX_NAMES = {
    0: "rgb", 1: "bt709", 2: "unknown", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m",
    8: "ycgco", 9: "bt2020", 10: "bt2020c", 14: "ictcp",
}  # fmt: skip
PRIMARIES_NAMES = {
    1: "bt709", 2: "unknown", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film",
    9: "bt2020", 10: "smpte428", 11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
TRANSFER_NAMES = {
    1: "bt709", 2: "unknown", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m",
    8: "linear", 9: "log100", 10: "log316", 11: "iec61966-2-4", 12: "bt1361e", 13: "iec61966-2-1",
    14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 17: "smpte428", 18: "arib-std-b67",
}  # fmt: skip

_YUV = re.compile(r"yuvj?(420|422|444)p(9|10|12|14|16)?(?:le)?")
_RGB = re.compile(r"gbrp(9|10|12|14|16)?(?:le)?")
_GREY = re.compile(r"gray(9|10|12|14|16)?(?:le)?")


@dataclass(frozen=True, slots=True)
class Colours:
    """What a file's pixels mean: its tags, and what is assumed where it has none.

    matrix  used for the conversion; "rgb" for files that hold RGB
    range   "tv" (narrow) or "pc" (full)
    """

    matrix: str
    primaries: str
    transfer: str
    range: str
    assumptions: tuple[Adjustment, ...]


def find_colours(frame: "VideoFrame", name: str) -> Colours:
    """Read the tags of a decoded frame and decide about those that are missing."""
    notes: list[Adjustment] = []
    kind = frame.format.name
    matrix = MATRIX_NAMES.get(frame.colorspace, f"number {frame.colorspace}")
    if frame.format.is_rgb or kind.startswith(("gbr", "pal")):
        matrix = "rgb"
    elif matrix in ("unknown", "rgb") and not kind.startswith("gray"):
        matrix = "bt709" if frame.height >= 720 else "bt601"
        why = f"the file names no matrix; {frame.height} rows suggest this one"
        notes.append(Adjustment("color_matrix", None, matrix, why))
    elif matrix == "bt2020c":
        matrix = "bt2020"
        notes.append(
            Adjustment("color_matrix", "bt2020c", matrix, "constant luminance is read as usual")
        )
    elif matrix in ("ycgco", "ictcp") or matrix.startswith("number"):
        raise BadMedia(
            f"{name} uses the colour matrix {matrix}, which cannot be read; convert it to bt709."
        )
    is_full = matrix == "rgb" or "yuvj" in kind or frame.color_range == 2
    if frame.color_range == 0 and not is_full:
        is_full = kind.startswith("gray")
        used = "pc" if is_full else "tv"
        why = "the file names no range; this one is the custom"
        notes.append(Adjustment("color_range", None, used, why))
    transfer = TRANSFER_NAMES.get(frame.color_trc, "unknown")
    if transfer in ("smpte2084", "arib-std-b67"):
        why = "high dynamic range is read as stored, without tone mapping"
        notes.append(Adjustment("color_transfer", transfer, "as stored", why))
    if any(part.is_alpha for part in frame.format.components) and kind != "bgra":
        notes.append(Adjustment("alpha", kind, "dropped", "clips are opaque"))
    primaries = PRIMARIES_NAMES.get(frame.color_primaries, "unknown")
    return Colours(matrix, primaries, transfer, "pc" if is_full else "tv", tuple(notes))


def frame_to_rgb(frame: "VideoFrame", colours: Colours) -> Float:
    """Convert a decoded frame to float RGB (h, w, 3) at the file's own depth, not yet turned
    upright.
    """
    frame = _planar(frame)
    kind = frame.format.name
    bits = max(part.bits for part in frame.format.components)
    if kind in ("rgb24", "rgb48le"):
        return frame.to_ndarray().astype(np.float32) / np.float32(2**bits - 1)
    planes = [_plane_values(plane, bits) for plane in frame.planes]
    if _RGB.fullmatch(kind):
        green, blue, red = planes
        return np.stack([red, green, blue], axis=-1).astype(np.float32) / np.float32(2**bits - 1)
    full = colours.range == "pc"
    if _GREY.fullmatch(kind):
        black, span = Coding("bt709", bits, full).luma
        grey = np.clip((planes[0].astype(np.float32) - black) / np.float32(span), 0, 1)
        return np.repeat(grey[..., None], 3, axis=-1)
    halve_x, halve_y = "444" not in kind, "420" in kind
    coding = Coding(colours.matrix, bits, full, halve_x=halve_x, halve_y=halve_y)
    return planes_to_rgb((planes[0], planes[1], planes[2]), coding)


def find_orientation(frame: "VideoFrame") -> tuple[int, int]:
    """Return (EXIF orientation 1..8, clockwise degrees) from the frame's display matrix; upright if
    it has none.
    """
    from av.sidedata.sidedata import Type

    matrix = frame.side_data.get(Type.DISPLAYMATRIX)  # type: ignore[call-overload]
    if matrix is None:
        return 1, 0
    # x' = a x + c y and y' = b x + d y, in 16.16 fixed point with y downwards.
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    if abs(a) >= abs(b):
        code = {(False, False): 1, (True, False): 2, (True, True): 3, (False, True): 4}[
            (a < 0, d < 0)
        ]
    else:
        code = {(False, False): 5, (True, False): 6, (True, True): 7, (False, True): 8}[
            (c < 0, b < 0)
        ]
    return code, {1: 0, 2: 0, 3: 180, 4: 180, 5: 90, 6: 90, 7: 270, 8: 270}[code]


def _planar(frame: "VideoFrame") -> "VideoFrame":
    """Rearrange a frame into planes that are understood here; only subsampling such as 4:1:1 is
    interpolated.
    """
    from av.video.reformatter import Interpolation

    kind = frame.format.name
    if _YUV.fullmatch(kind) or _RGB.fullmatch(kind) or _GREY.fullmatch(kind):
        return frame
    parts = frame.format.components
    deep = max(part.bits for part in parts) > 8
    if frame.format.is_rgb or kind.startswith(("pal", "gbr")):
        return frame.reformat(format="rgb48le" if deep else "rgb24")
    chroma = next((part for part in parts if not part.is_luma and not part.is_alpha), None)
    if chroma is None:
        return frame.reformat(format="gray16le" if deep else "gray")
    ratio = (-(-frame.width // chroma.width), -(-frame.height // chroma.height))
    sampling = {(2, 2): "420", (2, 1): "422"}.get(ratio, "444")
    target = f"yuv{sampling}p{_depth_suffix(max(part.bits for part in parts))}"
    accurate = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INP
    same = frame.color_range or 1
    return frame.reformat(
        format=target, interpolation=accurate, src_color_range=same, dst_color_range=same
    )


def _depth_suffix(bits: int) -> str:
    return "" if bits == 8 else f"{bits}le" if bits in (9, 10, 12, 14, 16) else "16le"


def _plane_values(plane: "VideoPlane", bits: int) -> npt.NDArray[Any]:
    """The samples of a plane without the padding at the end of its rows."""
    samples = np.frombuffer(memoryview(plane), np.uint8 if bits <= 8 else np.uint16)
    return samples.reshape(plane.height, -1)[:, : plane.width]
