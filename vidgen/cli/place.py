"""Where a command works: its settings, its home, and the device that it plans for and runs on."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vidgen.cli.options import Common
from vidgen.cli.upper import without_server_settings
from vidgen.device import (
    DeviceProfile,
    named,
    profiles,
    self_tested,
    this_cpu,
    this_gpu,
    this_machine,
    visible_gpu,
)
from vidgen.errors import BadRequest, Unsupported
from vidgen.home import Home, find_home
from vidgen.settings import Settings, gather


@dataclass(frozen=True, slots=True)
class Device:
    """A device for planning and, unless it is only a name, for running.

    torch_name  "cpu" or "cuda:0"; empty for a profile of a machine that is not this one
    note        what a person should know of the choice, if anything
    """

    profile: DeviceProfile
    torch_name: str
    note: str = ""


def home_of(common: Common) -> Home:
    """Return the folder of settings and caches."""
    return find_home(common.home, os.environ)


def settings_of(common: Common, flags: dict[str, Any]) -> Settings:
    """Lay the given flags over everything below them.

    When they say offline, that holds for huggingface_hub too, which looks once, at its import.
    """
    named_file = os.environ.get("VIDGEN_CONFIG")
    config = common.config or (Path(named_file) if named_file else None)
    home = home_of(common)
    environ = without_server_settings(os.environ)
    found = gather(flags, config=config, home=home, environ=environ, folder=Path())
    if found.switch("offline"):
        os.environ["HF_HUB_OFFLINE"] = "1"
    return found


CUDA = r"cuda(?::(\d{1,4}))?"


def find_device(settings: Settings, home: Home, *, only_planning: bool) -> Device:
    """Return the device that is asked for; to run on it, torch must be able to use it, and the
    profile lists the attention backends that work on it.

    Raises  Unsupported, BadRequest or NotFound
    """
    found = _asked(settings.own("device", "auto"), home, only_planning=only_planning)
    if only_planning:
        return found
    return replace(found, profile=self_tested(found.profile, found.torch_name))


def _asked(asked: str, home: Home, *, only_planning: bool) -> Device:
    # CUDA counts the fastest GPU first unless told to count as nvidia-smi does.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if asked == "auto":
        return _auto(home, only_planning=only_planning)
    if asked == "cpu":
        machine = this_machine(home.device, None)
        return Device(machine if machine.kind == "cpu" else this_cpu(), "cpu")
    match = re.fullmatch(CUDA, asked)
    if match is not None:
        return _cuda(asked, int(match[1] or 0), home, only_planning=only_planning)
    profile = named(asked)
    if not only_planning:
        raise BadRequest(
            f"device={asked} is a named profile ({', '.join(profiles())}), which is for --dry-run; "
            "run on auto, cpu or cuda.",
            field="device",
        )
    return Device(profile, "")


def _gpu(index: int) -> str | None:
    return visible_gpu(index, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _auto(home: Home, *, only_planning: bool) -> Device:
    machine = this_machine(home.device, _gpu(0))
    if machine.kind == "cpu":
        return Device(machine, "cpu")
    if only_planning or torch_can_use(0):
        return Device(machine, "cuda:0")
    note = f"{machine.title} stays idle: this torch cannot use it (see `vidgen doctor`)"
    return Device(this_cpu(), "cpu", note)


def _cuda(asked: str, index: int, home: Home, *, only_planning: bool) -> Device:
    """Return a GPU; a stored profile is of the first one."""
    machine = this_machine(home.device, _gpu(0)) if index == 0 else this_gpu(_gpu(index))
    if machine is None or machine.kind != "cuda" or not (only_planning or torch_can_use(index)):
        raise Unsupported(
            f"device={asked} is not here: there is no such NVIDIA GPU that this torch can use; "
            "take another one or device=cpu, or see `vidgen doctor`.",
            field="device",
        )
    return Device(machine, f"cuda:{index}")


def torch_can_use(index: int) -> bool:
    """Whether torch itself, which is loaded to be asked, can use a GPU."""
    import torch

    return torch.cuda.is_available() and index < torch.cuda.device_count()
