"""`vidgen compare`: clips beside one another, in step, with figures and their differences."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.cli.interrupt import stoppable
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter, table
from vidgen.errors import BadMedia, BadRequest
from vidgen.events import CancelToken, Progress
from vidgen.fidelity import Fidelity, compare_videos, told_of_rates
from vidgen.media import VideoWriter, comparison_grid, probe_video, read_recipe
from vidgen.media.disk import check_folder, check_target
from vidgen.recipe import parse_recipe

MOST = 8
_TELLING = ("density", "compensate", "dense_above")  # of a plan's sparse part beside a dense one


@flowing
def compare(
    golden: Annotated[Path, Parameter(help="The clip that the others are measured against.")],
    /,
    *others: Annotated[Path, Parameter(help="The other clips.")],
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help="Write the clips beside one another into a video."),
    ] = None,
    gain: Annotated[
        float, Parameter(help="How much the difference is brightened; 0 leaves its row out.")
    ] = 8.0,
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Compare clips with a first one: PSNR and SSIM, and a video that shows them in step.

    All clips need the same size and number of frames. In the video each clip stands under its name
    and, in a second row, its difference from the first one, brightened.
    """
    if not 1 <= len(others) < MOST:
        raise BadRequest(f"Name 2 to {MOST} clips, not {1 + len(others)}.")
    if not 0 <= gain <= 1000:
        raise BadRequest(f"--gain {gain:g} is outside 0..1000.")
    if out is not None:
        check_target(out, is_folder=not out.suffix)
        check_folder(out.absolute().parent)
        _refuse_replacing(out, (golden, *others))
    reporter = Reporter(common)
    with (
        stoppable(speak=reporter.for_people) as cancel,
        reporter.working(),
        TemporaryDirectory(prefix="vidgen-compare-") as folder,
    ):
        for other in others:
            if rates := told_of_rates(golden, other):
                reporter.warn(rates)
        differences = Path(folder) if out is not None and gain > 0 else None
        found = []
        for number, other in enumerate(others, start=1):
            found.append(
                _compared(golden, other, number, len(others), differences, gain, reporter, cancel)
            )
        if out is not None:
            _write_grid(out, golden, others, found, differences, cancel)
    rows = [
        (str(path), f"{item.psnr:.2f}", f"{item.ssim:.4f}",
         f"{item.worst} ({item.frames[item.worst]:.1f} dB)", _differs(golden, path))
        for path, item in zip(others, found, strict=True)
    ]  # fmt: skip
    text = table(("CLIP", "PSNR dB", "SSIM", "WORST FRAME", "MADE WITH"), rows)
    data = [
        {"path": str(path), "made_with": row[-1], **item.as_dict()}
        for path, item, row in zip(others, found, rows, strict=True)
    ]
    result = {"event": "result", "golden": str(golden), "clips": data}
    if out is not None:
        result["path"] = str(out)
        text = f"{text}\n{out}"
    reporter.answer(result, text)


def _refuse_replacing(out: Path, clips: tuple[Path, ...]) -> None:
    for clip in clips:
        if out.exists() and clip.exists() and out.samefile(clip):
            raise BadRequest(
                f"--out {out} is {clip}, one of the clips that are compared, and would replace it; "
                "choose another name."
            )


def _compared(
    golden: Path,
    other: Path,
    number: int,
    count: int,
    folder: Path | None,
    gain: float,
    reporter: Reporter,
    cancel: CancelToken,
) -> Fidelity:
    def show(share: float) -> None:
        reporter.progress(Progress("decode", round(100 * share), 100, 0.0, 0.0), number, count)

    with ExitStack() as stack:
        write = None
        if folder is not None:
            info = probe_video(other)
            writer = stack.enter_context(
                VideoWriter(
                    _difference_file(folder, number),
                    width=info.width,
                    height=info.height,
                    fps=info.fps,
                    profile="master",
                )
            )

            def write(difference: Any) -> None:
                writer.write((difference * gain).clip(0, 1))

        return compare_videos(golden, other, on_difference=write, on_progress=show, cancel=cancel)


def _difference_file(folder: Path, number: int) -> Path:
    return folder / f"difference-{number}.mkv"


def _write_grid(
    out: Path,
    golden: Path,
    others: tuple[Path, ...],
    found: list[Fidelity],
    folder: Path | None,
    cancel: CancelToken,
) -> None:
    clips = [golden, *others]
    labels = [golden.stem]
    labels += [f"{path.stem}: {item.psnr:.1f} dB" for path, item in zip(others, found, strict=True)]
    if folder is not None:
        files = [_difference_file(folder, number) for number in range(1, len(others) + 1)]
        clips += [golden, *files]
        labels += [golden.stem, *(f"{path.stem}: difference" for path in others)]
    comparison_grid(clips, out, labels=labels, columns=1 + len(others), cancel=cancel)


def _differs(golden: Path, other: Path) -> str:
    """Say in what the clips' plans differ, as far as their recipes tell."""
    plans = []
    for path in (golden, other):
        try:
            plans.append(parse_recipe(read_recipe(path), path.name)["plan"])
        except BadMedia:
            return ""
    skipped = {"attention_reason", "estimate", "seeds", "fidelity", "notes", "adjustments"}
    names = sorted({*plans[0], *plans[1]} - skipped)
    changed = (_changed(name, plans[0].get(name), plans[1].get(name)) for name in names)
    return ", ".join(text for text in changed if text)


def _changed(name: str, before: Any, now: Any) -> str:
    """Name a value of a plan that changed, "" for none; of several together those that changed."""
    if before == now:
        return ""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return f"{name} {_written(now)}"
    keys = _TELLING if not before else now
    parts = [
        f"{key}={_written(now[key])}"
        for key in keys
        if key in now and (key not in before or now[key] != before[key])
    ]
    return f"{name} {' '.join(parts)}" if parts else ""


def _written(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return str(value)
