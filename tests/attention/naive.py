"""Attention token by token in float64, for tests that write a published formula out."""

import itertools
import math

import torch
from torch import Tensor

Box = list[int]


def boxes_of(extents: tuple[int, int, int], sides: tuple[int, int, int]) -> list[Box]:
    """Return the raster numbers of the tokens of every box, boxes and tokens in raster order."""
    counts = [math.ceil(extent / side) for extent, side in zip(extents, sides, strict=True)]
    boxes: list[Box] = []
    for corner in itertools.product(*(range(count) for count in counts)):
        box = []
        for offset in itertools.product(*(range(side) for side in sides)):
            place = [c * s + o for c, s, o in zip(corner, sides, offset, strict=True)]
            if all(p < extent for p, extent in zip(place, extents, strict=True)):
                frame, row, column = place
                box.append((frame * extents[1] + row) * extents[2] + column)
        boxes.append(box)
    return boxes


def mean(x_nd: Tensor, box: Box) -> Tensor:
    total = torch.zeros(x_nd.shape[-1], dtype=torch.float64)
    for token in box:
        total += x_nd[token]
    return total / len(box)


def attend_one(q_d: Tensor, k_nd: Tensor, v_nd: Tensor, tokens: list[int]) -> Tensor:
    """Return softmax attention of one query over some tokens."""
    weights = [math.exp(float(q_d @ k_nd[token]) / math.sqrt(len(q_d))) for token in tokens]
    total = torch.zeros(v_nd.shape[-1], dtype=torch.float64)
    for weight, token in zip(weights, tokens, strict=True):
        total += weight * v_nd[token]
    return total / sum(weights)


def best(scores: list[float], count: int) -> list[int]:
    """Return the places of the highest scores; of equals the first."""
    return sorted(sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:count])


def shares(scores: list[float]) -> list[float]:
    """Return the softmax of some scores."""
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def some(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
