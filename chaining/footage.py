"""Video files for the drift meter: where their clips begin, and their frames clip by clip."""

# f frames  r rows  w columns  c red, green, blue
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from chaining.drift.arrays import Float
from chaining.drift.features import KINDS
from vidgen.errors import BadMedia, BadRequest
from vidgen.media import VideoInfo, probe_video, read_recipe, read_video

_LOSSLESS: Final = frozenset({"ffv1", "rawvideo", "png", "apng", "huffyuv", "ffvhuff", "utvideo",
                              "magicyuv", "qtrle", "v210", "v410"})  # fmt: skip
_CHUNK_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Clips:
    """Where the clips of a video lie.

    lengths  frames of each, end to end; kinds how each follows the one before
    found    by what: "length", "recipe", "cuts" or "whole" (one piece)
    notes    what had to be decided, one sentence each
    """

    lengths: tuple[int, ...]
    kinds: tuple[str, ...]
    found: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Footage:
    """A video file and its clips.

    fps   what the meter is told, the file's own rate unless another was named
    kind  png (a lossless codec) or lossy
    """

    path: Path
    info: VideoInfo
    fps: float
    kind: str
    clips: Clips

    def pieces(self, watch: Callable[[int], None] | None = None) -> Iterator[Iterator[Float]]:
        """Yield each clip as an iterator of chunks, float32 sRGB (f, r, w, 3), read as they are
        asked for; take each clip in whole before the next one.

        watch  called with the number of frames read so far
        """
        for _, group in groupby(self._cut(watch), key=itemgetter(0)):
            yield (chunk for _, chunk in group)

    def _cut(self, watch: Callable[[int], None] | None) -> Iterator[tuple[int, Float]]:
        """Yield (clip, chunk); no chunk reaches over a boundary."""
        clip, left, done = 0, self.clips.lengths[0], 0
        for chunk in chunks_of(self.path, self.info, watch):
            rest = chunk
            while len(rest):
                if left == 0:
                    clip += 1
                    left = self.clips.lengths[clip]
                part, rest = rest[:left], rest[left:]
                left -= len(part)
                done += len(part)
                yield clip, part


def chunks_of(
    path: Path, info: VideoInfo, watch: Callable[[int], None] | None = None
) -> Iterator[Float]:
    """Yield a video's frames in chunks of at most 16 frames or 64 MiB.

    watch  called with the number of frames read so far, before each chunk is given out
    """
    fit = _CHUNK_BYTES // (info.width * info.height * 12)
    done = 0
    for chunk in read_video(path, chunk=int(min(16, max(1, fit)))):
        done += len(chunk)
        if watch is not None:
            watch(done)
        yield chunk


def open_footage(
    path: str | Path,
    *,
    clip_frames: int | None = None,
    clip_seconds: float | None = None,
    cuts: bool = False,
    fps: float | None = None,
    watch: Callable[[int], None] | None = None,
) -> Footage:
    """Open a video and find its clips.

    clip_frames, clip_seconds  every clip's length; a rest shorter than half a clip joins the last
    cuts    look for hard cuts; each scene becomes a clip of its own
    fps     frames per second where the file's own rate is wrong
    watch   called with the frames read so far while cuts are looked for
    With none of them the clips are those of the chain's recipe in the file; without one the video
    is a single clip, which has contrasts of start and end but no slopes.
    Raises  BadRequest (options that do not fit), NotFound, BadMedia
    """
    _check_options(clip_frames, clip_seconds, cuts, fps)
    file = Path(path)
    info = probe_video(file)
    rate = float(info.fps) if fps is None else fps
    if clip_seconds is not None:
        clip_frames = round(clip_seconds * rate)
        if clip_frames < 1:
            raise BadRequest(
                f"--clip-seconds {clip_seconds:g} is less than a frame at {rate:g} frames per "
                f"second; use {1 / rate:.3g} or more."
            )
    if clip_frames is not None:
        clips = _by_length(clip_frames, info.num_frames, file.name)
    elif cuts:
        clips = _by_cuts(chunks_of(file, info, watch), info.num_frames)
    else:
        clips = _by_recipe(file, info.num_frames) or _whole(info.num_frames)
    return Footage(file, info, rate, "png" if _is_lossless(info) else "lossy", clips)


