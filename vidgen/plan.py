"""Plan: the complete, frozen decision about one request on one device, made without torch.

Everything that was left open in the request is a value here, and everything that had to differ from
what was asked is listed in `adjustments`. Nothing is decided again after this.
"""

import dataclasses
import secrets
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from attention import Grid
from vidgen.adjustment import Adjustment
from vidgen.attention_plan import AttentionPlan, plan_attention
from vidgen.attention_share import attention_share, attention_spread, sparse_part
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest, DoesNotFit
from vidgen.estimate import estimate
from vidgen.families import Recipe, Task
from vidgen.inputs import Inputs, load_inputs
from vidgen.lora_files import LoraMatch, match_loras
from vidgen.models import Model, resolve
from vidgen.placing import fit_to_device, tiling, workload
from vidgen.prompts import TokenCount, count_tokens, too_long
from vidgen.request import VideoRequest
from vidgen.request_values import LoraSpec
from vidgen.shape import choose_shape, refuse_beyond_positions
from vidgen.sizing import Size, token_grid
from vidgen.tasks import choose_task, refuse_unused
from vidgen.trained_sparse import assumed_values
from vidgen.workload import Dtype, Estimate, Offload, Tiling, Workload

if TYPE_CHECKING:
    from vidgen.media.fit import Fit


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, complete: no "auto" and nothing left open.

    size             pixels generated and pixels written
    grid             tokens of one forward, without reference frames
    steps            denoising steps that are run (fewer than asked for video to video)
    seeds            one per clip
    guided           a second forward without the prompt is made each step
    prefix_frames    frames at the start that are given, 0 if none
    history          how they enter, and history_noise at what noise level, 0..1
    lora_matches     of the LoRAs whose names can be compared without loading weights
    fidelity         how the result relates to unmodified diffusers at the same seed
    """

    request: VideoRequest
    model: Model
    device: DeviceProfile
    task: Task
    size: Size
    num_frames: int
    fps: Fraction
    grid: Grid
    num_inference_steps: int
    steps: int
    scheduler: Literal["unipc", "euler"]
    flow_shift: float
    guidance_scale: float
    guidance_scale_2: float
    guided: bool
    boundary_ratio: float
    negative_prompt: str
    prompt_tokens: TokenCount
    text_length: int
    seeds: tuple[int, ...]
    prefix_frames: int
    history: Literal["pin", "renoise"]
    history_noise: float
    strength: float
    conditioning_scale: float
    fit: "Fit"
    loras: tuple[LoraSpec, ...]
    lora_matches: tuple[LoraMatch, ...]
    attention: AttentionPlan
    dtype: Dtype
    vae_dtype: Dtype
    offload: Offload
    vae_tiling: Tiling
    fidelity: str
    estimate: Estimate
    adjustments: tuple[Adjustment, ...]
    notes: tuple[str, ...]

    @property
    def seconds(self) -> Fraction:
        """Exact length of the clip."""
        return self.num_frames / self.fps

    @property
    def latent_frames(self) -> int:
        """Latent frames of the clip."""
        return self.model.family.latent_frames(self.num_frames)

    @property
    def sparse_part(self) -> float:
        """Share of all self-attentions of the run, over layers and steps, that are sparse."""
        steps = (self.num_inference_steps - self.steps, self.num_inference_steps)
        return sparse_part(self.attention, self.model, steps, self.flow_shift)

    def check_fits(self) -> None:
        """Raise DoesNotFit if even the lower bound of the memory needed is more than there is."""
        cost, device = self.estimate, self.device
        self._check(cost.device_bytes.low, device.memory_bytes, device.title)
        self._check(cost.host_bytes.low, device.host_bytes, "this machine's RAM")

    def _check(self, need: float, have: float, where: str) -> None:
        if need <= have:
            return
        ways = ["a smaller size", "fewer frames"]
        if self.device.kind == "cuda" and self.offload != "group":
            ways.append("offload=group")
        if self.vae_tiling != "tiles":
            ways.append("vae_tiling=on")
        raise DoesNotFit(
            f"Needs at least {need / 2**30:.1f} GiB, {where} has {have / 2**30:.1f} GiB; ask for "
            f"{', '.join(ways[:-1])} or {ways[-1]}.",
            field="offload",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        return {
            "request": self.request.given(),
            "model": self.model.name,
            "family": self.model.family.name,
            "device": self.device.name,
            "task": self.task,
            "width": self.size.width,
            "height": self.size.height,
            "export_width": self.size.export_width,
            "export_height": self.size.export_height,
            "num_frames": self.num_frames,
            "fps": str(self.fps),
            "seconds": float(self.seconds),
            "grid": str(self.grid),
            "tokens": self.grid.tokens,
            "num_inference_steps": self.num_inference_steps,
            "steps": self.steps,
            "scheduler": self.scheduler,
            "flow_shift": self.flow_shift,
            "guidance_scale": self.guidance_scale,
            "guidance_scale_2": self.guidance_scale_2,
            "guided": self.guided,
            "boundary_ratio": self.boundary_ratio,
            "negative_prompt": self.negative_prompt,
            "prompt_tokens": str(self.prompt_tokens),
            "text_length": self.text_length,
            "seeds": list(self.seeds),
            "prefix_frames": self.prefix_frames,
            "history": self.history,
            "history_noise": self.history_noise,
            "strength": self.strength,
            "conditioning_scale": self.conditioning_scale,
            "fit": self.fit,
            "loras": [lora.model_dump() for lora in self.loras],
            "lora_matches": [dataclasses.asdict(match) for match in self.lora_matches],
            **self.attention.as_dict(),
            "dtype": self.dtype,
            "vae_dtype": self.vae_dtype,
            "offload": self.offload,
            "vae_tiling": self.vae_tiling,
            "fidelity": self.fidelity,
            "estimate": dataclasses.asdict(self.estimate),
            "adjustments": [item.as_dict() for item in self.adjustments],
            "notes": list(self.notes),
        }


def plan(
    request: VideoRequest,
    device: DeviceProfile,
    inputs: Inputs | None = None,
    model: Model | None = None,
) -> Plan:
    """Decide everything about a request on a device.

    inputs  what the request's files hold, when the caller has them already
    model   the model that the request names, when the caller has found it already
    Raises  BadRequest, Unsupported or NotFound; with `strict`, BadRequest for any adjustment
    """
    model = resolve(request.model) if model is None else model
    inputs = load_inputs(request) if inputs is None else inputs
    recipe = model.recipe
    found = list(inputs.adjustments)
    task = choose_task(request, inputs, model)
    refuse_unused(request, inputs, task, model)
    matches = match_loras(request.loras, model, found)
    shape = choose_shape(request, inputs, task, model, found)
    grid = token_grid(shape.size, shape.num_frames, model.family)
    refuse_beyond_positions(grid, len(inputs.references), model)
    guidance, guided = _guidance(request, recipe, found)
    negative = _negative(request, recipe, guided=guided, found=found)
    tokens = _tokens(request, negative, model, found)
    asked_steps = _or(request.num_inference_steps, recipe.num_inference_steps)
    strength = _or(request.strength, recipe.strength) if task == "v2v" else 1.0
    steps = _steps(asked_steps, strength)
    size = shape.size
    shift = _or(request.flow_shift, recipe.shift_for(size.width, size.height))
    work = workload(request, inputs, task, model, shape, device, steps=steps, guided=guided)
    attention = plan_attention(
        request,
        model,
        grid,
        device,
        dtype=work.dtype,
        flow_shift=shift,
        starts_given=task in ("i2v", "flf2v", "prefix"),
        found=found,
    )
    ran = attention, model, grid, (asked_steps - steps, asked_steps), shift
    work = dataclasses.replace(
        work, attention_share=attention_share(*ran), attention_spread=attention_spread(*ran)
    )
    work = fit_to_device(request, work, device)
    made = Plan(
        request=request,
        model=model,
        device=device,
        task=task,
        size=size,
        num_frames=shape.num_frames,
        fps=shape.fps,
        grid=grid,
        num_inference_steps=asked_steps,
        steps=steps,
        scheduler=_or(request.scheduler, recipe.scheduler),
        flow_shift=shift,
        guidance_scale=guidance,
        guidance_scale_2=_guidance_2(request, recipe, guidance),
        guided=guided,
        boundary_ratio=_or(request.boundary_ratio, recipe.boundary_ratio or 0.0),
        negative_prompt=negative,
        prompt_tokens=tokens,
        text_length=model.family.text_length,
        seeds=_seeds(request),
        prefix_frames=shape.prefix_frames,
        history=_or(request.history, "pin"),
        history_noise=_or(request.history_noise, 0.0),
        strength=strength,
        conditioning_scale=_or(request.conditioning_scale, 1.0),
        fit=shape.fit,
        loras=request.loras,
        lora_matches=matches,
        attention=attention,
        dtype=work.dtype,
        vae_dtype=work.vae_dtype,
        offload=work.offload,
        vae_tiling=tiling(request, work),
        fidelity=_fidelity(
            work,
            attention,
            sparse_part(attention, model, *ran[3:]),
            task,
            recipe,
            device,
            clean=request.history != "renoise" and not request.history_noise,
        ),
        estimate=estimate(work, device),
        adjustments=tuple(found),
        notes=(
            *shape.notes,
            *assumed_values(model.trained, request.density),
            *_notes(request, device),
        ),
    )
    if request.strict and found:
        raise BadRequest(
            "strict: " + "; ".join(str(item) for item in found) + ".", field=found[0].field
        )
    return made


_Value = TypeVar("_Value")


def _or(asked: _Value | None, default: _Value) -> _Value:
    return default if asked is None else asked


def _guidance(request: VideoRequest, recipe: Recipe, found: list[Adjustment]) -> tuple[float, bool]:
    """Return the guidance and whether it is on: the pipelines guide only above 1."""
    asked = _or(request.guidance_scale, recipe.guidance_scale)
    if asked < 1:
        why = "guidance acts only above 1; at 1 or below the clip follows the prompt alone"
        found.append(Adjustment("guidance_scale", asked, 1.0, why))
    return max(asked, 1.0), asked > 1


def _negative(
    request: VideoRequest, recipe: Recipe, *, guided: bool, found: list[Adjustment]
) -> str:
    if not guided and request.negative_prompt:
        why = "a negative prompt acts only at guidance_scale above 1"
        found.append(Adjustment("negative_prompt", _short(request.negative_prompt), None, why))
    return _or(request.negative_prompt, recipe.negative_prompt) if guided else ""


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _guidance_2(request: VideoRequest, recipe: Recipe, guidance: float) -> float:
    """The low-noise expert's guidance; a given guidance_scale alone holds for both experts."""
    if request.guidance_scale_2 is not None:
        return request.guidance_scale_2
    if request.guidance_scale is not None or recipe.guidance_scale_2 is None:
        return guidance
    return recipe.guidance_scale_2


