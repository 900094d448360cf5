"""The toy world: what a scene is, which scenes are held out, and how a scene becomes pixels.

Captions live in `captions.py`, the reading of pixels back into a scene in `detector.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

# f frames  r rows  c columns; all lengths in pixels, all colours in sRGB 0..1

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.90, 0.12, 0.12),
    "green": (0.10, 0.78, 0.22),
    "blue": (0.12, 0.30, 0.96),
    "yellow": (0.98, 0.86, 0.08),
    "purple": (0.66, 0.14, 0.86),
    "white": (0.97, 0.97, 0.97),
}
SHAPES = ("ball", "cube", "star")
SIZES: dict[str, float] = {"small": 15.0, "big": 22.0}
MOTIONS: dict[str, tuple[int, int]] = {
    "left": (-1, 0),
    "right": (1, 0),
    "up": (0, -1),
    "down": (0, 1),
    "still": (0, 0),
}
SPEEDS: dict[str, float] = {"slowly": 2.2, "quickly": 4.4}
# Muted on purpose: chroma below every object's darkest side, so that thresholds can be exact.
BACKGROUNDS: dict[str, tuple[float, float, float]] = {
    "grass": (0.32, 0.42, 0.26),
    "sand": (0.69, 0.60, 0.43),
    "night": (0.06, 0.07, 0.18),
    "brick": (0.44, 0.32, 0.28),
}

FPS = 16
BASE_SHAPE = (17, 96, 96)
HELD_OUT_SHARE = 0.15
END_MARGIN = 12.0  # an object's centre comes no nearer to the edge along its path
SIDE_MARGIN = 22.0  # nor across its path, so that in mid-path the whole object shows

Video = NDArray[np.float32]
Picture = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Scene:
    """One object on one background: the attributes a caption names.

    speed is "none" if and only if motion is "still".
    """

    colour: str
    shape: str
    size: str
    motion: str
    speed: str
    background: str

    def key(self) -> str:
        """Name of the attribute combination, used for the held-out hash."""
        return "/".join(
            (self.colour, self.shape, self.size, self.motion, self.speed, self.background)
        )


@dataclass(frozen=True, slots=True)
class Path:
    """Where the object's centre is in each frame, and the phase of the background's texture.

    centre_f2   float32, columns x and y in pixels
    phase       0..1, shifts the texture
    """

    centre_f2: NDArray[np.float32]
    phase: float


def all_scenes() -> list[Scene]:
    """Every attribute combination, in a fixed order (1,296 of them)."""
    moves = [(m, s) for m in MOTIONS if m != "still" for s in SPEEDS] + [("still", "none")]
    return [
        Scene(colour, shape, size, motion, speed, background)
        for colour, shape, size, (motion, speed), background in product(
            COLOURS, SHAPES, SIZES, moves, BACKGROUNDS
        )
    ]


def is_held_out(scene: Scene) -> bool:
    """True for the 15 % of combinations that training never renders; a pure hash of the names."""
    digest = hashlib.sha256(scene.key().encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 < HELD_OUT_SHARE


def training_scenes() -> list[Scene]:
    """The combinations that training may render."""
    return [scene for scene in all_scenes() if not is_held_out(scene)]


def held_out_scenes() -> list[Scene]:
    """The combinations kept for evaluation."""
    return [scene for scene in all_scenes() if is_held_out(scene)]


def draw_scene(rng: np.random.Generator, scenes: list[Scene]) -> Scene:
    """Pick a scene; "still" scenes are drawn as often as any one direction.

    They have one speed where directions have two, so each weighs twice.
    """
    weights = np.array([2.0 if scene.motion == "still" else 1.0 for scene in scenes])
    return scenes[int(rng.choice(len(scenes), p=weights / weights.sum()))]


def draw_path(
    rng: np.random.Generator, scene: Scene, shape: tuple[int, int, int] = BASE_SHAPE
) -> Path:
    """Choose a starting place from which the path fits the canvas.

    shape       (frames, height, width)
    On canvases too short for the path the object runs to the far edge and rests there, so that
    the direction in the caption stays true.
    """
    num_frames, height, width = shape
    step = np.array(MOTIONS[scene.motion], np.float32) * SPEEDS.get(scene.speed, 0.0)
    low = np.full(2, SIDE_MARGIN, np.float32)
    high = np.array([width, height], np.float32) - SIDE_MARGIN
    start = rng.uniform(low, high).astype(np.float32)
    axis = int(np.argmax(np.abs(step)))
    if step[axis] != 0.0:
        near, far = END_MARGIN, float((width, height)[axis]) - END_MARGIN
        length = min(abs(float(step[axis])) * (num_frames - 1), far - near)
        slack = rng.uniform(0.0, far - near - length)
        start[axis] = near + slack if step[axis] > 0 else far - slack
    centre_f2 = start + np.arange(num_frames, dtype=np.float32)[:, None] * step
    if step[axis] != 0.0:
        centre_f2[:, axis] = np.clip(centre_f2[:, axis], near, far)
    return Path(centre_f2.astype(np.float32), float(rng.uniform()))


def signed_distance(
    shape: str, radius: float, x: NDArray[np.float32], y: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Distance in pixels to the silhouette of an object centred at 0, negative inside."""
    if shape == "ball":
        return np.hypot(x, y) - np.float32(radius)
    if shape == "cube":
        half = np.float32(0.9 * radius)
        return np.maximum(np.abs(x), np.abs(y)) - half
    return _star_distance(np.float32(1.25 * radius), np.float32(0.60 * radius), x, y)


