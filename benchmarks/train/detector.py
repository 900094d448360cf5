"""The detector: reads a clip of the toy world back into the scene it shows.

It knows the world's colours and silhouettes and nothing about the model under test.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.train.world import (
    BACKGROUNDS,
    COLOURS,
    MOTIONS,
    SHAPES,
    SIZES,
    SPEEDS,
    Scene,
    Video,
    background_mean,
    signed_distance,
)

MIN_CHROMA = 0.37  # every background stays below, every object's darkest side above
MIN_WHITE = 0.62
MIN_AREA = 90  # px; the smallest star covers about 300
SPURIOUS_AREA = 60  # px
MIN_IOU = 0.70  # a silhouette that overlaps no template so far is no shape of the world
STILL_EXTENT = 7.0  # px of travel that still count as resting
WINDOW = 8  # frames over which a velocity is taken
MAX_MATCHED = 6  # frames whose silhouette is compared
TEMPLATE_RADII = (12.5, 13.5, 14.5, 15.5, 16.5, 18.0, 19.5, 20.5, 21.5, 22.5, 23.5)  # px

Mask = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a clip shows; "none" where nothing of that kind is found.

    spurious    mean number of further objects per frame
    iou         overlap of the silhouette with its best template, 0..1
    """

    colour: str
    shape: str
    size: str
    motion: str
    speed: str
    background: str
    spurious: float
    iou: float

    def verdict(self, scene: Scene) -> dict[str, bool]:
        """Which of the scene's attributes the clip shows."""
        return {f.name: getattr(self, f.name) == getattr(scene, f.name) for f in fields(Scene)}


@dataclass(frozen=True, slots=True)
class _Blob:
    mask: Mask
    box: tuple[int, int, int, int]  # left, top, width, height
    area: int
    centre: tuple[float, float]


