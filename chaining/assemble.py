"""The delivered video, made from lossless takes, their colour corrections and the joins.

Frames stream: no more than one overlap and a chunk are in memory.
"""

# f frames  r rows  w columns  c channels
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chaining.joins import join
from chaining.takes import Take
from vidgen.media import VideoWriter
from vidgen.recipe import recipe_text

Float = npt.NDArray[np.float32]


def check_output(
    path: Path,
    *,
    size: tuple[int, int],
    fps: Fraction,
    export_size: tuple[int, int],
    profile: str,
    crf: int | None,
) -> None:
    """Raise BadRequest now for a file that could not be written when all clips are made."""
    width, height = size
    VideoWriter(
        path, width=width, height=height, fps=fps, profile=profile, crf=crf, crop=export_size
    )


def assemble(
    takes: Sequence[Take],
    path: Path,
    *,
    how: str,
    fps: Fraction,
    export_size: tuple[int, int],
    profile: str,
    crf: int | None,
    recipe: dict[str, Any],
) -> int:
    """Write a video of takes in the order of the video; return how many frames it has.

    how      cut, linear or ease, for frames that exist twice
    profile  of vidgen.media
    Raises   BadRequest, DoesNotFit
    """
    rows, columns = takes[0].head_rwc.shape[:2]
    writer = VideoWriter(
        path,
        width=columns,
        height=rows,
        fps=fps,
        profile=profile,
        crf=crf,
        recipe=recipe_text(recipe),
        title=takes[0].plan.prompt[:80],
        crop=export_size,
    )
    with writer:
        for frames_frwc in joined(takes, how):
            writer.write(frames_frwc)
    return writer.num_frames


def joined(takes: Sequence[Take], how: str) -> Iterator[Float]:
    """Yield the frames of a video in chunks, each frame once."""
    held_frwc: Float | None = None
    for number, take in enumerate(takes):
        follows = takes[number + 1].plan if number + 1 < len(takes) else None
        hold = 0 if follows is None else follows.mixed
        frames: Iterable[Float] = take.shown(take.plan.overlap - take.plan.mixed)
        if take.plan.mixed:
            assert held_frwc is not None
            frames = _mixed(held_frwc, frames, take.plan.mixed, how)
        held_frwc = None
        for chunk_frwc in frames:
            held_frwc = chunk_frwc if held_frwc is None else np.concatenate([held_frwc, chunk_frwc])
            ready = len(held_frwc) - hold
            if ready > 0:
                yield held_frwc[:ready]
                held_frwc = held_frwc[ready:]


def _mixed(held_frwc: Float, frames: Iterable[Float], count: int, how: str) -> Iterator[Float]:
    """Yield a take's frames, its first ones joined to the last ones of the take before."""
    first: list[Float] = []
    have = 0
    for chunk_frwc in frames:
        if have < count:
            first.append(chunk_frwc)
            have += len(chunk_frwc)
            if have >= count:
                yield join(held_frwc, np.concatenate(first), count, how)
            continue
        yield chunk_frwc
