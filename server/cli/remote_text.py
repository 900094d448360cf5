"""What is said of a job that a server does: its estimate, and what was made."""

from pathlib import Path
from typing import Any

from server.cli.report import pairs, visible
from vidgen.cli.show import between, bytes_text, seconds_text
from vidgen.workload import Interval


def estimate_text(found: dict[str, Any]) -> str:
    """Return an estimate of the API as lines for people."""
    cost = found["estimate"]
    facts = [
        ("model", found["model"]),
        ("video", f"{found['width']}x{found['height']}, {found['num_frames']} frames at "
                  f"{found['fps']} fps, {found['seconds']:g} s, seed {found['seed']}"),
        ("clips", str(found["num_clips"])),
        ("attention", f"{found['attention']} by {found['attention_backend']}"),
        ("planned for", found["device"]),
        ("time", seconds_text(Interval(**cost["seconds"]))),
        ("device memory", between(Interval(**cost["device_bytes"]), bytes_text)),
        ("disk", between(Interval(**cost["disk_bytes"]), bytes_text)),
    ]  # fmt: skip
    if found["price"]["high"] > 0:
        facts.append(("price", f"{found['price']['low']:.4g} to {found['price']['high']:.4g}"))
    lines = [pairs(facts)]
    lines += [
        visible(f"adjusted  {item['field']}: {item['asked']} -> {item['used']} ({item['why']})")
        for item in found["adjustments"]
    ]
    return "\n".join([*lines, *(visible(f"note      {text}") for text in found["warnings"])])


def made_data(video: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return what a program wants to know of a finished job."""
    names = ("seed", "width", "height", "num_frames", "fps", "adjustments", "usage", "report")
    return {
        "path": str(path),
        "job": video["id"],
        **{name: video[name] for name in names},
        "seconds": float(video["seconds"]),
    }


def made_text(video: dict[str, Any], path: Path) -> str:
    """Say in one line what was made."""
    clips = f", {video['clips']} clips" if video["clips"] > 1 else ""
    return visible(
        f"{path}  {video['size']}, {video['num_frames']} frames at {video['fps']} fps{clips}, "
        f"seed {video['seed']}, {video['id']}"
    )
