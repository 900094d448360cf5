"""Budgets: how one mean density is divided among the heads of a model. Plain data, no torch.

Some heads look at a few keys, some at many. A budgets file holds, for each head, how much of its
attention the best blocks hold at several densities; from that any mean density is divided so that
the most attention is kept.
"""

import json
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from attention import Grid
from vidgen.errors import BadRequest, NotFound
from vidgen.media.disk import part_of

FORMAT = 1
BUDGETS_FILE = "budgets.json"  # in a model's folder: its own budgets
LEAST, MOST = 0.5, 4.0  # a head's density over the mean
DENSITIES = (1 / 64, 1 / 32, 3 / 64, 1 / 16, 3 / 32, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)


@dataclass(frozen=True, slots=True)
class Recall:
    """How much of each head's attention is kept, on one grid.

    weights    fingerprint of the model's; other weights refuse the file
    grid       tokens, as frames x rows x columns
    densities  rising, 0..1
    kept       [row][head][density] shares, 0..1, at `densities`; one row for each self-attention of
               the model: of each expert its layers, then VACE's control blocks; one that stays
               dense has an empty row and no part in the mean
    """

    model: str
    weights: str
    grid: str
    query_block: int
    key_block: int
    densities: tuple[float, ...]
    kept: tuple[tuple[tuple[float, ...], ...], ...]


def divide(recall: Recall, density: float) -> tuple[tuple[float, ...], ...]:
    """Return a density for each layer and head whose mean is `density`.

    Every head gets at least LEAST and at most MOST times the mean; what is left goes, piece by
    piece, to whoever gains most by it.
    """
    low, high = min(1.0, LEAST * density), min(1.0, MOST * density)
    heads = [(layer, head) for layer, row in enumerate(recall.kept) for head in range(len(row))]
    given = dict.fromkeys(heads, low)
    left = (density - low) * len(heads)
    pieces = sorted(
        (
            (-slope, place, start, end)
            for place in heads
            for slope, start, end in _slopes(recall, *place, low, high)
        ),
    )
    for _, place, start, end in pieces:
        if left <= 0:
            break
        take = min(end - start, left)
        given[place] += take
        left -= take
    return tuple(
        tuple(min(1.0, given[layer, head]) for head in range(len(row)))
        for layer, row in enumerate(recall.kept)
    )


def _slopes(
    recall: Recall, layer: int, head: int, low: float, high: float
) -> list[tuple[float, float, float]]:
    """Return (gain per density, from, to) of a head between two densities, gains falling."""
    known = list(zip(recall.densities, recall.kept[layer][head], strict=True))
    inside = [(x, y) for x, y in known if low < x < high]
    points = [(low, _at(known, low)), *inside, (high, _at(known, high))]
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _gain(hull[-1], point) >= _gain(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    return [(_gain(a, b), a[0], b[0]) for a, b in pairwise(hull) if b[0] > a[0]]


def _gain(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (b[1] - a[1]) / (b[0] - a[0]) if b[0] > a[0] else 0.0


def _at(known: list[tuple[float, float]], x: float) -> float:
    """Return a curve's value, straight between what is known; nothing is kept at 0."""
    points = [(0.0, 0.0), *known]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def save_budgets(path: Path, recalls: list[Recall]) -> None:
    """Write a budgets file, whole or not at all."""
    content = {"vidgen_budgets": FORMAT, "grids": [asdict(recall) for recall in recalls]}
    part = part_of(path)
    try:
        part.write_text(json.dumps(content) + "\n", "utf-8")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def load_budgets(path: Path) -> list[Recall]:
    """Read a budgets file.

    Raises  NotFound, BadRequest
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        if content["vidgen_budgets"] != FORMAT:
            raise ValueError(f"its format is {content['vidgen_budgets']}, not {FORMAT}")
        return [_recall(item) for item in content["grids"]]
    except FileNotFoundError:
        raise NotFound(f"The budgets file {path} does not exist.", field="budgets") from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not a budgets file ({error}); make one with `vidgen budgets`.",
            field="budgets",
        ) from None


def _recall(item: dict[str, Any]) -> Recall:
    kept = tuple(
        tuple(tuple(float(share) for share in head) for head in layer) for layer in item["kept"]
    )
    densities = tuple(float(density) for density in item["densities"])
    shares = [share for layer in kept for head in layer for share in head]
    if not all(0 <= share <= 1.001 for share in shares) or list(densities) != sorted(densities):
        raise ValueError("its shares are not within 0..1 or its densities do not rise")
    if any(len(head) != len(densities) for layer in kept for head in layer):
        raise ValueError("a head has not as many shares as there are densities")
    return Recall(
        model=str(item["model"]),
        weights=str(item["weights"]),
        grid=str(item["grid"]),
        query_block=int(item["query_block"]),
        key_block=int(item["key_block"]),
        densities=densities,
        kept=kept,
    )


def recall_for(
    recalls: list[Recall], model: str, grid: Grid, query_block: int, key_block: int
) -> Recall | None:
    """Return the entry of a model, grid and block size, None if there is none."""
    for recall in recalls:
        blocks = (recall.query_block, recall.key_block)
        if (recall.model, recall.grid, blocks) == (model, str(grid), (query_block, key_block)):
            return recall
    return None
