"""Motion: how a frame differs from the one before it."""

# r rows  w columns
import math
from typing import Any, Final

import numpy as np

from chaining.drift.arrays import Float

DUPLICATE: Final = 0.25 / 255  # a smaller mean change of luma means: the same picture
_PATCH = 8  # pixels, of the fast preset
NAMES: Final = ("change", "flow", "flow_x", "flow_y", "thumb_change")


class Flow:
    """Dense optical flow between half-size frames (DIS, the fast preset)."""

    def __init__(self) -> None:
        import cv2

        self._estimator: Any = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)

    def between(self, before_rw: Float, after_rw: Float) -> dict[str, float]:
        """Return mean magnitude and mean direction in per cent of the width; luma 0..1, alike."""
        columns = after_rw.shape[1]
        before, after = _small(before_rw), _small(after_rw)
        rows = len(after)
        flow_rwd = self._estimator.calc(_padded(before), _padded(after), None)[:rows]
        per_cent = 100 / (columns // 2)
        x, y = flow_rwd.reshape(-1, 2).mean(axis=0) * per_cent
        magnitude = float(np.hypot(flow_rwd[..., 0], flow_rwd[..., 1]).mean()) * per_cent
        return {"flow": magnitude, "flow_x": float(x), "flow_y": float(y)}


def _small(luma_rw: Float) -> Any:
    import cv2

    size = (max(luma_rw.shape[1] // 2, 16), max(luma_rw.shape[0] // 2, 16))
    small = cv2.resize(luma_rw, size, interpolation=cv2.INTER_AREA)
    return cv2.convertScaleAbs(small, alpha=255)


def _padded(small_rw: Any) -> Any:
    """Repeat the last row of a frame that is far wider than high.

    OpenCV chooses how often to halve a frame by its width alone, and reads beyond the memory of one
    that is less than a patch high in the end.
    """
    import cv2

    rows, columns = small_rw.shape
    halvings = max(0, int(math.log2(columns / (2 * _PATCH)) + 0.5) - 1)
    missing = max(0, (_PATCH << halvings) - rows)
    if not missing:
        return small_rw
    return cv2.copyMakeBorder(small_rw, 0, missing, 0, 0, cv2.BORDER_REPLICATE)


def thumb_distance(before_rwc: Float, after_rwc: Float) -> float:
    """Return the mean Oklab distance of two thumbnails."""
    squared = (before_rwc.astype(np.float32) - after_rwc.astype(np.float32)) ** 2
    return float(np.sqrt(squared.sum(axis=2)).mean())
