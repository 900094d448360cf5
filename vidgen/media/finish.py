"""Finishing one clip or two: trim, interpolate, scale, change the format, sound, cross-fade."""

from fractions import Fraction
from pathlib import Path
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest
from vidgen.media import filters
from vidgen.media.container import check_audio
from vidgen.media.ffmpeg_run import CancelToken
from vidgen.media.filters import (
    Stream,
    convert,
    converted,
    cut_frames,
    full_chroma,
    is_deep,
    output_pixels,
    steady,
)
from vidgen.media.finish_job import SILENT, Finished, Job, check_one_gamut, frame_range, profile_for
from vidgen.media.graph import Progress, combine, open_clip, open_sound, run_job
from vidgen.media.profiles import Profile, check_size
from vidgen.media.recipe import extend_tags, read_recipe
from vidgen.media.video_read import VideoInfo, probe_video


def finish_video(
    source: str | Path,
    target: str | Path,
    *,
    trim: tuple[float, float | None] | None = None,
    interpolate: int = 1,
    size: tuple[int, int] | None = None,
    profile: str | None = None,
    crf: int | None = None,
    audio: str | Path = "keep",
    on_progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Finished:
    """Make a new file from a clip: trim, then interpolate, then scale (Lanczos), then encode.

    trim         (start, stop) in seconds, to the nearest frame; stop None = to the end
    interpolate  1, 2 or 4 times the frames at 1, 2 or 4 times the rate; the duration stays
    size         (width, height)
    profile      a key of PROFILES; None = by the suffix of `target`. When nothing but the sound
                 changes and the suffix stays, the pictures are copied, not encoded again
    audio        "keep", "drop", or a sound file, which is cut or padded with silence to the clip's
                 length
    Raises       BadRequest, BadMedia, NotFound, Cancelled, VidgenError with ffmpeg's last line
    """
    source, target = Path(source), Path(target)
    info = probe_video(source)
    row = profile_for(target, profile, info.codec)
    first, last = frame_range(info, trim)
    width, height = size or (info.width, info.height)
    sound, notes = _choose_sound(info, row, audio)
    plain = trim is None and interpolate == 1 and size is None and profile is None and crf is None
    is_copy = plain and source.suffix.lower() == target.suffix.lower() and row.name != "gif"
    step: dict[str, Any] = {"do": "finish", "source": source.name, "crf": crf}
    step |= {"trim": None if trim is None else list(trim), "interpolate": interpolate}
    step |= {"size": None if size is None else list(size)}
    step |= {"profile": None if is_copy else row.name, "audio": _word(audio)}
    tags = extend_tags(source, step)
    rate, count = info.fps * interpolate, (last - first) * interpolate
    deep, variable = is_deep(info), info.variable_rate
    job = Job(target, row, width, height, rate, count, crf, tags, deep, variable)
    reading = open_clip(source)
    if is_copy and sound == "keep":
        streams = [reading["v:0"], reading["a:0"]]
        return run_job(job, streams, notes, on_progress, cancel, is_copy=True, sound_is_copy=True)
    tracks = _sound_tracks(reading, sound, first / info.fps, (last - first) / info.fps)
    if is_copy:
        streams = [reading["v:0"], *tracks]
        return run_job(job, streams, notes, on_progress, cancel, is_copy=True)
    check_size(row, width, height)
    picture = steady(reading.video, info)
    if trim is not None:
        picture = cut_frames(picture, first, last)
    if interpolate != 1:
        picture, info, more = filters.interpolate(picture, info, interpolate, last - first)
        notes += more
    picture = convert(picture, info, output_pixels(row, job.deep), (width, height))
    return run_job(job, [picture, *tracks], notes, on_progress, cancel)


def crossfade(
    first: str | Path,
    second: str | Path,
    target: str | Path,
    *,
    seconds: float,
    profile: str | None = None,
    crf: int | None = None,
    on_progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Finished:
    """Join two clips of one size and rate; the end of the first fades into the start of the second.

    seconds  of overlap, to the nearest frame; the result has num_frames of both less the overlap
    """
    first, second, target = Path(first), Path(second), Path(target)
    infos = probe_video(first), probe_video(second)
    row = profile_for(target, profile, infos[0].codec)
    check_one_gamut(infos)
    shapes = [f"{i.width}x{i.height} at {i.fps}" for i in infos]
    if shapes[0] != shapes[1]:
        raise BadRequest(
            f"{first.name} is {shapes[0]} and {second.name} {shapes[1]}; make them equal first."
        )
    overlap = round(seconds * infos[0].fps)
    shorter = min(i.num_frames for i in infos)
    if not 1 <= overlap < shorter:
        raise BadRequest(
            f"seconds={seconds} is {overlap} frames of overlap; use 1 to {shorter - 1}.",
            field="seconds",
        )
    width, height, fps = infos[0].width, infos[0].height, infos[0].fps
    check_size(row, width, height)
    step = {
        "do": "crossfade", "source": first.name, "second": second.name,
        "seconds": float(overlap / fps), "second_recipe": read_recipe(second),
    }  # fmt: skip
    tags = extend_tags(first, step)
    count = sum(i.num_frames for i in infos) - overlap
    deep, variable = any(is_deep(i) for i in infos), any(i.variable_rate for i in infos)
    job = Job(target, row, width, height, fps, count, crf, tags, deep, variable)
    readings = [open_clip(path, number) for number, path in enumerate((first, second))]
    pixels = output_pixels(row, deep)
    full = full_chroma(pixels)  # xfade takes no subsampled chroma
    sides = [convert(steady(r.video, i), i, full) for r, i in zip(readings, infos, strict=True)]
    length, offset = float(overlap / fps), float((infos[0].num_frames - overlap) / fps)
    picture = combine(sides, "xfade", transition="fade", duration=length, offset=offset)
    picture = convert(picture, converted(infos[0], full), pixels)
    tracks: list[Stream] = []
    notes: list[Adjustment] = []
    if all(i.has_audio for i in infos) and row.name not in SILENT:
        tracks = [combine([r.audio for r in readings], "acrossfade", duration=length)]
    elif any(i.has_audio for i in infos):
        why = "only clips that both have sound can cross-fade it"
        notes.append(Adjustment("audio", "keep", "drop", why))
    return run_job(job, [picture, *tracks], notes, on_progress, cancel)


def _word(audio: str | Path) -> str:
    return str(audio) if audio in ("keep", "drop") else Path(audio).name


def _choose_sound(
    info: VideoInfo, row: Profile, audio: str | Path
) -> tuple[Path | str | None, list[Adjustment]]:
    """What to do about sound: None, "keep" or a checked file."""
    if audio not in ("keep", "drop"):
        if row.name in SILENT:
            raise BadRequest(
                f"The profile {row.name} has no sound; use audio='drop'.", field="audio"
            )
        return check_audio(audio), []
    if audio == "drop" or not info.has_audio:
        return None, []
    if row.name in SILENT:
        why = f"{row.name} holds no sound"
        return None, [Adjustment("audio", "keep", "drop", why)]
    return "keep", []


def _sound_tracks(
    reading: Stream, sound: Path | str | None, start: Fraction, seconds: Fraction
) -> list[Stream]:
    """At most one track, cut or padded with silence to the given seconds."""
    if sound is None:
        return []
    if sound == "keep":
        track = reading.audio.filter("atrim", start=float(start))
        track = track.filter("asetpts", "PTS-STARTPTS")
    else:
        track = open_sound(Path(sound))
    return [track.filter("apad").filter("atrim", end=float(seconds))]
