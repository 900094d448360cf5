"""The README and the docs tell the truth: tables, commands, links and file names."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(
            r"(?<!from )\bvidgen ((?:models |loras |config |drift )?[a-z]+)",
            page.read_text("utf-8"),
        )
    }
)
RUNNABLE = re.findall(r"<!-- run -->\n```(\w*)\n(.*?)```", README, flags=re.DOTALL)


def test_the_generated_tables_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.readme", "--check"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "text"), RUNNABLE, ids=range(len(RUNNABLE)))
def test_the_commands_run_as_they_are_written(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    command = [sys.executable, "-c", text] if kind == "python" else ["bash", "-ec", text]
    done = subprocess.run(
        command,
        cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_commands_to_run() -> None:
    assert [kind for kind, _ in RUNNABLE].count("python") == 2
    assert len(RUNNABLE) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_exist(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vidgen.cli", *command.split(), "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_extras_names_them_all() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| [^|]* \|$", README, flags=re.MULTILINE)
    assert rows == list(project["optional-dependencies"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_file_names_lead_somewhere(page: Path) -> None:
    text = page.read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    named = re.findall(
        r"`((?:vidgen|attention|benchmarks|demos|scripts|tests|docs)/[\w./]*)`", text
    )
    missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []
