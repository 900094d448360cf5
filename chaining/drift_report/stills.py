"""Small pictures of a chain, taken while its frames stream past."""

# f frames  r rows  w columns  c red, green, blue
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from chaining.drift.arrays import Float

SIDE: Final = 3  # frames on each side of a seam
_WIDTH: Final = 240
_QUALITY: Final = 93

Stills = dict[int, bytes]  # frame of the clip, from 0 -> the picture as JPEG


class StillTaker:
    """Takes each clip's first and last three frames and its middle one, 240 pixels wide."""

    def __init__(self) -> None:
        """Start with no clip."""
        self._clips: list[Stills] = []

    @property
    def stills(self) -> tuple[Stills, ...]:
        """The pictures of each clip so far."""
        return tuple(self._clips)

    def watch(self, chunks: Iterable[Float], length: int) -> Iterator[Float]:
        """Pass a clip's chunks on, taking pictures on the way.

        chunks  float32 sRGB 0..1, (f, r, w, 3); length the number of frames of the clip
        """
        wanted = {length // 2, *range(min(SIDE, length)), *range(max(length - SIDE, 0), length)}
        taken: Stills = {}
        self._clips.append(taken)
        place = 0
        for chunk_frwc in chunks:
            for frame_rwc in chunk_frwc:
                if place in wanted:
                    taken[place] = _encode(frame_rwc)
                place += 1
            yield chunk_frwc


def _encode(frame_rwc: Float) -> bytes:
    """Return a frame as a small JPEG with full chroma."""
    import cv2

    rows, columns = frame_rwc.shape[:2]
    size = (_WIDTH, max(1, round(rows * _WIDTH / columns)))
    way = cv2.INTER_AREA if columns > _WIDTH else cv2.INTER_LINEAR
    small = cv2.resize(frame_rwc, size, interpolation=way)
    codes = np.rint(np.clip(small, 0, 1) * 255).astype(np.uint8)
    options = [cv2.IMWRITE_JPEG_QUALITY, _QUALITY,
               cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]  # fmt: skip
    encoded: bytes = cv2.imencode(".jpg", codes[..., ::-1], options)[1].tobytes()
    return encoded
