"""The device of a worker: which one is meant, and the lock that keeps others off it."""

import fcntl
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from chaining.files import Busy
from vidgen.device import this_gpu, visible_gpu
from vidgen.errors import BadRequest, Unsupported

_ASKED = re.compile(r"(cpu|cuda)(?::(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class WorkerDevice:
    """One device.

    name  as torch calls it: cpu or cuda:0
    id    the same for every process of this machine: the GPU's UUID, or cpu-<n>
    """

    name: str
    id: str


def find_worker_device(asked: str) -> WorkerDevice:
    """Return the device that is meant.

    asked   auto, cuda, cuda:<n>, cpu or cpu:<n>; CPU workers that run side by side have numbers
    Raises  BadRequest, Unsupported
    """
    # CUDA counts the fastest GPU first unless told to count as nvidia-smi does.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if asked == "auto":
        gpu = visible_gpu(0, os.environ.get("CUDA_VISIBLE_DEVICES"))
        asked = "cpu" if this_gpu(gpu) is None else "cuda"
    match = _ASKED.fullmatch(asked)
    if match is None:
        raise BadRequest(
            f"device={asked!r} is none of auto, cuda, cuda:<n>, cpu and cpu:<n>.", field="device"
        )
    number = int(match[2] or 0)
    if match[1] == "cpu":
        return WorkerDevice("cpu", f"cpu-{number}")
    return WorkerDevice(f"cuda:{number}", _uuid(number))


def _uuid(number: int) -> str:
    name = visible_gpu(number, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if name is not None and not name.isdigit():
        return name
    command = ["nvidia-smi", "-i", str(name), "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    found = "" if name is None or done is None or done.returncode else done.stdout.strip()
    if not found:
        raise Unsupported(
            f"device=cuda:{number} is not here: nvidia-smi knows no such GPU; see `vidgen doctor`.",
            field="device",
        )
    return found


class DeviceLock:
    """Keeps other workers off a device for as long as this process lives, however it ends."""

    def __init__(self, device: WorkerDevice, home: Path) -> None:
        """Take the lock. A GPU is locked for the whole machine, a CPU worker's number in its home.

        Raises  Busy when another process has it
        """
        shared = Path(tempfile.gettempdir()) / f"vidgen-{os.getuid()}"
        folder = home / "server" if device.name == "cpu" else shared
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9-]", "-", device.id)
        self._handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise Busy(
                f"Another worker runs on {device.id}; a device serves one worker at a time."
            ) from None

    def close(self) -> None:
        """Let others have the device."""
        os.close(self._handle)
