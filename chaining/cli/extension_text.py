"""What `vidgen extend` says of the file that it will make."""

from dataclasses import replace
from typing import Any

from chaining.cli.extension import Extension
from chaining.cli.telling import schedule_data, schedule_text
from vidgen.cli.report import Reporter
from vidgen.cli.show import seconds_text


def tell_extension(reporter: Reporter, extension: Extension) -> None:
    """Say before the work what will be made of a video and what had to differ."""
    reporter.emit(**extension_data(extension))
    reporter.adjustments(extension.adjustments)
    if reporter.for_people:
        reporter.warn(_whole_text(extension), "extends")
        reporter.warn(f"expected time {seconds_text(extension.work.cost.seconds)}")


def extension_data(extension: Extension, *, dry_run: bool = False) -> dict[str, Any]:
    """Return what will be made of a video, for programs."""
    work = extension.work
    made = schedule_data(work.schedule, work.cost, work.first)
    original = extension.original
    return {
        "event": "schedule",
        **({"dry_run": True} if dry_run else {}),
        **made,
        "path": str(work.output),
        "folder": str(work.folder),
        "extends": str(original.path),
        "from_frame": original.kept - 1,
        "width": original.info.width,
        "height": original.info.height,
        "num_frames": extension.num_frames,
        "seconds": float(extension.num_frames / original.info.fps),
        "adjustments": [item.as_dict() for item in extension.adjustments],
    }


def extension_text(extension: Extension) -> str:
    """Return what will be made of a video, as lines."""
    work = extension.work
    plain = replace(work.first, adjustments=())
    schedule = replace(work.schedule, adjustments=())
    lines = [_whole_text(extension), schedule_text(schedule, work.cost, plain, ())]
    return "\n".join([*lines, *(f"adjusted  {item}" for item in extension.adjustments)])


def _whole_text(extension: Extension) -> str:
    original, count = extension.original, extension.num_frames
    seconds = float(count / original.info.fps)
    return (
        f"{original.path.name}: {original.kept} frames stay, {count - original.kept} follow; "
        f"{count} frames at {original.info.fps} fps, {seconds:.3f} s, "
        f"{original.info.width}x{original.info.height}"
    )
