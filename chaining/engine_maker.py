"""EngineMaker: clips of a chain made by vidgen's engine, conditioned on arrays in memory only."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from chaining.capabilities import Capability, capabilities_of
from chaining.lengths import Lengths
from chaining.maker import ENVIRONMENT, Ask, Float, Made
from chaining.story import Story
from vidgen.clip import Clip
from vidgen.device import DeviceProfile
from vidgen.errors import Unsupported
from vidgen.events import Callback, CancelToken
from vidgen.inputs import Inputs, load_inputs
from vidgen.media import fit_image, read_image
from vidgen.models import DEFAULT_MODEL, Model, resolve
from vidgen.plan import Plan, plan
from vidgen.recipe import environment, latents_recipe, parse_recipe
from vidgen.request import VideoRequest, parse_request

if TYPE_CHECKING:
    import torch

    from vidgen.engine import Engine

IN_MEMORY = "in memory"  # names the video of a request whose frames are given as arrays


class EngineMaker:
    """One engine, and a request whose prompt, seed, length and pictures change from clip to clip.

    Size, rate and the length of a clip are decided once, as for a single clip of the story.
    """

    def __init__(self, story: Story, device: DeviceProfile, engine: "Engine") -> None:
        """Decide what is the same for all clips.

        engine  loaded for the story's model, on the device
        Raises  BadRequest, Unsupported, NotFound
        """
        self._device = device
        self._engine = engine
        self._model = engine.model
        self._story = story
        self.first_plan = first_plan(story, device, engine.model)
        size = self.first_plan.size
        self._size = (size.width, size.height)
        self._export_size = (size.export_width, size.export_height)
        self._lengths = Lengths.of(self._model.family, self.first_plan.num_frames)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the model's family takes."""
        return capabilities_of(self._model.family)

    @property
    def lengths(self) -> Lengths:
        """Legal clip lengths, up to the story's num_frames or the model's own."""
        return self._lengths

    @property
    def fps(self) -> Fraction:
        """Frames per second."""
        return self.first_plan.fps

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that are generated."""
        return self._size

    @property
    def export_size(self) -> tuple[int, int]:
        """Width and height that are written."""
        return self._export_size

    @property
    def identity(self) -> dict[str, Any]:
        """Model, weights, request and kind of device; and the environment, which may differ."""
        made = self.first_plan
        return {
            "model": self._model.name,
            "weights": self._engine.weights,
            "request": self._story.request,
            "size": list(self._size),
            "fps": str(self.fps),
            "num_frames": self._lengths.most,
            "device": self._device.kind,
            "dtype": made.dtype,
            ENVIRONMENT: {
                **environment(self._device.name),
                "attention_backend": made.attention.backend,
                "offload": made.offload,
                "vae_tiling": made.vae_tiling,
            },
        }

    def picture(self, path: str) -> Float:
        """Read a picture and fit it as the request says."""
        colour = self.first_plan.request.alpha_background
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        read = read_image(path, background=(red, green, blue))
        return fit_image(read.pixels_hwc, *self._size, self.first_plan.fit)

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        """Plan and run one clip, or go on with one that ended early."""
        began = time.perf_counter()
        clip = self._clip(ask, on, cancel)
        assert clip.frames is not None
        return Made(
            frames_frwc=clip.frames,
            latents_ctrw=clip.latents.detach().cpu().float().numpy(),
            recipe=clip.recipe,
            seconds=time.perf_counter() - began,
        )

    def _clip(self, ask: Ask, on: Callback | None, cancel: CancelToken | None) -> Clip:
        import torch

        from vidgen.latents import load_latents
        from vidgen.unfinished import load_unfinished

        inputs = clip_inputs(ask)
        request = clip_request(self._story.request, self._export_size, ask)
        made = plan(request, self._device, inputs, self._model)
        path = None if ask.keep is None else ask.keep / f"{ask.digest}.safetensors"
        resume = None
        if path is not None and path.is_file():
            if "unfinished" in parse_recipe(latents_recipe(path), str(path)):
                resume = load_unfinished(path)
            elif ask.context_ctrw is None:
                saved = load_latents(path)
                return self._engine.decode(saved, tiling=made.vae_tiling, on=on, cancel=cancel)
        return self._engine.run(
            made,
            inputs,
            on=on,
            cancel=cancel,
            latents_path=path,
            resume=resume,
            edit_latents=_edit(ask),
            context=None if ask.context_ctrw is None else torch.from_numpy(ask.context_ctrw.copy()),
        )


def first_plan(
    story: Story,
    device: DeviceProfile,
    model: Model | None = None,
    inputs: Inputs | None = None,
) -> Plan:
    """Plan the story's first clip at its full length: size, rate and cost of every clip follow it.

    inputs  what the first shot's picture holds, when the caller has it already
    Raises  BadRequest, Unsupported, NotFound
    """
    shot = story.shots[0]
    model = resolve(story.request.get("model", DEFAULT_MODEL)) if model is None else model
    if shot.image is None and "t2v" not in model.family.tasks:
        raise Unsupported(
            f"Shot 1 begins with no picture and {model.name} needs one; give the shot an image.",
            field="shots",
        )
    pictures = {"image": shot.image} if shot.image else {}
    data = {**story.request, "prompt": shot.prompt, "seed": 0, **pictures}
    if not pictures:
        data.pop("fit", None)
    request = parse_request(data)
    inputs = load_inputs(request) if inputs is None else inputs
    if "i2v" not in model.family.tasks and "flf2v" in model.family.tasks:  # it is given both ends
        inputs = replace(inputs, last_image=inputs.image)
    return plan(request, device, inputs, model)


def clip_request(fields: Mapping[str, Any], export_size: tuple[int, int], ask: Ask) -> VideoRequest:
    """Return the request for one clip.

    fields       those of the story, for every clip
    export_size  width and height that are written
    """
    width, height = export_size
    # Pictures are of the clip's size by now, so neither shape nor fit is open.
    data = {key: value for key, value in fields.items() if key not in ("aspect", "fit")}
    data |= {
        "prompt": ask.prompt,
        "seed": ask.seed,
        "num_frames": ask.num_frames,
        "width": width,
        "height": height,
    }
    if ask.prefix_frwc is not None:
        data |= {"video": IN_MEMORY, "prefix_frames": len(ask.prefix_frwc)}
    if ask.history_noise:
        data["history_noise"] = ask.history_noise
    if ask.renoise:
        data["history"] = "renoise"
    return parse_request(data)


def clip_inputs(ask: Ask) -> Inputs:
    """Return what a clip is conditioned on; the engine wants values in 0..1, to the last bit."""

    def clipped(pixels: Float | None) -> Float | None:
        return None if pixels is None else np.clip(pixels, 0, 1)

    return Inputs(
        image=clipped(ask.image_rwc),
        last_image=clipped(ask.last_image_rwc),
        video=clipped(ask.prefix_frwc),
        prefix_latents=ask.prefix_latents_ctrw,
    )


def _edit(ask: Ask) -> "Callable[[torch.Tensor], torch.Tensor] | None":
    """Return the change of latents as the engine calls it."""
    edit = ask.edit_latents
    if edit is None:
        return None
    import torch

    return lambda latents: torch.from_numpy(edit(latents.detach().cpu().float().numpy())).to(
        latents
    )
