"""The signals of each frame of a clip, read frame by frame; only the last picture is kept."""

# f frames  r rows  w columns  c channels  n bins
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from chaining.colour.oklab import LUMA_C, linear_to_oklab, srgb_to_linear
from chaining.drift.arrays import Array, Float
from chaining.drift.colour import colour_signals, hue_histogram
from chaining.drift.detail import detail_signals, grid_strength, radial_spectrum
from chaining.drift.features import ClipFeatures, Label
from chaining.drift.motion import NAMES, Flow, thumb_distance
from chaining.drift.tone import luma_histogram, tone_signals
from vidgen.errors import BadRequest

WIDTH: Final = 320
QUICK_WIDTH: Final = 192
_THUMB = 48
_CENTRE = 192
SMALLEST: Final = 16  # pixels of a side: below, there is no ring of frequencies, no block of noise
_LOW, _HIGH = -0.5, 1.5  # beyond, frames are not sRGB in 0..1 that a model or decoder overshot


def read_clip(
    frames: Float | Iterable[Float],
    *,
    fps: float,
    width: int = WIDTH,
    kind: str = "continue",
    before: ClipFeatures | None = None,
    labels: dict[str, Label] | None = None,
) -> ClipFeatures:
    """Read the features of one clip.

    frames  float32 sRGB 0..1, (f, r, w, 3), or chunks of such in order
    width   analysis width in pixels; narrower clips are read as they are
    before  the clip before it, for what happens at the seam; None for the first
    Raises  BadRequest (no frames, another shape or type, values that are no numbers)
    """
    if width < 64:
        raise BadRequest(f"width={width} is too narrow to measure; use 64 or more.")
    reader = _Reader(width, before)
    source = (0, 0)
    for frame in _single_frames(frames):
        if source == (0, 0):
            source = _size(frame)
        elif source != (frame.shape[1], frame.shape[0]):
            raise BadRequest(
                f"A frame is {frame.shape[1]}x{frame.shape[0]}, those before it are "
                f"{source[0]}x{source[1]}; give frames of one size."
            )
        reader.read(frame)
    if source == (0, 0):
        raise BadRequest("The clip has no frames; give at least one.")
    return reader.features(fps, kind, source, labels or {})


def _size(frame_rwc: Float) -> tuple[int, int]:
    rows, columns = frame_rwc.shape[:2]
    if min(rows, columns) < SMALLEST:
        raise BadRequest(
            f"Frames of {columns}x{rows} are too small to measure; {SMALLEST}x{SMALLEST} is least."
        )
    return columns, rows


def _single_frames(frames: Float | Iterable[Float]) -> Iterator[Float]:
    chunks = [frames] if isinstance(frames, np.ndarray) else frames
    for chunk in chunks:
        if chunk.ndim != 4 or chunk.shape[3] != 3 or chunk.dtype != np.float32:
            raise BadRequest(
                f"Frames of shape {chunk.shape} and type {chunk.dtype} cannot be measured; "
                "give float32 of shape (frames, rows, columns, 3), sRGB in 0..1."
            )
        yield from chunk


class _Reader:
    def __init__(self, width: int, before: ClipFeatures | None) -> None:
        self._width = width
        self._flow = Flow()
        self._rows: list[dict[str, float]] = []
        self._arrays: dict[str, list[Array]] = {"luma": [], "hue": [], "spectrum": [], "thumb": []}
        self._luma: Float | None = None if before is None else before.last_luma_rw
        self._thumb: Array | None = None if before is None else before.thumbs_frwc[-1]

    def read(self, frame_rwc: Float) -> None:
        """Take in the next frame."""
        rgb = _shrink(frame_rwc, self._width)
        luma: Float = rgb @ LUMA_C
        self._check(luma)
        linear = srgb_to_linear(np.clip(_shrink(rgb, max(rgb.shape[1] // 2, 32)), 0, 1))
        lab = linear_to_oklab(linear)
        thumb = _shrink(lab, _THUMB).astype(np.float16)
        spectrum = radial_spectrum(luma)
        row = tone_signals(rgb, luma, float((linear @ LUMA_C).mean()))
        row |= colour_signals(lab) | detail_signals(luma, spectrum)
        row["blocks"] = grid_strength(_centre(frame_rwc) @ LUMA_C)
        self._rows.append(row | self._change(luma, thumb))
        for name, value in (
            ("luma", luma_histogram(luma)), ("hue", hue_histogram(lab)),
            ("spectrum", spectrum), ("thumb", thumb),
        ):  # fmt: skip
            self._arrays[name].append(value)
        self._luma, self._thumb = luma, thumb

    def _check(self, luma_rw: Float) -> None:
        place = len(self._rows)
        low, high = float(luma_rw.min()), float(luma_rw.max())
        if not np.isfinite(low + high):
            raise BadRequest(f"Frame {place} of the clip holds nan or inf; check the decoder.")
        if low < _LOW or high > _HIGH:
            raise BadRequest(
                f"Frame {place} of the clip has luma from {low:.3g} to {high:.3g}; give sRGB in "
                "0..1."
            )

    def _change(self, luma_rw: Float, thumb_rwc: Array) -> dict[str, float]:
        """Compare a frame with the one before it; the first of all has none."""
        if self._luma is None or self._thumb is None or self._luma.shape != luma_rw.shape:
            return dict.fromkeys(NAMES, float("nan"))
        change = float(np.abs(luma_rw - self._luma).mean())
        moved = self._flow.between(self._luma, luma_rw)
        return {"change": change, "thumb_change": thumb_distance(self._thumb, thumb_rwc)} | moved

    def features(
        self, fps: float, kind: str, source: tuple[int, int], labels: dict[str, Label]
    ) -> ClipFeatures:
        """Return what was read."""
        if self._luma is None:
            raise BadRequest("The clip has no frames; give at least one.")
        names = self._rows[0].keys()
        return ClipFeatures(
            fps=fps,
            kind=kind,
            source_width=source[0],
            source_height=source[1],
            labels=labels,
            scalars={name: np.array([row[name] for row in self._rows]) for name in names},
            luma_fn=np.stack(self._arrays["luma"]),
            hue_fn=np.stack(self._arrays["hue"]),
            spectrum_fn=np.stack(self._arrays["spectrum"]),
            thumbs_frwc=np.stack(self._arrays["thumb"]),
            last_luma_rw=self._luma,
        )


def _centre(frame_rwc: Float) -> Float:
    """Return the middle of a frame, unscaled, where the traces of encoding are looked for."""
    rows, columns = frame_rwc.shape[:2]
    top, left = max(rows - _CENTRE, 0) // 2, max(columns - _CENTRE, 0) // 2
    return frame_rwc[top : top + _CENTRE, left : left + _CENTRE]


def _shrink(picture_rwc: Float, width: int) -> Float:
    """Average a picture down to a width; its height keeps the proportion and is even."""
    import cv2

    rows, columns = picture_rwc.shape[:2]
    if columns <= width:
        return picture_rwc
    height = max(2 * round(rows * width / columns / 2), 16)
    small: Float = cv2.resize(picture_rwc, (width, height), interpolation=cv2.INTER_AREA)
    return small
