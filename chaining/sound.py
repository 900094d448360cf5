"""The sound of an extended video: the original's, sample by sample where it was, then silence."""

# k channels  s samples
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, eq=False)
class Sound:
    """Sound from a video's first frame on, in -1..1."""

    samples_ks: Float
    rate: int
    layout: str


def holds_sound(profile: str) -> bool:
    """Whether a format can hold sound."""
    return profile not in SILENT


def sound_of(path: Path, kept: Fraction, total: Fraction) -> Sound:
    """Read the first track of a video.

    kept   seconds from its first frame on that are kept; silence follows up to `total` seconds
    A track that begins after the first frame, or ends early, has silence there.
    Raises  BadMedia
    """
    import av

    timing = scan_timing(path)
    with open_video(path) as container:
        shown = video_stream(container, path.name)
        tick = shown.time_base or Fraction(0)
        began = timing.pts[0] * tick if timing.pts else Fraction(0)
        track = container.streams.audio[0]
        rate, layout = track.codec_context.sample_rate, track.codec_context.layout
        samples_ks = np.zeros((layout.nb_channels, round(total * rate)), np.float32)
        ends = min(round(kept * rate), samples_ks.shape[1])
        plain = av.AudioResampler(format="fltp", layout=layout.name, rate=rate)
        # Times are rounded to ticks (a millisecond in Matroska): only a gap beyond that is real.
        slack = 2 + 2 * rate * (track.time_base or 0)
        place = None
        for frame in container.decode(track):
            if frame.pts is not None and frame.time_base is not None:
                told = round((frame.pts * frame.time_base - began) * rate)
                place = told if place is None or abs(told - place) > slack else place
            for part in plain.resample(frame):
                place = place or 0
                _lay(samples_ks[:, :ends], part.to_ndarray(), place)
                place += part.samples
    return Sound(samples_ks, rate, layout.name)


def _lay(samples_ks: Float, part_ks: Any, start: int) -> None:
    """Put samples where they belong, as far as they lie within."""
    skip = max(0, -start)
    part_ks, start = part_ks[:, skip:], start + skip
    room = samples_ks.shape[1] - start
    if room > 0 and part_ks.shape[1]:
        part_ks = part_ks[:, :room]
        samples_ks[:, start : start + part_ks.shape[1]] = part_ks


def write_wav(path: Path, sound: Sound) -> None:
    """Write sound as it is, in 32-bit floats."""
    import av

    with av.open(str(path), "w", format="wav") as container:
        track: Any = container.add_stream("pcm_f32le", rate=sound.rate, layout=sound.layout)
        packed = np.ascontiguousarray(sound.samples_ks.T).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=sound.layout)
        frame.sample_rate = sound.rate
        container.mux([*track.encode(frame), *track.encode(None)])


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
