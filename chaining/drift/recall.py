"""Loops and snap-backs: frames that show again what was shown long before."""

# f frames  d thumbnail values
from dataclasses import dataclass
from functools import partial

import numpy as np

from chaining.drift.arrays import Array, Double
from chaining.drift.seams import outliers
from chaining.drift.timeline import Timeline

_EVERY = 4  # frames compared, of so many one


@dataclass(frozen=True, slots=True)
class Recall:
    """How much of a chain repeats itself.

    anchor_share  frames nearer to their segment's first frame than to the frame a second before
    loop_share    frames nearer to some frame more than a clip ago than to the frame a second before
    snap_backs    frames at which the picture jumps back to the segment's first frame
    """

    anchor_share: float
    loop_share: float
    snap_backs: tuple[int, ...]


def read_recall(timeline: Timeline) -> Recall:
    """Compare each fourth frame with all earlier ones of its segment."""
    small_fd = np.concatenate([_small_of(timeline, clip) for clip in range(len(timeline.thumbs))])
    jumps = outliers(timeline)
    nearer_anchor, nearer_old, seen = 0, 0, 0
    snaps: list[int] = []
    for clips in timeline.segments():
        start, end = timeline.span(clips)
        second = max(1, round(timeline.fps))
        clip = (end - start) // len(clips)
        frames = np.arange(start + clip + second, end, _EVERY)
        if len(frames):
            recent = _distance(small_fd[frames], small_fd[frames - second])
            anchor = _distance(small_fd[frames], small_fd[start])
            oldest = [_oldest(timeline, small_fd, int(at), start, clip) for at in frames]
            nearer_anchor += int((anchor < recent).sum())
            nearer_old += int((np.minimum(oldest, anchor) < recent).sum())
            seen += len(frames)
        snaps += [
            frame
            for frame in jumps
            if start + second < frame < end and _snaps(small_fd, frame, start)
        ]
    return Recall(nearer_anchor / max(seen, 1), nearer_old / max(seen, 1), tuple(snaps))


def _small_of(timeline: Timeline, clip: int) -> Double:
    return timeline.once(("small", clip), 0, partial(_small, timeline.thumbs[clip]))


def _small(thumbs_frwc: Array) -> Double:
    rows, columns = (size // 4 * 4 for size in thumbs_frwc.shape[1:3])
    cells = thumbs_frwc[:, :rows, :columns].astype(np.float32)
    pooled = cells.reshape(len(cells), rows // 4, 4, columns // 4, 4, 3).mean(axis=(2, 4))
    small: Double = pooled.reshape(len(cells), -1).astype(np.float64)
    return small


def _distance(one_fd: Double, two_fd: Double) -> Double:
    """Return the root mean square Oklab distance."""
    distance: Double = np.sqrt(3 * ((one_fd - two_fd) ** 2).mean(axis=-1))
    return distance


def _oldest(timeline: Timeline, small_fd: Double, frame: int, start: int, clip: int) -> float:
    """Return a frame's distance to the nearest frame of its segment more than a clip before."""
    read = partial(_nearest, small_fd[start : frame - clip : _EVERY], small_fd[frame])
    return timeline.once(("oldest", start, clip, frame), 0, read)


def _nearest(all_fd: Double, one_d: Double) -> float:
    return float(_distance(all_fd, one_d).min())


def _snaps(small_fd: Double, frame: int, anchor: int) -> bool:
    before, now = _distance(small_fd[frame - 1 : frame + 1], small_fd[anchor])
    return bool(now < 0.4 * before and now < 0.05)