def _tokens(
    request: VideoRequest, negative: str, model: Model, found: list[Adjustment]
) -> TokenCount:
    """Count the prompt's tokens; those beyond what the model reads are an adjustment.

    Without the model's tokenizer there are only bounds; the engine counts again when it encodes.
    """
    counts = {}
    for name, text in (("prompt", request.prompt), ("negative_prompt", negative)):
        counts[name] = count_tokens(text, model)
        change = too_long(name, counts[name], model.family)
        if change is not None:
            found.append(change)
    return counts["prompt"]


def _steps(asked: int, strength: float) -> int:
    """Steps that are run; video to video skips the share that strength leaves out."""
    steps = min(int(asked * strength), asked)
    if steps < 1:
        least = next(value / 1000 for value in range(1, 1001) if int(asked * (value / 1000)) >= 1)
        raise BadRequest(
            f"strength={strength} of {asked} steps runs none; use at least {least}.",
            field="strength",
        )
    return steps


def _notes(request: VideoRequest, device: DeviceProfile) -> tuple[str, ...]:
    if device.kind == "cpu" and request.offload in ("model", "group"):
        return (f"offload={request.offload} saves nothing on a CPU: weights are in RAM anyway.",)
    return ()


def _seeds(request: VideoRequest) -> tuple[int, ...]:
    first = secrets.randbits(31) if request.seed is None else request.seed
    if first + request.n - 1 > 2**63 - 1:
        raise BadRequest(
            f"seed={first} with n={request.n} passes 2^63-1; use a smaller seed.", field="seed"
        )
    return tuple(first + i for i in range(request.n))


def _fidelity(
    work: Workload,
    attention: AttentionPlan,
    sparse: float,
    task: Task,
    recipe: Recipe,
    device: DeviceProfile,
    *,
    clean: bool,
) -> str:
    """Class of the ladder: L0 is bit-equal to unmodified diffusers, L1 differs by rounding, L2 by
    what is left out.
    """
    if attention.name != "dense":
        if sparse == 0:
            return "L1: every step or layer stays dense, over tokens in another order"
        return f"L2: attention reads a part of the keys ({attention.summary})"
    if attention.backend != "sdpa":
        return f"L1: attention by {attention.backend} instead of torch SDPA"
    if work.vae_tiling:
        return "L1: decoded in tiles, which changes pixels at the seams"
    if device.kind == "cuda" and work.dtype != recipe.dtype:
        return f"L1: {work.dtype} instead of the recipe's {recipe.dtype}"
    if work.token_times and (task not in ("t2v", "i2v") or not clean):
        return "L0: the model's own arithmetic; unmodified diffusers has no such task to compare"
    return "L0: bit-equal to unmodified diffusers on this device"
