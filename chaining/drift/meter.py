"""The drift meter: clips in, one after the other; after each, where the chain is heading."""

# f frames  r rows  w columns  c red, green, blue
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from chaining.drift.analysis import analyse
from chaining.drift.arrays import Float
from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures, Label
from chaining.drift.forecast import Forecast
from chaining.drift.judge import failing
from chaining.drift.readings import Reader
from chaining.drift.signals import WIDTH, read_clip
from chaining.drift.thresholds import FLASH, SEAM_LUMA, SEAM_LUMA_Z, SEAM_RATIO, SEAM_Z
from chaining.drift.trend import Slope
from chaining.drift.verdict import FAIL, Verdict, judge_value, worst
from vidgen.errors import BadRequest

CONTINUE, RETRY_SEAM, REBASE, STOP = "continue", "retry_seam", "rebase", "stop"


@dataclass(frozen=True, slots=True)
class DriftState:
    """Where a chain stands after its newest clip.

    clip      that clip's index
    slopes    of the segment it belongs to; empty before the segment's third clip
    forecast  black, white, grey, blur -> clips from now on
    advice    continue, retry_seam (make this clip again with another seed), rebase (go on from a
              clean picture) or stop (the next clip cannot be used); why says the reason
    """

    clip: int
    slopes: dict[str, Slope]
    forecast: dict[str, Forecast]
    verdict: Verdict
    advice: str
    why: str


class DriftMeter:
    """Measures a chain while it grows; knows the features of its clips, never their frames."""

    def __init__(
        self,
        fps: float,
        *,
        width: int = WIDTH,
        requested_clips: int | None = None,
        features: Sequence[ClipFeatures] = (),
        source: str = "float",
    ) -> None:
        """Start a meter.

        width            analysis width in pixels
        requested_clips  how many clips the chain is to have, for forecast and advice
        features         of the clips that are already there, where a chain is taken up again
        source           what frames are read from; see `Source.kind`
        """
        if requested_clips is not None and requested_clips < 1:
            raise BadRequest(f"requested_clips={requested_clips} is too few; use 1 or more.")
        self.fps = fps
        self.width = width
        self.requested_clips = requested_clips
        self.source = source
        self._features = list(features)
        self._reader = Reader()

    @property
    def features(self) -> tuple[ClipFeatures, ...]:
        """The features of all clips, in order, to be saved."""
        return tuple(self._features)

    def push(
        self, frames: Float | Iterable[Float], *, kind: str = "continue", **labels: Label
    ) -> DriftState:
        """Take in the next clip, without frames that it shares with the one before.

        frames  float32 sRGB 0..1, (f, r, w, 3), or chunks of such
        kind    continue, cut (new scene) or anchor (same scene from a clean picture)
        labels  what is known of the clip (seed, strategy, ..), kept for the report
        Raises  BadRequest (see `read_clip`); the meter is then as before
        """
        before = self._features[-1] if self._features else None
        read = read_clip(
            frames, fps=self.fps, width=self.width, kind=kind, before=before, labels=labels
        )
        return self._take(read)

    def _take(self, read: ClipFeatures) -> DriftState:
        grown = [*self._features, read]
        drift = self._analyse(grown)
        self._features = grown
        segment = drift.segments[-1]
        advice, why = _advise(drift, self.requested_clips)
        return DriftState(
            len(grown) - 1, segment.slopes, segment.forecast, drift.verdict, advice, why
        )

    def report(self) -> Drift:
        """Return all readings of the chain so far.

        Raises  BadRequest (no clip yet)
        """
        return self._analyse(self._features)

    def _analyse(self, clips: Sequence[ClipFeatures]) -> Drift:
        return analyse(
            clips, requested_clips=self.requested_clips, kind=self.source, reader=self._reader
        )


def _advise(drift: Drift, requested_clips: int | None) -> tuple[str, str]:
    """Weigh the newest clip: the chain's end, its drift (which no new seed cures), its seam."""
    if (reason := _dead_end(drift)) is not None:
        return STOP, reason
    name, clips = _nearest_end(drift)
    left = 0 if requested_clips is None else requested_clips - len(drift.clips)
    if clips < left:
        return REBASE, f"The chain reaches {name} in {clips:.1f} clips, {left} are still to come."
    if bad := failing(drift.segments[-1]):
        return REBASE, f"Drift beyond the limit: {', '.join(bad)}."
    if (reason := _bad_seam(drift)) is not None:
        return RETRY_SEAM, reason
    return CONTINUE, "No reading asks for anything else."


