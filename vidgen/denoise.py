"""Denoising: diffusers' own loop, watched. It can be stopped between any two forwards."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from vidgen.clip import Trace
from vidgen.components import Components
from vidgen.dense_backend import dense_attached
from vidgen.density import Density
from vidgen.errors import BadOutput
from vidgen.events import CancelToken, Preview
from vidgen.history import History
from vidgen.inputs import Inputs
from vidgen.pipelines import call_arguments, make_pipeline
from vidgen.preview import PreviewMap
from vidgen.residency import Residency
from vidgen.schedule import sigma_at
from vidgen.sparse import Moment, SparseSession
from vidgen.unfinished import Unfinished, remember, take_up

if TYPE_CHECKING:
    from vidgen.plan import Plan

StepReport = Callable[[int, float], None]


class Watch:
    """Sees every forward and every step of one run.

    on_step(step, seconds)  after each step: steps done, seconds since denoising began
    previews                how to colour latents, and where the pictures go
    references              latent frames before the clip's own (VACE)
    first_step              steps that an earlier run has done
    """

    def __init__(
        self,
        plan: "Plan",
        trace: Trace,
        cancel: CancelToken,
        on_step: StepReport,
        previews: tuple[PreviewMap, Callable[[Preview], None]] | None,
        references: int,
        first_step: int = 0,
    ) -> None:
        self._plan = plan
        self.trace = trace
        self._cancel = cancel
        self._on_step = on_step
        self._previews = previews
        self.references = references
        self._before: torch.Tensor | None = None
        # (given latents, mask that is 0 where they are given), where tokens have their own times
        self.pinned: tuple[torch.Tensor, torch.Tensor] | None = None
        self.history: History | None = None
        self.first_forward: float | None = None
        self.density: Density | None = None  # of sparse attention
        self.step = first_step
        self._forwards_of_step = 0
        self.unfinished: Unfinished | None = None

    def before_forward(self) -> None:
        """Called before each transformer call."""
        self._cancel.check(f"at denoising step {self.step + 1} of {self._plan.steps}")
        if self.first_forward is None:
            self.first_forward = time.perf_counter()
        self.trace.forwards += 1
        self._forwards_of_step += 1

    def moment(self, pipe: Any) -> Moment:
        """Return where the run stands, without asking the device."""
        sigma = sigma_at(pipe.scheduler, self._plan.steps, self.step)
        return Moment(self.step, sigma, self._forwards_of_step - 1)

    def after_step(
        self, pipe: Any, step: int, _timestep: Any, tensors: dict[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """diffusers' callback_on_step_end."""
        latents = tensors["latents"]
        self.step, self._forwards_of_step = step + 1, 0
        if not torch.isfinite(latents).all():
            raise BadOutput(
                f"The latents are not finite after step {step + 1} of {self._plan.steps}; try "
                "dtype=float32, another seed, or leave LoRAs out.",
                code="nan_latents",
            )
        if self.history is not None and self.history.level is None:
            sigma = sigma_at(pipe.scheduler, self._plan.steps, self.step)
            latents = self.history.put(latents, sigma)
        self.unfinished = remember(pipe.scheduler, latents, self.step)
        if self.density is not None:
            self.trace.density = self.density.share
        assert self.first_forward is not None
        self._on_step(self.step, time.perf_counter() - self.first_forward)
        if self._previews is not None and self.step < self._plan.steps:
            self._preview(pipe, step, latents, *self._previews)
        return {"latents": latents}

    def _preview(
        self,
        pipe: Any,
        step: int,
        latents: torch.Tensor,
        colours: PreviewMap,
        show: Callable[[Preview], None],
    ) -> None:
        """Show the clean clip that the last step points to: x0 = x - sigma * velocity."""
        before, now = (sigma_at(pipe.scheduler, self._plan.steps, at) for at in (step, step + 1))
        previous, self._before = self._before, latents
        if previous is None or before == now:
            return
        velocity = (latents - previous) / (now - before)
        clean = latents - now * velocity
        if self.pinned is not None:
            given, mask = self.pinned
            clean = (1 - mask) * given + mask * clean
        frames = colours.frames(clean[:, :, self.references :])
        show(Preview(frames, self.step, self._plan.steps))


