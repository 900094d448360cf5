"""docs/operating.md and deploy/: commands run as they are written, files are what they say."""

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.fleet import Fleet
from server.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operating.md").read_text("utf-8")
BLOCKS = re.findall(r"<!-- run: (\w+) -->\n```\w*\n(.*?)```", PAGE, flags=re.DOTALL)
WRITTEN = "http://127.0.0.1:8000"
_VARIABLE = re.compile(r"VIDGEN_[A-Z_]+")
_OTHERS = {"VIDGEN_HOME", "VIDGEN_SERVER", "VIDGEN_API_KEY"}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "text"), BLOCKS, ids=range(len(BLOCKS)))
def test_the_commands_run_as_they_are_written(
    kind: str, text: str, fleet: Fleet, tmp_path: Path
) -> None:
    if "sqlite3" in text and shutil.which("sqlite3") is None:
        pytest.skip("needs sqlite3 (apt-get install sqlite3)")
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
        "VIDGEN_HOME": str(tmp_path / "home"),
    }
    if kind == "server":
        environ["VIDGEN_SERVER"] = fleet.address
    elif kind == "data":
        environ["VIDGEN_HOME"] = str(fleet.folder)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text.replace(WRITTEN, fleet.address)],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_commands_to_run() -> None:
    assert [kind for kind, _ in BLOCKS].count("server") >= 4


def test_settings_that_are_named_exist() -> None:
    known = {f"VIDGEN_{name.upper()}" for name in ServerSettings.model_fields} | _OTHERS
    pages = [PAGE, *(path.read_text("utf-8") for path in (ROOT / "deploy").iterdir())]
    named = {name for page in pages for name in _VARIABLE.findall(page)}
    assert named - {"VIDGEN_"} <= known


def test_the_command_lines_of_the_units_and_the_compose_file_are_legal(run: Any) -> None:
    lines = []
    for path in (ROOT / "deploy").glob("*.service"):
        unit = configparser.ConfigParser(interpolation=None, strict=False)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(path.read_text("utf-8"))
        lines.append(shlex.split(unit["Service"]["ExecStart"].replace("%i", "0"))[1:])
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    lines += [item["command"] for item in compose["services"].values() if "command" in item]
    assert len(lines) == 4
    for words in lines:
        ran = run(*words, "--help")
        assert ran.code == 0
        for word in words[1:]:
            if word.startswith("--"):
                assert f"{word} " in ran.out