def detect(video: Video) -> Reading:
    """Read a clip, float [frames, height, width, 3] in 0..1."""
    layers = [_colour_layers(frame) for frame in video]
    blobs = {name: [_blobs(layer[name]) for layer in layers] for name in COLOURS}
    totals = {
        name: sum(frame[0].area for frame in per_frame if frame)
        for name, per_frame in blobs.items()
    }
    colour = max(totals, key=lambda name: totals[name])
    track = [frame[0] if frame and frame[0].area >= MIN_AREA else None for frame in blobs[colour]]
    background = _nearest_background(video, layers)
    spurious = _count_spurious(blobs, colour)
    if sum(blob is not None for blob in track) < max(2, len(video) // 3):
        return Reading("none", "none", "none", "none", "none", background, spurious, 0.0)
    shape, size, iou = _match_silhouette(track, video.shape[1:3])
    motion, speed = _read_motion(track)
    return Reading(colour, shape, size, motion, speed, background, spurious, iou)


def _colour_layers(frame: NDArray[np.float32]) -> dict[str, Mask]:
    """One mask per object colour."""
    high, low = frame.max(axis=-1), frame.min(axis=-1)
    chroma = high - low
    names = [name for name in COLOURS if name != "white"]
    hues = np.array([_hue(np.array(COLOURS[name], np.float32)) for name in names])
    gap = np.abs((_hue(frame)[..., None] - hues + 0.5) % 1.0 - 0.5)
    nearest = gap.argmin(axis=-1)
    vivid = chroma > MIN_CHROMA
    masks = {name: (vivid & (nearest == i)).astype(np.uint8) for i, name in enumerate(names)}
    masks["white"] = ((low > MIN_WHITE) & (chroma < 0.2)).astype(np.uint8)
    return masks


def _hue(rgb: NDArray[np.float32]) -> NDArray[np.float32]:
    """Hue in turns, 0..1."""
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    angle = np.arctan2(np.sqrt(3.0) * (g - b), 2 * r - g - b)
    hue: NDArray[np.float32] = (angle / (2 * np.pi)).astype(np.float32) % 1.0
    return hue


def _blobs(mask: Mask) -> list[_Blob]:
    """Connected parts of a mask with their holes filled, largest first."""
    found = []
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    for contour in contours:
        left, top, width, height = cv2.boundingRect(contour)
        if width * height < SPURIOUS_AREA:
            continue
        filled = np.zeros((height, width), np.uint8)
        cv2.drawContours(filled, [contour - (left, top)], -1, 1, cv2.FILLED)
        area = int(filled.sum())
        if area >= SPURIOUS_AREA:
            rows, columns = np.nonzero(filled)
            centre = (left + float(columns.mean()) + 0.5, top + float(rows.mean()) + 0.5)
            found.append(_Blob(filled, (left, top, width, height), area, centre))
    return sorted(found, key=lambda blob: -blob.area)


def _nearest_background(video: Video, layers: list[dict[str, Mask]]) -> str:
    """The background whose mean colour is nearest to that of everything but the objects."""
    means = []
    for frame, masks in zip(video, layers, strict=True):
        objects = np.clip(sum(mask.astype(np.int32) for mask in masks.values()), 0, 1)
        ground = cv2.dilate(objects.astype(np.uint8), np.ones((5, 5), np.uint8)) == 0
        if ground.any():
            means.append(frame[ground].mean(axis=0))
    if not means:
        return "none"
    mean = np.mean(means, axis=0)
    gaps = {name: float(np.abs(background_mean(name) - mean).max()) for name in BACKGROUNDS}
    best = min(gaps, key=lambda name: gaps[name])
    return best if gaps[best] < 0.12 else "none"


def _count_spurious(blobs: dict[str, list[list[_Blob]]], colour: str) -> float:
    """Mean number of objects per frame beside the tracked one; its own highlight is none."""
    counts = []
    for index, own in enumerate(blobs[colour]):
        extra = max(0, len(own) - 1)
        for name, per_frame in blobs.items():
            if name != colour:
                extra += sum(not _inside(other, own[:1]) for other in per_frame[index])
        counts.append(extra)
    return float(np.mean(counts))


def _inside(blob: _Blob, owners: list[_Blob]) -> bool:
    """True if the blob's centre lies in the box of an owner."""
    for owner in owners:
        left, top, width, height = owner.box
        x, y = blob.centre
        if left <= x <= left + width and top <= y <= top + height:
            return True
    return False


def _match_silhouette(track: list[_Blob | None], canvas: tuple[int, ...]) -> tuple[str, str, float]:
    """Shape and size of the template that overlaps best over the frames that show it whole."""
    height, width = canvas[0], canvas[1]
    whole = [
        blob
        for blob in track
        if blob is not None
        and blob.box[0] > 0
        and blob.box[1] > 0
        and blob.box[0] + blob.box[2] < width
        and blob.box[1] + blob.box[3] < height
    ] or [blob for blob in track if blob is not None]
    whole = whole[:: max(1, len(whole) // MAX_MATCHED)]
    scores = {
        (shape, radius): float(np.mean([_iou(blob, shape, radius) for blob in whole]))
        for shape in SHAPES
        for radius in TEMPLATE_RADII
    }
    shape, radius = max(scores, key=lambda key: scores[key])
    size = min(SIZES, key=lambda name: abs(SIZES[name] - radius))
    iou = scores[shape, radius]
    return (shape, size, iou) if iou >= MIN_IOU else ("none", size, iou)


def _iou(blob: _Blob, shape: str, radius: float) -> float:
    """Overlap of a blob with a template, 0..1, where it is greatest.

    Box centre on box centre would do for clean silhouettes only: one pixel too many on a tip moves
    the box, and then a star, all edges, overlaps little.
    """
    template = _template(shape, radius)
    total = int(template.sum())
    around = np.pad(blob.mask.astype(np.float32), len(template) // 2)
    common = float(cv2.matchTemplate(around, template, cv2.TM_CCORR).max())
    return common / (blob.area + total - common)


@lru_cache(maxsize=64)
def _template(shape: str, radius: float) -> NDArray[np.float32]:
    """A silhouette in a square that holds it, 1 inside."""
    reach = int(1.25 * radius) + 1
    grid = np.arange(-reach, reach, dtype=np.float32) + 0.5
    inside = signed_distance(shape, radius, grid[None, :], grid[:, None]) < 0
    return inside.astype(np.float32)


def _read_motion(track: list[_Blob | None]) -> tuple[str, str]:
    """Direction and speed from the track of centres."""
    times = np.array([i for i, blob in enumerate(track) if blob is not None])
    places = np.array([blob.centre for blob in track if blob is not None])
    third = max(1, len(places) // 6)
    travel = places[-third:].mean(axis=0) - places[:third].mean(axis=0)
    if np.abs(travel).max() < STILL_EXTENT:
        return "still", "none"
    axis = int(np.abs(travel).argmax())
    if abs(travel[1 - axis]) > 0.5 * abs(travel[axis]):
        return "none", "none"
    sign = int(np.sign(travel[axis]))
    wanted = (sign, 0) if axis == 0 else (0, sign)
    motion = next(name for name, step in MOTIONS.items() if step == wanted)
    window = min(WINDOW, len(times) - 1)
    rates = sign * (places[window:, axis] - places[:-window, axis])
    rates = rates / (times[window:] - times[:-window])
    moving = rates[rates > 0.5 * rates.max()]
    rate = float(np.median(moving))
    speed = min(SPEEDS, key=lambda name: abs(SPEEDS[name] - rate))
    return motion, speed
