"""Where a command works: its settings, its home, and the device that it plans for and runs on."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vidgen.cli.options import Common
from vidgen.device import DeviceProfile, named, profiles, this_cpu, this_machine
from vidgen.errors import BadRequest, Unsupported
from vidgen.home import Home, find_home
from vidgen.settings import Settings, gather


@dataclass(frozen=True, slots=True)
class Device:
    """A device for planning and, unless it is only a name, for running.

    torch_name  "cpu" or "cuda:0"; empty for a profile of a machine that is not this one
    """

    profile: DeviceProfile
    torch_name: str


def home_of(common: Common) -> Home:
    """Return the folder of settings and caches."""
    return find_home(common.home, os.environ)


def settings_of(common: Common, flags: dict[str, Any]) -> Settings:
    """Lay the given flags over everything below them."""
    named_file = os.environ.get("VIDGEN_CONFIG")
    config = common.config or (Path(named_file) if named_file else None)
    return gather(flags, config=config, home=home_of(common), environ=os.environ, folder=Path())


def find_device(settings: Settings, home: Home, *, only_planning: bool) -> Device:
    """Return the device that is asked for.

    Raises  Unsupported, BadRequest or NotFound
    """
    asked = settings.own("device", "auto")
    machine = this_machine(home.device)
    if asked == "auto":
        return Device(machine, "cuda:0" if machine.kind == "cuda" else "cpu")
    if asked == "cpu":
        return Device(machine if machine.kind == "cpu" else this_cpu(), "cpu")
    match = re.fullmatch(r"cuda(?::(\d+))?", asked)
    if match is not None:
        if machine.kind != "cuda":
            raise Unsupported(
                f"device={asked} is not here: no NVIDIA GPU that this torch can use; take "
                "device=cpu, or see `vidgen doctor`.",
                field="device",
            )
        return Device(machine, f"cuda:{match[1] or 0}")
    profile = named(asked)
    if not only_planning:
        raise BadRequest(
            f"device={asked} is a named profile ({', '.join(profiles())}), which is for --dry-run; "
            "run on auto, cpu or cuda.",
            field="device",
        )
    return Device(profile, "")