def denoise(
    components: Components,
    plan: "Plan",
    inputs: Inputs,
    embeddings: list[torch.Tensor],
    seed: int,
    residency: Residency,
    watch: Watch,
    lora_context: Callable[[Any], Any],
    resume: Unfinished | None = None,
) -> torch.Tensor:
    """Return the final latents (channels, latent frames, rows, columns), fp32 on the CPU.

    Raises  Cancelled, BadOutput; the weights are as before whatever happens
    """
    pipe = make_pipeline(components, plan, residency.device)
    if resume is not None:
        take_up(pipe, resume, residency.device)
    arguments = call_arguments(pipe, components, plan, inputs, residency, embeddings, seed)
    try:
        if resume is not None:
            arguments.pop("video", None)  # the loop takes either the video or its latents
            arguments["latents"] = resume.latents.to(residency.device)
        with (
            lora_context(pipe),
            _attached(pipe, components, plan, residency, watch),
            _attention(pipe, components, plan, watch),
        ):
            latents: torch.Tensor = pipe(**arguments, callback_on_step_end=watch.after_step)[0]
        if watch.history is not None:
            latents = watch.history.put(latents, 0.0)
    finally:
        vars(pipe).clear()  # what was attached to it refers back to it, and would keep its tensors
    return latents[0, :, watch.references :].detach().to("cpu", torch.float32)


@contextmanager
def _attention(pipe: Any, components: Components, plan: "Plan", watch: Watch) -> Iterator[None]:
    """Have self-attention computed as the plan says; detach without a trace."""
    if plan.attention.name == "dense":
        with dense_attached(plan.attention.backend, *components.transformers):
            yield
        return
    session = SparseSession(plan.attention, lambda _: watch.moment(pipe), components.extra)
    watch.density = session.density
    with session.attached(*components.transformers):
        yield


@contextmanager
def _attached(
    pipe: Any, components: Components, plan: "Plan", residency: Residency, watch: Watch
) -> Iterator[None]:
    """Attach the watch to the experts and the VAE to its moments; detach without a trace."""

    train_steps = pipe.scheduler.config.num_train_timesteps

    def before(expert: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        watch.before_forward()
        residency.bring_expert(expert)
        if watch.history is None:
            return None
        times = watch.history.shown_times(kwargs["timestep"], train_steps)
        return args, {**kwargs, "timestep": times}

    handles = [
        expert.register_forward_pre_hook(before, with_kwargs=True)
        for expert in components.transformers
    ]
    needs_vae = plan.task != "t2v" or plan.model.family.pipeline("t2v") == "WanVACEPipeline"
    try:
        if needs_vae:
            _bring_vae_when_needed(pipe, residency, watch)
        yield
    finally:
        for handle in handles:
            handle.remove()
        residency.rest_experts()


def _bring_vae_when_needed(pipe: Any, residency: Residency, watch: Watch) -> None:
    """The pipelines encode pictures inside these two methods; the VAE is there only then."""
    for name in ("prepare_latents", "prepare_video_latents"):
        stock = getattr(pipe, name, None)
        if stock is None:
            continue

        def with_vae(*args: Any, _stock: Any = stock, **kwargs: Any) -> Any:
            with residency.on_device(pipe.vae):
                try:
                    prepared = _stock(*args, **kwargs)
                finally:
                    pipe.vae.clear_cache()  # an encode that fails leaves its features there
            if isinstance(prepared, tuple) and len(prepared) == 3:
                watch.pinned, watch.history = prepared[1:], getattr(pipe, "history", None)
            return prepared

        setattr(pipe, name, with_vae)
