"""Requests for every task of every family, and the same thing asked of unmodified diffusers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from vidgen.components import Components
from vidgen.device import named
from vidgen.engine import Engine
from vidgen.families import FAMILIES, Family, Task
from vidgen.inputs import Inputs
from vidgen.plan import Plan, plan
from vidgen.request import parse_request
from vidgen.tiny import tiny_components, tiny_model

ENGINES: dict[str, Engine] = {}
PROMPT = "a big red ball moves quickly left over the sand"


@dataclass(frozen=True)
class Case:
    family: Family
    task: Task

    @property
    def name(self) -> str:
        return f"{self.family.name}-{self.task}"

    @property
    def has_golden(self) -> bool:
        """diffusers knows no pinned frames but the first where tokens have their own times."""
        return not (self.family.token_times and self.task not in ("t2v", "i2v"))


CASES = [Case(family, task) for family in FAMILIES for task in family.tasks]
GOLDEN = [case for case in CASES if case.has_golden]


def engine_for(case: Case) -> Engine:
    """The engine of a family's tiny model, one for all tests; each leaves it as it was."""
    name = case.family.name
    if name not in ENGINES:
        ENGINES[name] = Engine(tiny_model(case.family), tiny_components(case.family))
    return ENGINES[name]


def picture(seed: int, width: int = 64, height: int = 64) -> Image.Image:
    """A smooth 8-bit picture."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(np.float32) / 255


def video(num_frames: int, seed: int = 7) -> list[Image.Image]:
    return [picture(seed + i) for i in range(num_frames)]


def request_fields(case: Case, **changes: Any) -> dict[str, Any]:
    two = {"guidance_scale_2": 2.5} if case.family.experts == 2 else {}
    extra: dict[str, Any] = {}
    if case.task == "v2v":
        extra = {"video": "in memory", "strength": 0.75}
    if case.task == "prefix":
        extra = {"video": "in memory", "prefix_frames": 5}
    return {
        "model": "toyworld", "prompt": PROMPT, "negative_prompt": "dark blurry", "width": 64,
        "height": 64, "num_frames": 9, "num_inference_steps": 3, "guidance_scale": 3.0, "seed": 11,
        "scheduler": "unipc", **two, **extra, **changes,
    }  # fmt: skip


def inputs_of(case: Case, seed: int = 1) -> Inputs:
    first, last = pixels(picture(seed)), pixels(picture(seed + 1))
    if case.task == "i2v":
        return Inputs(image=first)
    if case.task == "flf2v":
        return Inputs(image=first, last_image=last)
    if case.task == "last":
        return Inputs(last_image=last)
    if case.task == "prefix":
        return Inputs(video=np.stack([pixels(frame) for frame in video(5, seed)]))
    if case.task == "v2v":
        return Inputs(video=np.stack([pixels(frame) for frame in video(9, seed)]))
    if case.task == "vace":
        frames = np.stack([pixels(frame) for frame in video(9, seed)])
        mask = np.zeros_like(frames)
        mask[3:, :, :32] = 1
        return Inputs(video=frames, mask=mask, references=(pixels(picture(seed + 50, 48, 80)),))
    return Inputs()


def make_plan(case: Case, inputs: Inputs | None = None, **changes: Any) -> Plan:
    request = parse_request(request_fields(case, **changes))
    given = inputs_of(case) if inputs is None else inputs
    return plan(request, named("cpu"), given, tiny_model(case.family))


def golden(case: Case, parts: Components, made: Plan, inputs: Inputs) -> torch.Tensor:
    """The latents of unmodified diffusers for the same request."""
    import diffusers

    scheduler = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=made.flow_shift
    )
    common: dict[str, Any] = {
        "tokenizer": parts.tokenizer, "text_encoder": parts.load_text_encoder(), "vae": parts.vae,
        "transformer": parts.transformer, "scheduler": scheduler,
    }  # fmt: skip
    call: dict[str, Any] = {
        "prompt": made.request.prompt, "negative_prompt": made.request.negative_prompt,
        "width": 64, "height": 64, "num_inference_steps": made.num_inference_steps,
        "guidance_scale": 3.0, "generator": torch.Generator().manual_seed(made.seeds[0]),
        "max_sequence_length": case.family.text_length, "output_type": "latent",
    }  # fmt: skip
    two = {"transformer_2": parts.transformer_2, "boundary_ratio": made.boundary_ratio or None}
    if case.family.experts == 2:
        call["guidance_scale_2"] = 2.5
    if case.task == "v2v":
        pipe = diffusers.WanVideoToVideoPipeline(**common)
        frames = [as_pil(frame) for frame in inputs.video]
        return pipe(video=frames, strength=0.75, **call).frames[0]
    call["num_frames"] = made.num_frames
    if case.family.name == "wan2.1-vace":
        pipe = diffusers.WanVACEPipeline(**common)
        frames, mask = vace_conditions(case, made, inputs)
        references = [as_pil(item) for item in inputs.references]
        if references:
            call["reference_images"] = references
        return pipe(video=frames, mask=mask, **call).frames[0][:, len(references) :]
    tokens = {"expand_timesteps": case.family.token_times}
    if case.task == "t2v":
        return diffusers.WanPipeline(**common, **two, **tokens)(**call).frames[0]
    pipe = diffusers.WanImageToVideoPipeline(
        **common, **two, **tokens,
        image_encoder=parts.image_encoder, image_processor=parts.image_processor,
    )  # fmt: skip
    call["image"] = as_pil(inputs.image)
    if inputs.last_image is not None:
        call["last_image"] = as_pil(inputs.last_image)
    return pipe(**call).frames[0]


def as_pil(frame: Any) -> Image.Image:
    return Image.fromarray(np.rint(frame * 255).astype(np.uint8))


def vace_conditions(case: Case, made: Plan, inputs: Inputs) -> tuple[Any, Any]:
    """VACE's frames and masks as its documentation builds them: grey and white where to paint."""
    if case.task == "t2v":
        return None, None
    if case.task == "vace":
        return [as_pil(f) for f in inputs.video], [as_pil(f) for f in inputs.mask]
    # Mid-grey is 127.5 of 255: the exact zero of the model's range has no 8-bit value, so these are
    # float tensors (1, frames, 3, rows, columns).
    frames = torch.full((1, made.num_frames, 3, 64, 64), 0.5)
    mask = torch.ones_like(frames)
    given: dict[int, Any] = {}
    if inputs.image is not None:
        given[0] = inputs.image
    if inputs.last_image is not None:
        given[made.num_frames - 1] = inputs.last_image
    if inputs.video is not None:
        given |= dict(enumerate(inputs.video))
    for index, frame in given.items():
        frames[0, index] = torch.from_numpy(frame).permute(2, 0, 1)
        mask[0, index] = 0
    return frames, mask


def lora(path: Path, modules: dict[str, tuple[int, int]], scale: float = 0.3) -> str:
    """A LoRA file for {module: (in, out)} in diffusers' names."""
    generator = torch.Generator().manual_seed(3)
    tensors = {}
    for name, (width_in, width_out) in modules.items():
        down = torch.randn(4, width_in, generator=generator) * scale
        up = torch.randn(width_out, 4, generator=generator) * scale
        tensors[f"transformer.{name}.lora_A.weight"] = down
        tensors[f"transformer.{name}.lora_B.weight"] = up
    save_file(tensors, path)
    return str(path)
