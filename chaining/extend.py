"""Extending a video that exists: its end becomes the first clip of a chain, which goes on from it.

The frames up to the one that it continues from are shown as they are in the file; the new ones are
brought to the file's size. Sound is cut and laid down in `sound`.
"""

# f frames  r rows  w columns  c channels
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chaining.assemble import joined
from chaining.capabilities import Capability
from chaining.files import file_hash
from chaining.lengths import Lengths
from chaining.maker import Ask, ClipMaker, Made
from chaining.sound import holds_sound
from chaining.takes import Take
from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest, Unsupported
from vidgen.events import Callback, CancelToken
from vidgen.media import VideoInfo, fit_image, probe_video, read_frame, read_video

Float = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Original:
    """A video, and up to where it is kept.

    kept  number of its frames that stay, from the first on; the chain goes on from the last of them
    """

    path: Path
    info: VideoInfo
    kept: int

    @property
    def prompt(self) -> str:
        """What stands for a prompt where its end is the clip of a chain."""
        return f"(frames up to {self.kept - 1} of {self.path.name})"

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same when the chain is taken up again, JSON-ready."""
        return {"sha256": file_hash(self.path), "from_frame": self.kept - 1}

    def last_frame(self) -> Float:
        """Return the frame that the chain goes on from, at the file's size."""
        return read_frame(self.path, self.kept - 1)

    def num_opening(self, lengths: Lengths) -> int:
        """Return how many of its frames the first clip has: as many as fit into a legal clip."""
        most = min(self.kept, lengths.most)
        return max(1, (most - 1) // lengths.step) * lengths.step + 1

    def opening(self, count: int, size: tuple[int, int]) -> Float:
        """Return its last frames, brought to a size; a video of fewer begins with copies."""
        start = max(0, self.kept - count)
        width, height = size
        frames = [
            fit_image(frame_rwc, width, height, "stretch")
            for chunk_frwc in read_video(self.path, start=start, stop=self.kept)
            for frame_rwc in chunk_frwc
        ]
        return np.stack([frames[0]] * (count - len(frames)) + frames)


def open_original(
    path: Path, from_frame: int | None = None, from_seconds: float | None = None
) -> Original:
    """Look at a video and find the frame that it is continued from.

    from_frame    number of that frame, from 0 on
    from_seconds  time at which that frame is shown
    Without both it is the last one.
    Raises  BadRequest (both, or no such frame), Unsupported (variable rate, wide colours),
            NotFound, BadMedia
    """
    info = probe_video(path)
    if info.variable_rate:
        raise Unsupported(
            f"{path.name} has a variable frame rate (on average {float(info.fps):.3f}), which "
            f"cannot be continued; make it steady with `vidgen finish {path.name} --crf 12`."
        )
    if info.transfer in ("smpte2084", "arib-std-b67") or info.matrix == "bt2020":
        raise Unsupported(
            f"{path.name} has colours of high dynamic range, which models do not make; convert it "
            "to bt709 first."
        )
    return Original(path, info, 1 + _frame(path, info, from_frame, from_seconds))


def _frame(path: Path, info: VideoInfo, frame: int | None, seconds: float | None) -> int:
    last = info.num_frames - 1
    if frame is not None and seconds is not None:
        raise BadRequest("from_frame and from both say where to go on; give one of them.")
    if seconds is not None:
        length = info.num_frames / info.fps
        at = Fraction(seconds).limit_denominator(100000) if math.isfinite(seconds) else -1
        if not 0 <= at <= length:
            raise BadRequest(
                f"from={seconds:g} s is not in {path.name}, which lasts {float(length):.3f} s.",
                field="from",
            )
        return min(last, int(at * info.fps))
    if frame is not None and not 0 <= frame <= last:
        raise BadRequest(
            f"from_frame={frame} is not in {path.name}; its frames are 0 to {last}.",
            field="from_frame",
        )
    return last if frame is None else frame


def adjustments(
    original: Original, size: tuple[int, int], fps: Fraction, profile: str
) -> tuple[Adjustment, ...]:
    """Say what had to differ between a file and the clips that continue it, or the new file.

    size     that is generated; fps of the model's own recipe
    profile  of the new file
    """
    info = original.info
    found = list(info.assumptions)
    if info.rotation or info.orientation != 1:
        why = "frames are turned upright, and the new file needs no such tag"
        found.append(Adjustment("rotation", info.rotation, 0, why))
    if (info.width, info.height) != size:
        change = (size[0] / size[1]) / (info.width / info.height)
        bent = (
            "" if abs(change - 1) < 5e-4 else f", which the model sees {change:.3f} times as wide"
        )
        why = f"the model's size{bent}; new frames are brought back to the file's"
        asked = f"{info.width}x{info.height}"
        found.append(Adjustment("size", asked, f"{size[0]}x{size[1]}", why))
    if info.fps != fps:
        why = (
            f"the file's rate; the model's own is {fps}, so motion is {float(info.fps / fps):.2f} "
        )
        found.append(Adjustment("fps", str(fps), str(info.fps), f"{why}times as fast"))
    if original.kept < info.num_frames:
        why = "what comes after the frame that it is continued from is cut off"
        found.append(Adjustment("num_frames", info.num_frames, original.kept, why))
    if info.has_audio and not holds_sound(profile):
        found.append(Adjustment("audio", "keep", "drop", f"{profile} holds no sound"))
    return tuple(found)


class Continuing:
    """A maker whose first clip is the end of a video; all others come from another maker."""

    def __init__(self, maker: ClipMaker, original: Original) -> None:
        self._maker = maker
        self._original = original

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What clips can be conditioned on."""
        return self._maker.capabilities

    @property
    def lengths(self) -> Lengths:
        """Legal clip lengths."""
        return self._maker.lengths

    @property
    def fps(self) -> Fraction:
        """Frames per second."""
        return self._maker.fps

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of a frame."""
        return self._maker.size

    @property
    def export_size(self) -> tuple[int, int]:
        """Width and height of the other maker's file."""
        return self._maker.export_size

    @property
    def identity(self) -> dict[str, Any]:
        """What the other maker says, and the video."""
        return {**self._maker.identity, "extends": self._original.identity}

    def picture(self, path: str) -> Float:
        """Read a picture as the other maker does."""
        return self._maker.picture(path)

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        """Return the video's end for the first clip, and make the others."""
        if ask.prompt == self._original.prompt:
            return Made(self._original.opening(ask.num_frames, self.size))
        return self._maker.make(ask, on, cancel)


@dataclass(frozen=True, slots=True, eq=False)
class Extended:
    """A video and what was made to follow it.

    takes  of the chain, the first of which is the original's end
    """

    original: Original
    takes: tuple[Take, ...]

    @property
    def kept(self) -> int:
        """Frames of the original; fewer where an earlier, sharper one is handed over."""
        opening = self.takes[0]
        return self.original.kept - (opening.plan.num_frames - opening.ends)

    @property
    def num_frames(self) -> int:
        """Frames of the whole."""
        last = self.takes[-1]
        return self.kept + last.first + last.ends - self.takes[0].ends

    def frames(self, how: str) -> Iterator[Float]:
        """Yield all frames at the file's size, a few at a time.

        how  cut, linear or ease, for frames that two new clips have both
        """
        yield from read_video(self.original.path, stop=self.kept)
        info, skip = self.original.info, self.takes[0].ends
        for chunk_frwc in joined(self.takes, how):
            new_frwc = chunk_frwc[skip:]
            skip -= min(skip, len(chunk_frwc))
            if len(new_frwc):
                yield np.stack([
                    fit_image(frame_rwc, info.width, info.height, "stretch")
                    for frame_rwc in new_frwc
                ])  # fmt: skip


def extended_recipe(recipe: dict[str, Any], extended: Extended) -> dict[str, Any]:
    """Return a chain's recipe as that of the whole file.

    recipe  as `chaining.recipe` made it; its clips are counted from the start of the chain
    """
    shift = extended.kept - extended.takes[0].ends
    first, *others = recipe["chain"]["clips"]
    clips = [
        {**first, "start": 0, "stop": extended.kept},
        *(
            {**clip, "start": clip["start"] + shift, "stop": clip["stop"] + shift}
            for clip in others
        ),
    ]
    original = extended.original
    about = {"file": original.path.name, **original.identity, "kept": extended.kept}
    return {**recipe, "chain": {"clips": clips}, "extends": about}
