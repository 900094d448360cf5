"""Comparison grids: several clips beside one another, in step, each below its label."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vidgen.errors import BadRequest
from vidgen.media.ffmpeg_run import CancelToken
from vidgen.media.filters import Stream, convert, is_deep, output_pixels, steady, tag
from vidgen.media.finish_job import Finished, Job, check_one_gamut, profile_for
from vidgen.media.graph import Progress, combine, open_clip, open_picture, run_job
from vidgen.media.recipe import extend_tags, read_recipe
from vidgen.media.sheet import save_image, text_strip
from vidgen.media.video_read import VideoInfo, probe_video


def comparison_grid(
    sources: Sequence[str | Path],
    target: str | Path,
    *,
    labels: Sequence[str] | None = None,
    columns: int | None = None,
    profile: str | None = None,
    crf: int | None = None,
    on_progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> Finished:
    """Show 2 to 16 clips beside one another, in step, each with its label above it; without sound.

    labels   by default the file names
    columns  by default all in one row up to 3, else as square as possible
    The rate is the highest of all; a clip that ends early holds its last frame; clips of other
    sizes than the largest are scaled to fit and centred on black.
    """
    paths, target = [Path(source) for source in sources], Path(target)
    names = [path.stem for path in paths] if labels is None else list(labels)
    across = _check_grid(len(paths), len(names), columns)
    infos = [probe_video(path) for path in paths]
    check_one_gamut(infos)
    row = profile_for(target, profile)
    cell_w, cell_h = (_even(max(getattr(i, side) for i in infos)) for side in ("width", "height"))
    fps = max(i.fps for i in infos)
    count = max(round(i.num_frames / i.fps * fps) for i in infos)
    deep, variable = any(is_deep(i) for i in infos), any(i.variable_rate for i in infos)
    pixels = output_pixels(row, deep)
    step: dict[str, Any] = {"do": "grid", "sources": [path.name for path in paths]}
    step |= {"labels": names, "recipes": [read_recipe(path) for path in paths]}
    tags = extend_tags(None, step)
    with TemporaryDirectory(prefix="vidgen-grid-") as folder:
        size = min(28, max(12, cell_w // 24))
        strips = [text_strip(name, cell_w, size, 1) for name in names]
        bar = strips[0].height // 2 * 2
        cells = []
        for index, (path, info, strip) in enumerate(zip(paths, infos, strips, strict=True)):
            label = Path(folder, f"label{index}.png")
            save_image(label, strip.crop((0, 0, cell_w, bar)))
            reading = open_clip(path, index)
            shown = _fit_cell(reading.video, info, pixels, (cell_w, cell_h), fps, count)
            cells.append(_below_label(shown, info, label, pixels, (cell_w, bar), fps, count))
        spots = [f"{i % across * cell_w}_{i // across * (cell_h + bar)}" for i in range(len(cells))]
        picture = combine(cells, "xstack", inputs=len(cells), layout="|".join(spots), fill="black")
        picture = tag(picture, infos[0], pixels)
        height = -(-len(cells) // across) * (cell_h + bar)
        job = Job(target, row, across * cell_w, height, fps, count, crf, tags, deep, variable)
        return run_job(job, [picture], [], on_progress, cancel)


def _check_grid(num_clips: int, num_labels: int, columns: int | None) -> int:
    """Return the number of columns."""
    if not 2 <= num_clips <= 16:
        raise BadRequest(f"A grid needs 2 to 16 clips, not {num_clips}.", field="sources")
    if num_labels != num_clips:
        raise BadRequest(f"{num_labels} labels for {num_clips} clips; give one each.")
    if columns is not None and not 1 <= columns <= num_clips:
        raise BadRequest(f"columns={columns} is outside 1..{num_clips}.", field="columns")
    return columns or (num_clips if num_clips <= 3 else math.ceil(math.sqrt(num_clips)))


def _even(value: int) -> int:
    return value + value % 2


def _fit_cell(
    picture: Stream, info: VideoInfo, pixels: str, box: tuple[int, int], fps: Fraction,
    count: int,
) -> Stream:  # fmt: skip
    """One clip at the grid's rate, held to the count of frames and centred in the box."""
    width, height = box
    scale = min(width / info.width, height / info.height)
    inner_w, inner_h = (round(side * scale) // 2 * 2 for side in (info.width, info.height))
    picture = steady(picture, info, fps).filter("tpad", stop_mode="clone", stop=count)
    picture = picture.filter("trim", end_frame=count)
    picture = convert(picture, info, pixels, (inner_w, inner_h))
    left, top = (width - inner_w) // 4 * 2, (height - inner_h) // 4 * 2
    return picture.filter("pad", width, height, left, top, color="black")


def _below_label(
    picture: Stream, info: VideoInfo, label: Path, pixels: str, size: tuple[int, int],
    fps: Fraction, count: int,
) -> Stream:  # fmt: skip
    """The label, repeated for every frame, on top of a clip."""
    strip = open_picture(label, fps).filter("trim", end_frame=count)
    drawn = replace(info, matrix="rgb", range="pc")
    return combine([convert(strip, drawn, pixels, size), picture], "vstack", inputs=2)
