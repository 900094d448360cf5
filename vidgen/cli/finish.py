"""`vidgen finish`: trim, interpolate, scale, sound and format of a clip that exists."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vidgen.cli.interrupt import stoppable
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.events import Progress
from vidgen.media import PROFILES, finish_video


@flowing
def finish(
    file: Annotated[Path, Parameter(help="The clip.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(name=["--out", "-o"], help="The new file. [default: NAME-finished]")
    ] = None,
    trim: Annotated[
        str | None,
        Parameter(
            help="Part to keep in seconds: 1.5-3, 1.5- or -3.",
            metavar="A-B",
            allow_leading_hyphen=True,
        ),
    ] = None,
    interpolate: Annotated[
        Literal["1", "2", "4"], Parameter(help="Times the frames and the rate; the duration stays.")
    ] = "1",
    size: Annotated[str | None, Parameter(help="New size, e.g. 1664x960.")] = None,
    format: Annotated[
        str | None, Parameter(help=f"One of: {', '.join(PROFILES)}; by the suffix when omitted.")
    ] = None,
    crf: Annotated[int | None, Parameter(help="Quality, lower is better.")] = None,
    audio: Annotated[
        str, Parameter(help="keep, drop, or a sound file; cut or padded to the clip's length.")
    ] = "keep",
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Make a new file from a clip: trim, then interpolate, then scale, then encode.

    The recipe travels on, with one more entry. When only the sound changes, pictures are copied.
    """
    target = out or _default_target(file, format)
    if target.exists() and file.exists() and target.samefile(file):
        raise BadRequest(f"{target} is the clip itself; give another --out.", field="out")
    reporter = Reporter(common)

    def show(share: float) -> None:
        percent = round(share * 100)
        reporter.progress(Progress("decode", percent, 100, 0.0, 0.0), 1, 1)

    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        made = finish_video(
            file,
            target,
            trim=_trim(trim),
            interpolate=int(interpolate),
            size=_size(size),
            profile=format,
            crf=crf,
            audio=audio,
            on_progress=show,
            cancel=cancel,
        )
    reporter.adjustments(made.adjustments)
    data: dict[str, Any] = {
        "path": str(made.path),
        "profile": made.profile,
        "width": made.width,
        "height": made.height,
        "fps": str(made.fps),
        "num_frames": made.num_frames,
        "adjustments": [item.as_dict() for item in made.adjustments],
    }
    reporter.emit("result", **data)
    reporter.say(
        f"{made.path}  {made.width}x{made.height}, {made.num_frames} frames at {made.fps} fps"
    )


def _default_target(file: Path, profile: str | None) -> Path:
    suffix = PROFILES[profile].suffix if profile in PROFILES else file.suffix
    return Path(f"{file.stem}-finished{suffix}")


def _trim(text: str | None) -> tuple[float, float | None] | None:
    if text is None:
        return None
    time = r"(\d{1,9}(?:\.\d+)?)?"
    match = re.fullmatch(rf"{time}\s*-\s*{time}", text.strip())
    if match is None or (match[1] is None and match[2] is None):
        raise BadRequest(f"trim={text!r} is not a part; write 1.5-3, 1.5- or -3.", field="trim")
    return float(match[1] or 0), None if match[2] is None else float(match[2])


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})[xX*](\d{1,6})", text.strip())
    if match is None:
        raise BadRequest(f"size={text!r} is not WIDTHxHEIGHT, e.g. 832x480.", field="size")
    return int(match[1]), int(match[2])
