"""Makes `.venv` with everything that the Makefile's targets need; a second run does nothing.

Only the standard library, and no syntax newer than Python 3.7, so that an old interpreter still
prints what is wrong. It installs torch before the project, so that no resolve ever picks a CUDA
build (several GB) on a machine without an NVIDIA GPU.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "vidgen-setup.stamp"
LOG = VENV / "vidgen-setup.log"
INPUTS = ("pyproject.toml", "constraints.txt", "scripts/setup.py")

OLDEST_PYTHON = (3, 11)
TORCH = "2.13.0"
TORCH_RANGE = ((2, 11), (3, 0))  # as in pyproject.toml


class SetupError(Exception):
    """One sentence for the person at the terminal."""


def main() -> int:
    """Bring `.venv` up to date; return the exit status."""
    parser = argparse.ArgumentParser(description="Make .venv ready for the Makefile's targets.")
    parser.add_argument("--force", action="store_true", help="run even when nothing has changed")
    force = parser.parse_args().force
    try:
        _refuse_old_python()
        with open(__file__) as own:
            fcntl.flock(own, fcntl.LOCK_EX)  # two targets started at once wait for each other
            if force or not _is_current():
                _install()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nsetup: interrupted; run the same command again to go on.", file=sys.stderr)
        return 130
    return 0


def _refuse_old_python() -> None:
    if sys.version_info[:2] < OLDEST_PYTHON:
        have = ".".join(str(part) for part in sys.version_info[:2])
        want = ".".join(str(part) for part in OLDEST_PYTHON)
        raise SetupError(
            f"Vidgen needs Python {want} or newer and `{sys.executable}` is {have}; "
            "name a newer one, e.g. `make demo PYTHON=python3.12`."
        )


def _stamp() -> str:
    """Everything that makes an existing `.venv` stale when it changes."""
    digest = hashlib.sha256()
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return f"{ROOT}\n{digest.hexdigest()}\n"


def _is_current() -> bool:
    return PYTHON.exists() and STAMP.exists() and STAMP.read_text() == _stamp()


def _install() -> None:
    began = time.monotonic()
    _make_venv()
    STAMP.unlink(missing_ok=True)
    LOG.write_text("")
    _drop_half_installed()
    torch = _torch_of(PYTHON) or _install_torch()
    _say(f"torch {torch}")
    _install_project(torch)
    STAMP.write_text(_stamp())
    _say(f"ready after {time.monotonic() - began:.0f} s")


def _make_venv() -> None:
    moved = STAMP.exists() and STAMP.read_text().splitlines()[:1] != [str(ROOT)]
    if PYTHON.exists() and not moved and _runs([str(PYTHON), "-m", "pip", "--version"]):
        return
    options = ["--clear"] if VENV.exists() else []
    kept = _torch_of(_base_python())
    if kept:
        options.append("--system-site-packages")
    _say(f"new .venv with Python {sys.version.split()[0]}" + (f", torch {kept}" if kept else ""))
    command = [sys.executable, "-m", "venv", *options, str(VENV)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(
            f"`{' '.join(command)}` failed ({_last_line(done.stdout + done.stderr)}); on Debian "
            "`apt-get install python3-venv` brings what is missing."
        )


def _base_python() -> Path:
    """Return the interpreter whose packages a new venv can see, also from inside another venv."""
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return own if own.exists() else Path(sys.executable)


def _drop_half_installed() -> None:
    """Remove the metadata of packages whose installation was cut off, so that pip redoes them.

    pip writes RECORD last; without it a package counts as installed and cannot be mended.
    """
    for info in VENV.glob("lib/python3*/site-packages/*.dist-info"):
        if not (info / "RECORD").exists():
            shutil.rmtree(info)


def _torch_of(python: Path) -> str | None:
    """Return the version of an interpreter's torch if it imports and is in range."""
    code = "import torch; print(torch.__version__)"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    version = done.stdout.strip()
    match = re.match(r"(\d+)\.(\d+)", version)
    if done.returncode != 0 or match is None:
        return None
    low, high = TORCH_RANGE
    return version if low <= (int(match[1]), int(match[2])) < high else None


def _install_torch() -> str:
    if sys.platform == "darwin":
        _say(f"installing torch {TORCH}")
        _pip("install", f"torch=={TORCH}")
    elif _runs(["nvidia-smi"]):
        _say(f"installing torch {TORCH} for CUDA (several GB)")
        _pip("install", f"torch=={TORCH}")
    else:
        _say(f"installing torch {TORCH} for CPU (about 200 MB)")
        _install_cpu_torch()
    version = _torch_of(PYTHON)
    if version is None:
        raise SetupError(
            f"torch was installed but does not import; try `{PYTHON} -c 'import torch'`."
        )
    return version


def _install_cpu_torch() -> None:
    """Install the CPU build: from pip's own sources if they have it, else through uv.

    The default index holds only the CUDA build, under the same version number.
    """
    if _try_pip("install", f"torch=={TORCH}+cpu"):
        return
    uv = [str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON)]
    if _try_pip("install", "uv") and _logged([*uv, "--torch-backend", "cpu", f"torch=={TORCH}"]):
        return
    raise SetupError(
        f"the CPU build of torch could not be fetched (see {LOG}); install any torch from 2.11 on "
        f"with `{PYTHON} -m pip install ...` as pytorch.org says, then run the same command again."
    )


def _install_project(torch: str) -> None:
    _say("installing Vidgen and its dependencies (a few minutes)")
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        pins.write_text(_pins(torch, brings_triton=_brings_triton(PYTHON)))
        _pip("install", "-c", str(pins), "-e", ".[dev]")


def _pins(torch: str, *, brings_triton: bool) -> str:
    """Return constraints.txt and the torch that is there, which no dependency may replace.

    brings_triton  that torch needs a triton of its own choice, so ours is not pinned
    """
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    if brings_triton:
        lines = [line for line in lines if not line.startswith("triton==")]
    return "\n".join([*lines, f"torch=={torch}", ""])


def _brings_triton(python: Path) -> bool:
    """Return whether an interpreter's torch requires triton, as builds for CUDA do."""
    code = "import importlib.metadata as m; print(*(m.requires('torch') or []), sep='\\n')"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    return any(re.match(r"triton\b", line) for line in done.stdout.splitlines())


def _pip(*arguments: str) -> None:
    if not _try_pip(*arguments):
        raise SetupError(
            f"`pip {' '.join(arguments)}` failed: {_last_line(LOG.read_text())} "
            f"(all of it: {LOG}); see that the package index can be reached, then run the same "
            "command again."
        )


def _try_pip(*arguments: str) -> bool:
    return _logged([str(PYTHON), "-m", "pip", "--disable-pip-version-check", *arguments])


def _logged(command: list[str]) -> bool:
    """Run a command in the project's folder with its output in the log; say whether it worked."""
    environment = {**os.environ, "PIP_NO_INPUT": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False
        )
    return done.returncode == 0


def _runs(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _last_line(text: str) -> str:
    """Return the last line that names an error, else the last that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|\w+Error):", line)]
    return (errors or lines or ["no output"])[-1]


def _say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
