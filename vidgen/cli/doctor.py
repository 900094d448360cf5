"""`vidgen doctor`: what this machine has, and whether it works; loads torch, but no model."""

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.place import find_device, home_of
from vidgen.cli.report import Reporter
from vidgen.cli.upper import server_checks
from vidgen.errors import VidgenError
from vidgen.home import Home
from vidgen.settings import Settings

LOW_DISK = 5 * 2**30
_MARK = {"ok": "ok   ", "note": "note ", "fault": "FAULT"}


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; a note is good to know, a fault keeps clips from being made."""

    name: str
    state: Literal["ok", "note", "fault"]
    text: str


@flowing
def doctor(*, common: CommonOf = Common()) -> int:  # noqa: B008 - frozen
    """Check this machine; exit code 1 when something is at fault."""
    reporter = Reporter(common)
    home = home_of(common)
    checks = list(_all_checks(home))
    healthy = all(item.state != "fault" for item in checks)
    ends = ["Clips can be made here." if healthy else "Clips cannot be made here; see FAULT."]
    serving = list(_server_checks(common))
    if any(item.state == "fault" for item in serving):
        healthy = False
        ends.append("The server cannot run here as it is set up; see FAULT.")
    checks += serving
    lines = [f"{_MARK[item.state]}  {item.name}: {item.text}" for item in checks] + ends
    reporter.answer({"healthy": healthy, "checks": [asdict(item) for item in checks]},
                    "\n".join(lines))  # fmt: skip
    return 0 if healthy else 1


def _all_checks(home: Home) -> Iterator[Check]:
    yield Check("python", "ok", f"{sys.version.split()[0]}, {os.cpu_count()} CPU cores")
    for name, test in (
        ("torch", _torch),
        ("device", lambda: _device(home)),
        ("diffusers", _diffusers),
        ("triton", _triton),
        ("toyworld", _toyworld),
        ("ffmpeg", _ffmpeg),
        ("colours", _colours),
        ("home", lambda: _home(home)),
        ("disk", _disk),
    ):
        yield _tried(name, test)
    yield from _backends(home)


def _server_checks(common: Common) -> Iterator[Check]:
    """Yield what the package of the server finds, where it is installed."""
    found = server_checks()
    if found is not None:
        try:
            yield from found(common)
        except VidgenError as error:
            yield Check("server settings", "fault", error.message)


def _tried(name: str, test: Callable[[], Check]) -> Check:
    try:
        return test()
    except (ImportError, OSError, RuntimeError, VidgenError) as error:
        return Check(name, "fault", " ".join(str(error).split()) or type(error).__name__)


def _torch() -> Check:
    import torch

    cuda = torch.version.cuda
    build = f"CUDA {cuda}" if cuda else "CPU build"
    usable = torch.cuda.is_available()
    gpus = f"torch can use {torch.cuda.device_count()} GPUs" if usable else "torch can use no GPU"
    text = f"{torch.__version__} ({build}), {torch.get_num_threads()} threads, {gpus}"
    return Check("torch", "note" if cuda and not usable else "ok", text)


def _device(home: Home) -> Check:
    """Say what --device auto takes."""
    found = find_device(Settings({}), home, only_planning=False)
    profile = found.profile
    memory = profile.memory_bytes / 2**30
    text = f"{profile.title}, {memory:.1f} GiB, rates: {profile.rates.source}"
    if found.note:
        return Check("device", "note", f"{text}; {found.note}")
    return Check("device", "ok", text)


def _backends(home: Home) -> Iterator[Check]:
    """Try every attention backend that is installed for the device that --device auto takes."""
    try:
        found = find_device(Settings({}), home, only_planning=False)
    except VidgenError:
        return  # "device" has said it
    from attention.self_test import SLOW, self_test

    profile = found.profile
    names = (*profile.backends, *dict(profile.problems))
    tried = self_test(found.torch_name, [name for name in names if name not in SLOW])
    usual = "cpu" if profile.kind == "cpu" else "triton"
    for name in names:
        if name in SLOW:
            text = "installed; it compiles for long, so its first use is its test"
            yield Check(f"backend {name}", "note", text)
        elif tried[name].problem:
            state: Literal["note", "fault"] = "fault" if name == usual else "note"
            yield Check(f"backend {name}", state, f"failed: {tried[name].problem}")
        else:
            text = f"off by {tried[name].off:.2g}, allowed {tried[name].allowed:.2g}"
            yield Check(f"backend {name}", "ok", text)


def _diffusers() -> Check:
    """Judge the version by the range that the package itself declares."""
    import diffusers
    from packaging.requirements import Requirement

    version = diffusers.__version__
    declared = [Requirement(text) for text in importlib.metadata.requires("vidgen") or []]
    tested = next(item.specifier for item in declared if item.name == "diffusers")
    if not tested.contains(version, prereleases=True):
        return Check("diffusers", "fault", f"{version} is outside the tested range {tested}")
    return Check("diffusers", "ok", f"{version}, tested range {tested}")


def _triton() -> Check:
    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return Check("triton", "note", "not installed; only GPU kernels need it")
    return Check("triton", "ok", version)


def _toyworld() -> Check:
    from vidgen.models import DEFAULT_MODEL, resolve

    folder = resolve(DEFAULT_MODEL).folder
    assert folder is not None
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return Check("toyworld", "ok", f"bundled, {size / 2**20:.1f} MiB")


def _ffmpeg() -> Check:
    import av
    from imageio_ffmpeg import get_ffmpeg_version

    needed = ("libx264", "libx265", "ffv1", "prores_ks", "libvpx-vp9", "gif", "png")
    lost = [name for name in needed if name not in av.codecs_available]
    text = f"PyAV {av.__version__}, program {get_ffmpeg_version()}"
    if lost:
        return Check("ffmpeg", "fault", f"{text}; PyAV lacks {', '.join(lost)}")
    return Check("ffmpeg", "ok", text)


def _colours() -> Check:
    """Write saturated patches through the default profile and read them back."""
    import numpy as np

    from vidgen.media import VideoWriter, probe_video, read_video

    levels = np.array([0, 64, 128, 192, 255], np.uint8)
    patches = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(-1, 3)[:64]
    frame = patches.reshape(8, 8, 3).repeat(16, 0).repeat(16, 1)
    with tempfile.TemporaryDirectory(prefix="vidgen-doctor-") as folder:
        path = Path(folder, "patches.mp4")
        with VideoWriter(path, width=128, height=128, fps=Fraction(16)) as writer:
            writer.write(np.stack([frame] * 3))
        info = probe_video(path)
        back = np.concatenate(list(read_video(path)))
    centres = slice(8, None, 16)
    bias = float((back[:, centres, centres] * 255 - frame[centres, centres]).mean())
    text = f"one trip through mp4 shifts patches by {bias:+.2f} levels, tagged {info.matrix}"
    tagged = (info.matrix, info.range) == ("bt709", "tv")
    return Check("colours", "ok" if abs(bias) <= 0.5 and tagged else "fault", text)


def _home(home: Home) -> Check:
    home.root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=home.root):
        return Check("home", "ok", f"{home.root} can be written")


def _disk() -> Check:
    free = shutil.disk_usage(Path()).free
    text = f"{free / 2**30:.1f} GiB free in this folder"
    return Check("disk", "ok" if free >= LOW_DISK else "note", text)