def _nearest_end(drift: Drift) -> tuple[str, float]:
    """Return which end the newest segment reaches first, and in how many clips."""
    forecast = drift.segments[-1].forecast
    ends = {name: found.clips for name, found in forecast.items() if found.clips is not None}
    return min(ends.items(), key=lambda item: item[1], default=("", math.inf))


def _dead_end(drift: Drift) -> str | None:
    """Say why no further clip can be used, None if one can."""
    name, clips = _nearest_end(drift)
    if clips < 1:
        return f"The next clip would reach {name}."
    row = drift.clips[-1]
    still = sum(
        min(freeze.last + 1, row.end) - max(freeze.first, row.start)
        for freeze in drift.freezes
        if freeze.last >= row.start
    )
    if still < 0.9 * (row.end - row.start):
        return None
    return f"Clip {row.index} stands still from frame {row.start} on."


def _bad_seam(drift: Drift) -> str | None:
    """Say what is wrong with the newest seam, None if nothing is."""
    row = drift.clips[-1]
    if not drift.seams or row.kind != "continue":
        return None
    seam = drift.seams[-1]
    leap = judge_value(seam.ratio, SEAM_RATIO) == FAIL and seam.z >= SEAM_Z
    step = judge_value(seam.luma_step, SEAM_LUMA) == FAIL and seam.luma_z >= SEAM_LUMA_Z
    flashes = [flash.size for flash in drift.flashes if row.start <= flash.first < row.start + 8]
    flash = worst(judge_value(size, FLASH) for size in flashes) == FAIL
    if not (leap or step or flash):
        return None
    what = "a flash" if flash else "a step of luma" if step else "a jump of the picture"
    return f"The seam at frame {seam.frame} shows {what}."


def measure(
    frames: Float | Iterable[Float],
    lengths: Sequence[int],
    *,
    fps: float,
    width: int = WIDTH,
    kinds: Sequence[str] | None = None,
    requested_clips: int | None = None,
) -> Drift:
    """Measure a whole chain.

    frames   float32 sRGB 0..1, (f, r, w, 3), or chunks of such, all clips end to end
    lengths  frames of each clip; kinds how each follows the one before (default: continue)
    Raises   BadRequest (lengths that do not match the frames, and all of `read_clip`)
    """
    kinds = ["continue"] * len(lengths) if kinds is None else kinds
    if len(kinds) != len(lengths):
        raise BadRequest(f"There are {len(kinds)} kinds for {len(lengths)} clips; give one each.")
    clips: list[ClipFeatures] = []
    source = _Cutter(frames)
    for length, kind in zip(lengths, kinds, strict=True):
        before = clips[-1] if clips else None
        clips.append(read_clip(source.take(length), fps=fps, width=width, kind=kind, before=before))
    left = source.left()
    if left:
        raise BadRequest(
            f"The lengths add up to {sum(lengths)} frames, but there are at least "
            f"{sum(lengths) + left}; name all clips."
        )
    return analyse(clips, requested_clips=requested_clips)


class _Cutter:
    """Cuts a stream of chunks into clips without holding more than a chunk."""

    def __init__(self, frames: Float | Iterable[Float]) -> None:
        self._chunks = iter([frames] if isinstance(frames, np.ndarray) else frames)
        self._rest: Float | None = None

    def take(self, length: int) -> Iterable[Float]:
        """Yield the next `length` frames in pieces."""
        if length < 1:
            raise BadRequest(f"A clip of {length} frames cannot be measured; use 1 or more.")
        missing = length
        while missing:
            chunk = next(self._chunks, None) if self._rest is None else self._rest
            if chunk is None:
                raise BadRequest(f"The frames end {missing} short of a clip's {length}.")
            self._rest = chunk[missing:] if len(chunk) > missing else None
            missing -= min(missing, len(chunk))
            yield chunk[: len(chunk) if self._rest is None else len(chunk) - len(self._rest)]

    def left(self) -> int:
        """Return how many frames of the current or next chunk no clip has taken."""
        chunk = next(self._chunks, None) if self._rest is None else self._rest
        return 0 if chunk is None else len(chunk)