def render(scene: Scene, path: Path, shape: tuple[int, int, int] = BASE_SHAPE) -> Video:
    """Draw the clip: float32 [frames, height, width, 3] in 0..1."""
    num_frames, height, width = shape
    backdrop = _background(scene.background, path.phase, height, width)
    video = np.repeat(backdrop[None], num_frames, axis=0)
    radius = SIZES[scene.size]
    reach = int(1.25 * radius) + 8
    for frame, (cx, cy) in zip(video, path.centre_f2, strict=True):
        left, right = max(0, int(cx) - reach), min(width, int(cx) + reach + 1)
        top, bottom = max(0, int(cy) - reach), min(height, int(cy) + reach + 1)
        y = (np.arange(top, bottom, dtype=np.float32) + 0.5 - cy)[:, None]
        x = (np.arange(left, right, dtype=np.float32) + 0.5 - cx)[None, :]
        box = frame[top:bottom, left:right]
        shade = np.clip(0.5 - signed_distance(scene.shape, radius, x - 3, y - 5) / 6, 0, 1)
        box *= 1 - 0.35 * shade[..., None]
        cover = np.clip(0.5 - signed_distance(scene.shape, radius, x, y), 0, 1)[..., None]
        box *= 1 - cover
        box += cover * _surface(scene, radius, x, y)
    return np.clip(video, 0, 1).astype(np.float32, copy=False)


