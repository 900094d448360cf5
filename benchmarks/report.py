"""The frame of every results file: when, on what, from which commit and by which command."""

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vidgen.device import this_machine

OUT = Path("out")  # where results go unless they are told; those that count are in results/


def report(command: str, **content: Any) -> dict[str, Any]:
    """Return content under a head that says where it comes from."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{this_machine().title}, {platform.machine()}",
        "python": sys.version.split()[0],
        "commit": _commit(),
        "command": command,
        **content,
    }


def _commit() -> str:
    """Return the commit of the working tree, with a mark when files differ from it."""
    here = Path(__file__).parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else "not committed"


def write_report(path: Path, content: dict[str, Any]) -> None:
    """Write a report as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
