"""Placing: what work a request means for a device, where its weights lie and how it is decoded."""

import dataclasses

from vidgen.device import DeviceProfile
from vidgen.estimate import estimate
from vidgen.families import Recipe, Task
from vidgen.inputs import Inputs
from vidgen.models import Model
from vidgen.request import VideoRequest
from vidgen.shape import Shape, vae_encodes
from vidgen.sizing import token_grid
from vidgen.workload import Dtype, Offload, Tiling, Workload


def workload(
    request: VideoRequest,
    inputs: Inputs,
    task: Task,
    model: Model,
    shape: Shape,
    device: DeviceProfile,
    *,
    steps: int,
    guided: bool,
) -> Workload:
    """Return the work with everything on the device and the clip decoded whole.

    steps   denoising steps that are run
    guided  each step has a second forward
    """
    family = model.family
    images = 2 if task == "flf2v" else 1
    return Workload(
        configs=model.configs,
        experts=family.experts,
        width=shape.size.width,
        height=shape.size.height,
        num_frames=shape.num_frames,
        grid=token_grid(shape.size, shape.num_frames, family),
        reference_frames=len(inputs.references),
        forwards=steps * (2 if guided else 1),
        text_encodes=2 if guided else 1,
        text_length=family.text_length,
        token_times=family.token_times,
        vae_encodes=vae_encodes(task, shape, inputs, family),
        image_encodes=images if family.image_encoder else 0,
        dtype=_dtype(request, model.recipe, device),
        vae_dtype=model.recipe.vae_dtype,
        offload="none",
        vae_tiling=request.vae_tiling == "on",
        format=request.format,
    )


def fit_to_device(request: VideoRequest, work: Workload, device: DeviceProfile) -> Workload:
    """Choose what was left open so that the upper bound of the memory fits.

    Decoding whole is exact and comes first; then the fastest residency. If nothing fits, the
    smallest is planned and `check_fits` says what is missing.
    """
    offloads: tuple[Offload, ...] = ("none", "model", "group")
    if request.offload != "auto":
        offloads = (request.offload,)
    elif device.kind == "cpu":
        offloads = ("none",)
    tilings = {"auto": (False, True), "on": (True,), "off": (False,)}[request.vae_tiling]
    choice = work
    for tiled in tilings:
        for offload in offloads:
            choice = dataclasses.replace(work, offload=offload, vae_tiling=tiled)
            if estimate(choice, device).device_bytes.high <= device.memory_bytes:
                return choice
    return choice


def tiling(request: VideoRequest, work: Workload) -> Tiling:
    """What decoding may do: with auto, tiles only when memory runs out, unless that is certain."""
    if work.vae_tiling:
        return "tiles"
    return "whole_then_tiles" if request.vae_tiling == "auto" and not request.strict else "whole"


def _dtype(request: VideoRequest, recipe: Recipe, device: DeviceProfile) -> Dtype:
    if request.dtype != "auto":
        return request.dtype
    return "float32" if device.kind == "cpu" else recipe.dtype