def _check_options(
    clip_frames: int | None, clip_seconds: float | None, cuts: bool, fps: float | None
) -> None:
    given = [
        name
        for name, there in (
            ("--clip-frames", clip_frames is not None),
            ("--clip-seconds", clip_seconds is not None),
            ("--cuts", cuts),
        )
        if there
    ]
    if len(given) > 1:
        raise BadRequest(f"{' and '.join(given)} both say where clips begin; give one of them.")
    if clip_frames is not None and clip_frames < 1:
        raise BadRequest(f"--clip-frames {clip_frames} holds no frame; use 1 or more.")
    if clip_seconds is not None and not 0 < clip_seconds < float("inf"):
        raise BadRequest(f"--clip-seconds {clip_seconds:g} is no length; use more than 0.")
    if fps is not None and not 0 < fps <= 1000:
        raise BadRequest(f"--fps {fps:g} is no frame rate; use more than 0, up to 1000.")


def _by_length(length: int, num_frames: int, name: str) -> Clips:
    if length > num_frames:
        raise BadRequest(
            f"A clip of {length} frames is longer than {name}, which has {num_frames}; "
            f"name a length up to {num_frames}."
        )
    lengths = [length] * (num_frames // length)
    rest = num_frames % length
    notes: tuple[str, ...] = ()
    if rest and 2 * rest < length:
        lengths[-1] += rest
        notes = (f"The last clip has {lengths[-1]} frames, as {rest} more make no clip.",)
    elif rest:
        lengths.append(rest)
        notes = (f"The last clip has {rest} frames.",)
    return Clips(tuple(lengths), ("continue",) * len(lengths), "length", notes)


def _by_cuts(chunks: Iterable[Float], num_frames: int) -> Clips:
    from chaining.cuts import find_cuts

    ends = [*find_cuts(chunks), num_frames]
    starts = [0, *ends[:-1]]
    lengths = tuple(end - start for start, end in zip(starts, ends, strict=True))
    kinds = ("continue", *("cut" for _ in lengths[1:]))
    count = len(lengths) - 1
    told = "1 hard cut was" if count == 1 else f"{count or 'No'} hard cuts were"
    note = (
        f"{told} found by comparing pictures and histograms; "
        "nothing is compared over a cut, so that there are no slopes."
    )
    return Clips(lengths, kinds, "cuts", (note,))


def _whole(num_frames: int) -> Clips:
    note = (
        "Where clips begin is not known, so that there are no slopes; "
        "name --clip-frames or --clip-seconds."
    )
    return Clips((num_frames,), ("continue",), "whole", (note,))


def _by_recipe(file: Path, num_frames: int) -> Clips | None:
    """Return the clips that the recipe in the file names, None if it names none."""
    text = read_recipe(file)
    try:
        recipe = json.loads(text) if text is not None else {}
    except (ValueError, RecursionError):
        return None
    chain = recipe.get("chain") if isinstance(recipe, dict) else None
    if not isinstance(chain, dict) or "clips" not in chain:
        return None
    lengths, kinds = _read_clips(chain["clips"], file.name)
    if sum(lengths) != num_frames:
        raise BadMedia(
            f"The recipe of {file.name} names {sum(lengths)} frames of clips, but the file has "
            f"{num_frames}: it was cut or changed since; name --clip-frames."
        )
    return Clips(lengths, kinds, "recipe")


def _read_clips(rows: Any, name: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    try:
        starts = [int(row["start"]) for row in rows]
        stops = [int(row["stop"]) for row in rows]
        kinds = tuple(str(row["kind"]) for row in rows)
    except (LookupError, TypeError, ValueError, OverflowError):
        starts, stops, kinds = [], [], ()
    sound = starts[:1] == [0] and starts[1:] == stops[:-1] and set(kinds) <= set(KINDS)
    lengths = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
    if not sound or min(lengths) < 1:
        raise BadMedia(
            f"The recipe of {name} is damaged where it names the clips; name --clip-frames."
        )
    return lengths, kinds


def _is_lossless(info: VideoInfo) -> bool:
    """Say whether a file holds the pixels that were written: a lossless codec, chroma in full."""
    return info.codec in _LOSSLESS and not info.pixel_format.startswith(("yuv420", "yuv422"))
