"""The tally: readings counted against what was asked, with intervals, confusions and chance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from benchmarks.train.detector import Reading
from benchmarks.train.world import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, SIZES, SPEEDS, Scene

ATTRIBUTES = tuple(field.name for field in fields(Scene))
READ = ("background", "colour", "shape", "size", "direction", "speed", "motion")
# A blind guess among the values; direction is guessed where the object should move.
CHANCE = {
    "background": 1 / len(BACKGROUNDS),
    "colour": 1 / len(COLOURS),
    "shape": 1 / len(SHAPES),
    "size": 1 / len(SIZES),
    "direction": 1 / (len(MOTIONS) - 1),
    "speed": 1 / len(SPEEDS),
    "motion": 1 / len(MOTIONS),
}


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a share, 95 % by default."""
    if total == 0:
        return 0.0, 1.0
    share = hits / total
    centre = share + z * z / (2 * total)
    spread = z * np.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    return max(0.0, float((centre - spread) / scale)), min(1.0, float((centre + spread) / scale))


def tally(scenes: Sequence[Scene], readings: Sequence[Reading]) -> dict[str, Any]:
    """Hits per attribute with Wilson intervals, and what each shape was read as.

    Direction and speed count clips that should move; a motionless clip has none to read.
    """
    pairs = list(zip(scenes, readings, strict=True))
    moving = [(scene, reading) for scene, reading in pairs if scene.motion != "still"]
    table: dict[str, Any] = {}
    for name in (*ATTRIBUTES, "direction"):
        counted = moving if name in ("speed", "direction") else pairs
        field = "motion" if name == "direction" else name
        asked = [getattr(scene, field) for scene, _ in counted]
        read = [getattr(reading, field) for _, reading in counted]
        hits = sum(one == other for one, other in zip(asked, read, strict=True))
        table[name] = {
            "hits": hits,
            "of": len(counted),
            "share": hits / max(1, len(counted)),
            "interval": list(wilson(hits, len(counted))),
            "chance": max(CHANCE[name], _most_common_share(asked)),
        }
    extra = [reading.spurious for reading in readings]
    table["spurious per clip"] = float(np.mean(extra)) if extra else 0.0
    table["shape confusion"] = confusion(
        [scene.shape for scene in scenes], [reading.shape for reading in readings], SHAPES
    )
    return table


def confusion(
    asked: Sequence[str], read: Sequence[str], names: Sequence[str]
) -> dict[str, dict[str, int]]:
    """How often each value asked for was read as which value or as "none"."""
    counts = Counter(zip(asked, read, strict=True))
    return {one: {other: counts[one, other] for other in (*names, "none")} for one in names}


def above_chance(table: dict[str, Any]) -> list[str]:
    """The attributes read right more often than a blind guess explains."""
    return [name for name in READ if table[name]["interval"][0] > table[name]["chance"]]


def _most_common_share(asked: Sequence[str]) -> float:
    """What the best constant answer would score."""
    return max(Counter(asked).values()) / len(asked) if asked else 0.0
