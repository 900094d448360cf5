"""The report's files: a page that stands alone, and plots and sheets as PNG."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from chaining.codec_share import CodecShare
from chaining.drift.compare import Comparison
from chaining.drift_report import style
from chaining.drift_report.measured import Measured
from chaining.drift_report.page import page
from chaining.drift_report.panels import CHARTS, HEADINGS
from chaining.drift_report.plots import draw_chart, size_of
from chaining.drift_report.seam_plot import SIZE, draw_seams
from chaining.drift_report.sheets import as_bytes, draw_seam_strips, draw_sheet
from vidgen.media.disk import check_folder, check_target, part_of, publish, remove

PNGS: Final = ("luma.png", "colour.png", "detail.png", "seams.png", "sheet.png")


def write_html(
    path: str | Path,
    measured: Measured,
    other: Measured | None = None,
    *,
    comparison: Comparison | None = None,
    codec: CodecShare | None = None,
) -> None:
    """Write the report as one self-contained page; it appears whole or not at all.

    other       a second run, laid over the first; comparison their paired reading
    codec       the codec's share of the first
    Raises      Unsupported (no matplotlib), BadRequest or DoesNotFit (path)
    """
    check_target(Path(path))
    runs = [measured] if other is None else [measured, other]
    charts = [(heading, style.as_svg(drawn, heading)) for _, heading, drawn in _plots(runs)]
    pictures = []
    for run in runs:
        of = f" of {run.name}" if other is not None else ""
        if run.stills:
            sheet = as_bytes(draw_sheet(run), "JPEG")
            pictures.append((f"First, middle and last frame of each clip{of}", sheet))
            strips = draw_seam_strips(run)
            if strips is not None:
                pictures.append((f"The worst seams{of}, frame by frame", as_bytes(strips, "JPEG")))
    text = page(runs, charts, pictures, comparison=comparison, codec=codec)
    _write(Path(path), text.encode())


def write_pngs(
    folder: str | Path, measured: Measured, other: Measured | None = None
) -> tuple[Path, ...]:
    """Write luma.png, colour.png, detail.png and seams.png, and sheet.png where there are stills.

    Returns  the files
    Raises   Unsupported (no matplotlib), BadRequest or DoesNotFit (folder)
    """
    runs = [measured] if other is None else [measured, other]
    check_folder(Path(folder))
    written = []
    for name in PNGS:
        check_target(Path(folder, name))
    for name, _, drawn in _plots(runs):
        written.append(Path(folder, f"{name}.png"))
        _write(written[-1], style.as_png(drawn))
    if measured.stills:
        written.append(Path(folder, "sheet.png"))
        _write(written[-1], as_bytes(draw_sheet(measured), "PNG"))
    return tuple(written)


def _plots(runs: Sequence[Measured]) -> Iterator[tuple[str, str, Any]]:
    """Yield name, heading and figure of each plot; seams only where there are any."""
    for name in CHARTS:
        with style.figure(*size_of(name)) as drawn:
            draw_chart(drawn, name, runs)
            yield name, HEADINGS[name], drawn
    with style.figure(*SIZE) as drawn:
        draw_seams(drawn, runs)
        yield "seams", "Seams", drawn


def _write(path: Path, data: bytes) -> None:
    check_folder(path.absolute().parent)
    part = part_of(path)
    try:
        part.write_bytes(data)
        publish(part, path)
    except BaseException:
        remove(part)
        raise
