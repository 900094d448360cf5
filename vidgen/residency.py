"""Where weights are while a clip is made: all on the device, part by part, or block by block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from vidgen.components import Components, release
from vidgen.errors import Unsupported
from vidgen.workload import Offload


def find_device(name: str) -> torch.device:
    """Return the device of a name, "cpu" or "cuda:0".

    Raises  Unsupported when this machine does not have it
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    count = torch.cuda.device_count()
    if device is not None and device.type == "cpu":
        return device
    if device is not None and device.type == "cuda" and (device.index or 0) < count:
        return device
    there = ", ".join(["cpu", *(f"cuda:{i}" for i in range(count))])
    raise Unsupported(
        f"device={name} is not one that torch can use here; use {there}.", field="device"
    )


class Residency:
    """Moves a model's parts between host and device by one rule.

    none    everything stays on the device
    model   a part comes for its stage and goes back; of two experts only the working one is there
    group   the transformers stream block by block (diffusers' group offload); other parts as model
    """

    def __init__(self, components: Components, device: torch.device, offload: Offload) -> None:
        self.device = device
        self.offload = offload
        self._components = components
        self._host = torch.device("cpu")
        self._working: Any = None  # the expert on the device, with offload=model
        if offload == "none":
            for part in self._parts():
                part.to(device)
        elif offload == "group":
            for expert in components.transformers:
                _stream(expert, device)

    def _parts(self) -> list[Any]:
        rest = [self._components.vae, self._components.image_encoder]
        return [*self._components.transformers, *(part for part in rest if part is not None)]

    @contextmanager
    def on_device(self, part: Any) -> Iterator[None]:
        """Have a part on the device for a while."""
        if self.offload == "none":
            yield
            return
        try:
            part.to(self.device)  # weight by weight: when memory runs out, some are there already
            yield
        finally:
            part.to(self._host)
            release(self.device)

    def bring_expert(self, expert: Any) -> None:
        """Have an expert on the device, and the other one not."""
        if self.offload != "model" or expert is self._working:
            return
        self.rest_experts()
        self._working = expert
        expert.to(self.device)

    def rest_experts(self) -> None:
        """Send the working expert back."""
        if self._working is None:
            return
        self._working.to(self._host)
        self._working = None
        release(self.device)


def _stream(expert: Any, device: torch.device) -> None:
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        expert,
        onload_device=device,
        offload_device=torch.device("cpu"),
        offload_type="leaf_level",
        use_stream=device.type == "cuda",
    )
