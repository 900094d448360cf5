"""Building diffusers' own pipeline for one run, and the arguments of its call.

A pipeline object is thin and keeps a run's state, so each run gets a new one around the shared
weights and nothing can leak into the next. Where an input has to enter in a form that the pipeline
does not take, one method of that one object is replaced; the denoising loop is always diffusers'.
"""

from typing import TYPE_CHECKING, Any

import torch

from vidgen.components import Components
from vidgen.conditioning import (
    as_pil,
    picture_tensor,
    pinned_latents,
    vace_video,
)
from vidgen.history import make_history
from vidgen.inputs import Inputs
from vidgen.residency import Residency
from vidgen.schedule import make_scheduler, sigma_at

if TYPE_CHECKING:
    from vidgen.plan import Plan


def make_pipeline(components: Components, plan: "Plan", device: torch.device) -> Any:
    """Return a new diffusers pipeline for the plan's task around the given weights."""
    import diffusers

    name = plan.model.family.pipeline(plan.task)
    base = getattr(diffusers, name)
    # The parts may rest on different devices; diffusers would take the first part's.
    cls = type(name, (base,), {"_execution_device": property(lambda _: device)})
    parts: dict[str, Any] = {
        "tokenizer": components.tokenizer,
        "text_encoder": None,
        "vae": components.vae,
        "transformer": components.transformer,
        "scheduler": make_scheduler(plan.scheduler, plan.flow_shift, components.scheduler_config),
    }
    if name != "WanVideoToVideoPipeline":
        parts["transformer_2"] = components.transformer_2
        parts["boundary_ratio"] = plan.boundary_ratio if components.transformer_2 else None
    if name in ("WanPipeline", "WanImageToVideoPipeline"):
        parts["expand_timesteps"] = components.expand_timesteps
    if name == "WanImageToVideoPipeline":
        parts["image_encoder"] = components.image_encoder
        parts["image_processor"] = components.image_processor
    pipe = cls(**parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def call_arguments(
    pipe: Any,
    components: Components,
    plan: "Plan",
    inputs: Inputs,
    residency: Residency,
    embeddings: list[torch.Tensor],
    seed: int,
) -> dict[str, Any]:
    """Return the pipeline call's arguments; inputs that need a special form are attached to `pipe`.

    embeddings  the prompt's and, with guidance, the negative prompt's
    """
    device = residency.device
    arguments: dict[str, Any] = {
        "prompt_embeds": embeddings[0].to(device),
        "negative_prompt_embeds": embeddings[1].to(device) if plan.guided else None,
        "height": plan.size.height,
        "width": plan.size.width,
        "num_inference_steps": plan.num_inference_steps,
        "guidance_scale": plan.guidance_scale,
        "generator": torch.Generator("cpu").manual_seed(seed),
        "max_sequence_length": plan.text_length,
        "output_type": "latent",
        "return_dict": False,
    }
    name = plan.model.family.pipeline(plan.task)
    if name != "WanVideoToVideoPipeline":
        arguments["num_frames"] = plan.num_frames
        if components.transformer_2 is not None:
            arguments["guidance_scale_2"] = plan.guidance_scale_2
    if name == "WanVideoToVideoPipeline":
        frames = inputs.frames()
        assert frames is not None
        video = torch.from_numpy(frames[: plan.num_frames].copy()).permute(0, 3, 1, 2)
        arguments |= {"video": video.unsqueeze(0), "strength": plan.strength}
    elif name == "WanVACEPipeline":
        _attach_vace(pipe, plan, inputs, device)
        arguments["conditioning_scale"] = plan.conditioning_scale
    elif name == "WanImageToVideoPipeline":
        arguments |= _image_arguments(pipe, components, plan, inputs, residency, seed)
    return arguments


def _image_arguments(
    pipe: Any,
    components: Components,
    plan: "Plan",
    inputs: Inputs,
    residency: Residency,
    seed: int,
) -> dict[str, Any]:
    family = plan.model.family
    loose = plan.history == "renoise" or plan.history_noise > 0
    if family.token_times and (plan.task != "i2v" or loose):
        _attach_pins(pipe, plan, inputs, residency, seed)
        return {"image": torch.zeros(1, 3, plan.size.height, plan.size.width)}
    assert inputs.image is not None
    pictures = [inputs.image] if inputs.last_image is None else [inputs.image, inputs.last_image]
    if family.image_encoder:
        with residency.on_device(components.image_encoder):
            images = [as_pil(picture) for picture in pictures]
            seen = pipe.encode_image(images if len(images) > 1 else images[0], residency.device)
        pipe.encode_image = lambda *_: seen
    arguments = {"image": picture_tensor(pictures[0])}
    if len(pictures) > 1:
        arguments["last_image"] = picture_tensor(pictures[1])
    return arguments


def _attach_pins(pipe: Any, plan: "Plan", inputs: Inputs, residency: Residency, seed: int) -> None:
    """Give the loop any set of latent frames, clean or not, instead of a clean first one only.

    The pipe's `history` is what the loop has to know of frames that are not clean.
    """
    from diffusers.utils.torch_utils import randn_tensor

    vae = pipe.vae

    def prepare_latents(*args: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        device, generator, latents = residency.device, args[8], args[9]
        condition, mask = pinned_latents(vae, plan, inputs)
        noise = latents
        if noise is None:
            noise = randn_tensor(condition.shape, generator, device=device, dtype=torch.float32)
        pipe.history = history = make_history(plan, condition, seed)
        if history is not None and history.level is not None:
            condition = history.put(condition, history.level)
        elif history is not None:
            mask[:, :, : history.frames] = 1
            if latents is None:
                noise = history.put(noise, sigma_at(pipe.scheduler, plan.steps, 0))
        return noise, condition.to(device), mask.to(device)

    pipe.prepare_latents = prepare_latents


def _attach_vace(pipe: Any, plan: "Plan", inputs: Inputs, device: torch.device) -> None:
    """Give the pipeline float frames; its own reader takes 8-bit pictures only."""
    stock = pipe.preprocess_conditions

    def preprocess_conditions(*args: Any) -> tuple[torch.Tensor, torch.Tensor, Any]:
        references = [as_pil(picture) for picture in inputs.references] or None
        _, _, placed = stock(None, None, references, *args[3:])
        video, mask = vace_video(plan, inputs)
        return video.to(device), mask.to(device), placed

    pipe.preprocess_conditions = preprocess_conditions
