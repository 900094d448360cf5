"""Ending a process: what still happens, and what does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import atexit, sys, threading, time
from vidgen.leaving import run_and_leave

class Part:
    def __del__(self):
        print("taken apart", flush=True)

part = Part()
"""


def run(body: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + body],
        capture_output="stdout" not in options, text=True, check=False, **options,  # type: ignore[call-overload]
    )  # fmt: skip


def test_threads_and_exit_handlers_end_and_modules_stay() -> None:
    ran = run(
        "def late():\n"
        "    time.sleep(0.3)\n"
        "    print('thread')\n"
        "def main():\n"
        "    atexit.register(print, 'handler')\n"
        "    threading.Thread(target=late).start()\n"
        "    print('main')\n"
        "    return 3\n"
        "run_and_leave(main)\n"
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, "main\nthread\nhandler\n", "")


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [("return 0", 0, ""), ("sys.exit(4)", 4, ""), ("sys.exit()", 0, ""),
     ("sys.exit('no')", 1, "no\n"), ("raise ValueError('odd')", 1, "ValueError: odd\n"),
     ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
     ("sys.stdout.close(); return 0", 0, ""), ("sys.stdout = None; return 0", 0, "")],
)  # fmt: skip
def test_every_way_of_ending_keeps_its_code(ends: str, code: int, said: str) -> None:
    ran = run(f"def main():\n    {ends}\nrun_and_leave(main)\n")
    assert (ran.returncode, ran.stdout) == (code, "")
    assert ran.stderr.endswith(said)


def test_output_that_nobody_took_is_no_success(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone, (tmp_path / "said").open("w") as said:
        whole = {**os.environ, "PYTHONUNBUFFERED": ""}
        ran = run("run_and_leave(lambda: print('x') or 0)\n", stdout=gone, stderr=said, env=whole)
    assert ran.returncode == 120
