"""What the program loads: nothing of the server for help, and never torch for its commands."""

import subprocess
import sys

import pytest

SERVER = ("sqlalchemy", "fastapi", "dbos", "obstore", "uvicorn", "httpx")
HEAVY = ("torch", "diffusers", "transformers", "av", "numpy", "cv2")
_CODE = """
import sys
from vidgen.cli.main import main
code = main({words!r})
loaded = [name for name in {names!r} if name in sys.modules]
print("LOADED", code, *loaded)
"""


def _loaded(words: list[str], names: tuple[str, ...]) -> str:
    code = _CODE.format(words=words, names=names)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--help"], (*SERVER, *HEAVY)),
        (["serve", "--help"], (*SERVER, *HEAVY)),
        (["worker", "--help"], (*SERVER, *HEAVY)),
        (["queue", "--help"], (*SERVER, *HEAVY)),
        (["keys", "--help"], (*SERVER, *HEAVY)),
        (["keys", "ls"], (*HEAVY, "fastapi", "dbos")),
        (["generate", "--server", "http://127.0.0.1:1", "--help"], (*SERVER, "torch", "diffusers")),
    ],
)
def test_a_command_loads_only_what_it_needs(words: list[str], names: tuple[str, ...]) -> None:
    assert _loaded(words, names) == "LOADED 0"
