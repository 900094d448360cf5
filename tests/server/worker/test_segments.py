"""Pieces of a job play alone, one after another, and as a playlist's map and segments."""

import io
from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
import pytest

from server.worker.segments import Segment

LENGTHS = (9, 1, 20)


def clip(count: int, number: int, size: tuple[int, int] = (48, 32)) -> npt.NDArray[np.float32]:
    """Return frames whose grey level tells their number in the video."""
    levels = 0.2 + 0.02 * (number + np.arange(count, dtype=np.float32))
    return np.broadcast_to(levels[:, None, None, None], (count, size[1], size[0], 3)).copy()


def pieces(fps: Fraction) -> tuple[list[bytes], list[bytes]]:
    beginnings, made, first = [], [], 0
    for count in LENGTHS:
        segment = Segment((48, 32), fps, first)
        frames = clip(count, first)
        segment.write(frames[: count // 2])
        segment.write(frames[count // 2 :])
        beginning, piece = segment.close()
        beginnings.append(beginning)
        made.append(piece)
        first += count
    return beginnings, made


def decoded(data: bytes) -> list[tuple[Fraction, float]]:
    """Return time and grey level of each frame."""
    with av.open(io.BytesIO(data), "r") as container:
        found = []
        for frame in container.decode(video=0):
            assert frame.pts is not None
            assert frame.time_base is not None
            grey = float(frame.to_ndarray(format="rgb24").mean() / 255)
            found.append((frame.pts * frame.time_base, grey))
        return found


@pytest.mark.parametrize("fps", [Fraction(16), Fraction(24000, 1001), Fraction(25, 2)])
def test_the_beginning_and_all_pieces_are_one_video(fps: Fraction) -> None:
    beginnings, made = pieces(fps)
    assert len(set(beginnings)) == 1
    frames = decoded(beginnings[0] + b"".join(made))
    assert [time for time, _ in frames] == [number / fps for number in range(sum(LENGTHS))]
    wanted = [0.2 + 0.02 * number for number in range(sum(LENGTHS))]
    assert [grey for _, grey in frames] == pytest.approx(wanted, abs=0.012)


def test_each_piece_plays_alone_at_its_own_time() -> None:
    fps = Fraction(16)
    beginnings, made = pieces(fps)
    frames = decoded(beginnings[2] + made[2])
    assert [time for time, _ in frames] == [number / fps for number in range(10, 30)]


def test_a_piece_holds_the_centre_at_even_size() -> None:
    frames = np.zeros((3, 36, 52, 3), np.float32)
    frames[:, 2:-2, 2:-2] = 0.5
    segment = Segment((49, 33), Fraction(8), 0)
    segment.write(frames)
    data = b"".join(segment.close())
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (48, 32)
        shown = next(container.decode(video=0)).to_ndarray(format="rgb24")
    assert shown.min() > 100
