"""The sound of an extended video: the original's, sample by sample where it was, then silence."""

# k channels  s samples
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vidgen.media.container import open_video, scan_timing, video_stream
from vidgen.media.finish_job import SILENT, Job
from vidgen.media.graph import open_clip, open_sound, run_job
from vidgen.media.profiles import find_profile
from vidgen.media.recipe import make_tags
from vidgen.media.video_read import probe_video

Float = npt.NDArray[np.float32]


def holds_sound(profile: str) -> bool:
    """Whether a format can hold sound."""
    return profile not in SILENT


def write_sound(video: Path, target: Path, kept: Fraction, total: Fraction) -> None:
    """Write the first track of a video, a piece at a time, as a wav file of 32-bit floats.

    kept   seconds from its first frame on that are kept; silence follows up to `total` seconds
    A track that begins after the first frame, or ends early, has silence there.
    Raises  BadMedia
    """
    import av

    with open_video(video) as container, av.open(str(target), "w", format="wav") as file:
        track = container.streams.audio[0]
        rate, layout = track.codec_context.sample_rate, track.codec_context.layout
        stop = round(total * rate)
        ends = min(round(kept * rate), stop)
        tape = _Tape(file, rate, layout)
        for start, part_ks in _pieces(container, track, _begins(video, container)):
            tape.lay(start, part_ks[:, : max(0, ends - start)])
        tape.close(stop)


def _begins(path: Path, container: Any) -> Fraction:
    """Return the time of a video's first frame."""
    timing = scan_timing(path)
    tick = video_stream(container, path.name).time_base or Fraction(0)
    return timing.pts[0] * tick if timing.pts else Fraction(0)


def _pieces(container: Any, track: Any, began: Fraction) -> Iterator[tuple[int, Float]]:
    """Yield a track's samples as it is decoded, each with the sample at which it begins.

    began  time of sample 0
    """
    import av

    rate = track.codec_context.sample_rate
    plain = av.AudioResampler(format="fltp", layout=track.codec_context.layout.name, rate=rate)
    # Times are rounded to ticks (a millisecond in Matroska): only a gap beyond that is real.
    slack = 2 + 2 * rate * (track.time_base or 0)
    place = None
    for frame in container.decode(track):
        if frame.pts is not None and frame.time_base is not None:
            told = round((frame.pts * frame.time_base - began) * rate)
            place = told if place is None or abs(told - place) > slack else place
        for part in plain.resample(frame):
            place = place or 0
            yield place, np.asarray(part.to_ndarray(), np.float32)
            place += part.samples


class _Tape:
    """A wav file that grows from its first sample on."""

    def __init__(self, file: Any, rate: int, layout: Any) -> None:
        self._file = file
        self._rate = rate
        self._layout = layout
        self._track: Any = file.add_stream("pcm_f32le", rate=rate, layout=layout.name)
        self._done = 0

    def lay(self, start: int, part_ks: Float) -> None:
        """Put samples where they belong, after silence; what lies before is left out."""
        part_ks = part_ks[:, max(0, self._done - start) :]
        if part_ks.shape[1]:
            self._silent_until(start)
            self._write(part_ks)

    def close(self, stop: int) -> None:
        """End the file after so many samples."""
        self._silent_until(stop)
        self._file.mux(self._track.encode(None))

    def _silent_until(self, stop: int) -> None:
        while self._done < stop:
            count = min(self._rate, stop - self._done)
            self._write(np.zeros((self._layout.nb_channels, count), np.float32))

    def _write(self, part_ks: Float) -> None:
        import av

        packed = np.ascontiguousarray(part_ks.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=self._layout.name)
        frame.sample_rate, frame.pts = self._rate, self._done
        frame.time_base = Fraction(1, self._rate)
        self._file.mux(self._track.encode(frame))
        self._done += part_ks.shape[1]


def add_sound(
    video: Path, sound: Path, target: Path, profile: str, recipe: str, title: str
) -> None:
    """Write a video's pictures, copied, and sound into one file.

    Raises  VidgenError with ffmpeg's last line
    """
    info = probe_video(video)
    job = Job(
        target=target,
        profile=find_profile(profile),
        width=info.width,
        height=info.height,
        fps=info.fps,
        num_frames=info.num_frames,
        crf=None,
        tags=make_tags(recipe, title),
        deep=False,
        is_variable=False,
    )
    run_job(job, [open_clip(video)["v:0"], open_sound(sound)], [], None, None, is_copy=True)