def cover(
    scene: Scene, path: Path, shape: tuple[int, int, int] = BASE_SHAPE
) -> NDArray[np.float32]:
    """Share of each latent pixel that the object covers, [f, height / 8, width / 8] in 0..1.

    The first latent frame is the first frame, each further one the mean of four.
    """
    _, height, width = shape
    y = np.arange(2, height, 4, dtype=np.float32)[None, :, None]
    x = np.arange(2, width, 4, dtype=np.float32)[None, None, :]
    cx, cy = path.centre_f2[:, 0, None, None], path.centre_f2[:, 1, None, None]
    inside = signed_distance(scene.shape, SIZES[scene.size], x - cx, y - cy) < 0
    per_frame = inside.reshape(len(inside), height // 8, 2, width // 8, 2).mean(axis=(2, 4))
    later = per_frame[1:].reshape(-1, 4, *per_frame.shape[1:]).mean(axis=1)
    return np.concatenate([per_frame[:1], later]).astype(np.float32)


def background_mean(name: str) -> Picture:
    """Mean colour of a background, the reference the detector compares with."""
    mean: Picture = _background(name, 0.0, 96, 96).mean(axis=(0, 1))
    return mean


def _star_distance(
    outer: np.float32, inner: np.float32, x: NDArray[np.float32], y: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Distance to the nearest edge line of a five-pointed star with one tip up."""
    wedge = np.float32(2 * np.pi / 5)
    angle = np.arctan2(x, -y)
    folded = np.abs((angle + wedge / 2) % wedge - wedge / 2)
    radial = np.hypot(x, y)
    px, py = radial * np.cos(folded), radial * np.sin(folded)
    notch_x, notch_y = inner * np.cos(wedge / 2), inner * np.sin(wedge / 2)
    edge_x, edge_y = notch_x - outer, notch_y
    normal = np.hypot(edge_x, edge_y)
    distance: NDArray[np.float32] = (-(px - outer) * edge_y + py * edge_x) / -normal
    return distance.astype(np.float32)


def _surface(
    scene: Scene, radius: float, x: NDArray[np.float32], y: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Colour of the object's lit surface over its box, [rows, columns, 3]."""
    colour = np.array(COLOURS[scene.colour], np.float32)
    if scene.shape == "ball":
        light = 1.0 - 0.28 * np.clip((x + y) / (1.4 * radius), -0.2, 1)
        gloss = np.exp(-((x + 0.4 * radius) ** 2 + (y + 0.4 * radius) ** 2) / (0.08 * radius**2))
        shine = 0.5 * gloss[..., None]
        return np.asarray(light[..., None] * colour + shine * (1 - colour), np.float32)
    if scene.shape == "cube":
        top = np.clip(-0.45 * radius - y + 0.5, 0, 1)
        side = np.clip(x - 0.4 * radius + 0.5, 0, 1) * (1 - top)
        light = 1.0 - 0.28 * side
        face = 0.28 * top[..., None]
        return np.asarray(light[..., None] * colour + face * (1 - colour), np.float32)
    light = np.broadcast_to(1.0 - 0.10 * (y > 0), np.broadcast_shapes(x.shape, y.shape))
    return (light[..., None] * colour).astype(np.float32)


def _background(name: str, phase: float, height: int, width: int) -> NDArray[np.float32]:
    """Texture of the ground lit from the top left, [height, width, 3].

    The light falls off over the whole canvas: it is what tells a place on the canvas from another.
    """
    y = np.arange(height, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)[None, :]
    turn = np.float32(2 * np.pi * phase)
    base = np.array(BACKGROUNDS[name], np.float32)
    fall = 0.5 - 0.65 * y / height - 0.35 * x / width
    if name == "night":
        star = (np.cos((x + 2 * y) * 0.37 + turn) + np.cos((2 * x - y) * 0.29 + turn)) / 2
        sky = base - fall[..., None] * np.array((0.05, 0.06, 0.16), np.float32)
        stars = 1.25 * np.clip(star - 0.8, 0, 1)
        return np.asarray(sky + stars[..., None], np.float32)
    light = 1.0 + 0.40 * fall
    if name == "grass":
        light = light * (1 + 0.07 * np.sin(0.5 * x + turn + np.sin(0.26 * y)))
    elif name == "sand":
        light = light * (1 + 0.05 * np.sin(0.42 * y + 0.8 * np.sin(0.09 * x + turn)))
    else:
        row = np.floor((y + 16 * phase) / 16)
        seam_y = np.abs((y + 16 * phase) % 16 - 8) > 6.5
        seam_x = np.abs((x + 12 * (row % 2)) % 24 - 12) > 10.5
        light = light * np.where(seam_y | seam_x, 1.15, 1.0)
    return (light[..., None] * base).astype(np.float32)
