"""ffmpeg's command lines, assembled with ffmpeg-python and run as one job.

The only module that uses ffmpeg-python. That library is unmaintained, so it only puts words in
order here, always for the program of imageio-ffmpeg; its probe() and run() are not used.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import VidgenError
from vidgen.media.container import AUDIO_FORMATS, FORMATS
from vidgen.media.disk import check_target, file_address, part_of, publish, remove
from vidgen.media.ffmpeg_run import CancelToken, ffmpeg_program, run_ffmpeg
from vidgen.media.filters import Stream
from vidgen.media.finish_job import (
    Finished,
    Job,
    container_options,
    picture_options,
    seal,
    sound_options,
)
from vidgen.media.recipe import metadata_file

Progress = Callable[[float], None]


def open_clip(path: Path, number: int = 0) -> Stream:
    """A clip as an input; only known formats, so that a playlist cannot make ffmpeg open other
    files.
    """
    # ffmpeg-python takes equal inputs for one; the number, a harmless option, tells them apart.
    return _ffmpeg().input(
        file_address(path),
        format_whitelist=FORMATS,
        protocol_whitelist="file",
        thread_queue_size=8 + number,
    )


def open_sound(path: Path) -> Stream:
    """The sound of a file as an input."""
    return (
        _ffmpeg()
        .input(file_address(path), format_whitelist=AUDIO_FORMATS, protocol_whitelist="file")
        .audio
    )


def open_picture(path: Path, fps: Fraction) -> Stream:
    """A still as an endless input."""
    options = {"f": "image2", "pattern_type": "none", "loop": 1, "framerate": str(fps)}
    return _ffmpeg().input(file_address(path), **options).video


def run_job(
    job: Job,
    streams: list[Stream],
    notes: list[Adjustment],
    on_progress: Progress | None,
    cancel: CancelToken | None,
    *,
    is_copy: bool = False,
    sound_is_copy: bool = False,
) -> Finished:
    """Assemble the command line, run it, check the result and give it its name."""
    pictures = {"c:v": "copy"} if is_copy else picture_options(job)
    check_target(job.target, is_folder=not job.profile.suffix)
    part = part_of(job.target)
    job.target.parent.mkdir(parents=True, exist_ok=True)
    written = file_address(part)
    if not job.profile.suffix:
        part.mkdir()
        written = file_address(part).replace("%", "%%") + "/frame_%06d.png"
    if job.profile.name == "gif":
        streams = [_palette(streams[0])]
    options = container_options(job.profile) | sound_options(job.profile, len(streams) > 1)
    if sound_is_copy:
        options = container_options(job.profile) | {"c:a": "copy"}
    options |= pictures
    try:
        with metadata_file(job.tags) as metadata:
            # The tags come last, so their number is the count of the inputs before them.
            num_inputs = _ffmpeg().get_args(_ffmpeg().output(*streams, written)).count("-i")
            output = _ffmpeg().output(*streams, written, map_metadata=num_inputs, **options)
            output = output.global_args("-f", "ffmetadata", "-i", file_address(metadata))
            command = output.compile(cmd=ffmpeg_program(), overwrite_output=True)
            run_ffmpeg(
                command,
                name=job.target.name,
                num_frames=job.num_frames,
                on_progress=on_progress,
                cancel=cancel,
            )
        count = seal(job, part)
        publish(part, job.target)
    except BaseException:
        remove(part)
        raise
    return Finished(
        job.target, job.profile.name, job.width, job.height, job.fps, count, tuple(notes)
    )


def _palette(picture: Stream) -> Stream:
    split = picture.filter_multi_output("split")
    palette = split[1].filter("palettegen", stats_mode="single", reserve_transparent=0)
    return combine([split[0], palette], "paletteuse", new=1, dither="sierra2_4a")


def combine(streams: list[Stream], name: str, *args: Any, **options: Any) -> Stream:
    """Feed several streams into one filter."""
    return _ffmpeg().filter(streams, name, *args, **options)


def _ffmpeg() -> Any:
    import ffmpeg

    if not hasattr(ffmpeg, "run_async") or hasattr(ffmpeg, "FFMpegExecuteError"):
        raise VidgenError("The module `ffmpeg` is not ffmpeg-python; reinstall ffmpeg-python.")
    return ffmpeg
