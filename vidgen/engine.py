"""Engine: the loaded weights of one model on one device, and the run from a plan to a clip.

It has no threads of its own and makes no decisions: whatever can be chosen is in the plan.
"""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from vidgen.adjustment import Adjustment
from vidgen.clip import Clip, Trace
from vidgen.components import Components, load_components, locate, release
from vidgen.decode import decode_groups, group_count
from vidgen.denoise import Watch, denoise
from vidgen.embeddings import EmbeddingCache, embed_texts
from vidgen.errors import BadOutput, BadRequest, DoesNotFit
from vidgen.events import Callback, CancelToken, Preview, Progress, Stage
from vidgen.inputs import Inputs, fitted, load_inputs
from vidgen.latents import SavedLatents, latents_hash, save_latents
from vidgen.loras import applied
from vidgen.models import Model
from vidgen.plan import Plan
from vidgen.preview import PreviewMap
from vidgen.recipe import make_recipe
from vidgen.residency import Residency
from vidgen.sink import OpenSink, Output
from vidgen.workload import Dtype, Offload


class Engine:
    """One model on one device.

    Use one engine from one thread at a time. After any run, also a failed or cancelled one, the
    weights are as they were before it.
    """

    def __init__(
        self,
        model: Model,
        components: Components,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        offload: Offload = "none",
        cache: EmbeddingCache | None = None,
    ) -> None:
        """Take parts that are in memory already; `Engine.load` reads them from a folder."""
        self.model = model
        self.device = torch.device(device)
        self.dtype = dtype
        self.offload = offload
        self._components = components
        self._residency = Residency(components, self.device, offload)
        self._cache = cache or EmbeddingCache()
        self._preview_map: PreviewMap | None = None

    @classmethod
    def load(
        cls,
        model: Model,
        *,
        device: str = "cpu",
        dtype: Dtype = "float32",
        offload: Offload = "none",
        offline: bool = False,
        cache_folder: Path | None = None,
        decoder_only: bool = False,
    ) -> "Engine":
        """Load a model's weights.

        device        "cpu" or "cuda:0"
        offline       never use the network
        cache_folder  where text embeddings are kept between processes
        decoder_only  load the VAE alone: the engine can `decode`, not `run`
        Raises        NotFound, Unsupported
        """
        components = load_components(
            locate(model, offline=offline),
            dtype,
            model.family.recipe.vae_dtype,
            decoder_only=decoder_only,
        )
        return cls(
            model,
            components,
            device=device,
            dtype=dtype,
            offload=offload,
            cache=EmbeddingCache(cache_folder),
        )

    @property
    def components(self) -> Components:
        """The model's parts; whoever changes them must put them back."""
        return self._components

    @property
    def weights(self) -> str:
        """Fingerprint of the model's weights."""
        return self._components.fingerprint

    def run(
        self,
        plan: Plan,
        inputs: Inputs | None = None,
        *,
        index: int = 0,
        on: Callback | None = None,
        cancel: CancelToken | None = None,
        latents_path: Path | None = None,
        previews: bool = True,
        open_sink: OpenSink | None = None,
    ) -> Clip:
        """Make clip `index` of a plan.

        inputs        pictures held in memory; read from the request's files when omitted
        on            called with Progress and Preview
        cancel        looked at between any two forwards and decode groups
        previews      make them, unless the request has preview=off
        latents_path  the final latents are written there before they are decoded
        open_sink     called with the recipe at the first frames; all frames go to the sink that it
                      returns, instead of into the clip
        Raises        Cancelled, BadOutput, DoesNotFit, BadRequest
        """
        self._check(plan)
        plan.check_fits()
        cancel = cancel or CancelToken()
        run = _Run(on, plan.device.kind == "cuda")
        inputs = fitted(
            load_inputs(plan.request) if inputs is None else inputs,
            plan.size.width,
            plan.size.height,
            plan.fit,
        )
        embeddings = self._encode(plan, run)
        cancel.check("before denoising")
        latents = self._denoise(
            plan, inputs, embeddings, plan.seeds[index], run, cancel, previews=previews
        )
        recipe = make_recipe(plan, index, self.weights, latents_hash(latents))
        recipe["adjustments"] = [
            item.as_dict() for item in (*plan.adjustments, *run.trace.adjustments)
        ]
        recipe["trace"] = run.trace.as_dict()
        if latents_path is not None:
            save_latents(latents_path, latents, recipe)
        out = Output(recipe, run.trace, open_sink)
        return self._decode(SavedLatents(latents, recipe), plan.vae_tiling, run, cancel, out)

    def decode(
        self,
        saved: SavedLatents,
        *,
        tiled: bool = False,
        on: Callback | None = None,
        cancel: CancelToken | None = None,
        open_sink: OpenSink | None = None,
    ) -> Clip:
        """Decode latents that an earlier run left.

        tiled   decode in spatial tiles, which needs less memory and changes pixels at the seams
        Raises  BadRequest when the latents are another model's
        """
        channels = self._components.vae.config.z_dim
        if saved.latents.shape[0] != channels:
            raise BadRequest(
                f"The latents have {saved.latents.shape[0]} channels, {self.model.name} decodes "
                f"{channels}; use the model that made them."
            )
        run = _Run(on, self.device.type == "cuda")
        out = Output(saved.recipe, run.trace, open_sink)
        return self._decode(saved, tiled, run, cancel or CancelToken(), out)

    def _check(self, plan: Plan) -> None:
        for name in ("dtype", "offload"):
            mine, asked = getattr(self, name), getattr(plan, name)
            if mine != asked:
                raise BadRequest(
                    f"This engine was loaded with {name}={mine}, the plan wants {asked}; load "
                    "another engine.",
                    field=name,
                )
        if plan.device.kind != self.device.type:
            raise BadRequest(
                f"The plan is for {plan.device.title}, this engine runs on {self.device}; plan for "
                "the device that runs.",
            )
        if plan.model.name != self.model.name:
            raise BadRequest(
                f"This engine holds {self.model.name}, the plan wants {plan.model.name}.",
                field="model",
            )

    def _encode(self, plan: Plan, run: "_Run") -> list[torch.Tensor]:
        texts = [plan.request.prompt, *([plan.negative_prompt] if plan.guided else [])]
        with run.stage("encode"):
            embeddings, hits = embed_texts(
                texts,
                tokenizer=self._components.tokenizer,
                load_encoder=self._components.load_text_encoder,
                fingerprint=self._components.fingerprint,
                length=plan.text_length,
                dtype=self._components.transformer.dtype,
                device=self.device,
                cache=self._cache,
            )
            run.trace.cache_hits = hits
            if hits < len(texts):
                release(self.device)
        run.report("encode", 1, 1, plan)
        return embeddings

    def _denoise(
        self,
        plan: Plan,
        inputs: Inputs,
        embeddings: list[torch.Tensor],
        seed: int,
        run: "_Run",
        cancel: CancelToken,
        *,
        previews: bool,
    ) -> torch.Tensor:
        wants_preview = previews and plan.request.preview != "off" and run.on is not None
        watch = Watch(
            plan,
            run.trace,
            cancel,
            on_step=lambda step, _: run.report("denoise", step, plan.steps, plan),
            on_preview=run.emit_preview if wants_preview else None,
            preview_map=self._previews,
        )
        experts = dict(zip(("high", "low"), self._components.transformers, strict=False))
        began = time.perf_counter()
        with run.stage("denoise"):
            latents = denoise(
                self._components,
                plan,
                inputs,
                embeddings,
                seed,
                self._residency,
                watch,
                lambda pipe: applied(
                    pipe, experts, plan.loras, run.trace, strict=plan.request.strict
                ),
            )
        assert watch.first_forward is not None
        run.trace.seconds["condition"] = watch.first_forward - began
        run.trace.seconds["denoise"] -= run.trace.seconds["condition"]
        return latents

    def _previews(self) -> PreviewMap:
        if self._preview_map is None:
            with self._residency.on_device(self._components.vae):
                self._preview_map = PreviewMap(self._components.vae, self.model.family.vae_spatial)
        return self._preview_map

    def _decode(
        self,
        saved: SavedLatents,
        tiled: bool,
        run: "_Run",
        cancel: CancelToken,
        out: Output,
    ) -> Clip:
        from fractions import Fraction

        made = saved.recipe["plan"]
        with run.stage("decode"), self._residency.on_device(self._components.vae):
            for attempt in (True,) if tiled else (False, True):
                run.trace.vae_tiled = attempt
                try:
                    self._decode_into(saved.latents, run, cancel, out)
                    break
                except torch.OutOfMemoryError as error:
                    if attempt:
                        raise _out_of_memory() from error
                change = Adjustment("vae_tiling", "auto", "on", "decoding whole ran out of memory")
                run.trace.adjustments.append(change)
                release(self.device)
                out.restart()
        return Clip(
            frames=out.kept(),
            latents=saved.latents,
            fps=Fraction(made["fps"]),
            size=(made["export_width"], made["export_height"]),
            seed=made["seed"],
            recipe=out.recipe(),
            trace=run.trace,
        )

    def _decode_into(
        self,
        latents: torch.Tensor,
        run: "_Run",
        cancel: CancelToken,
        out: Output,
    ) -> None:
        import numpy as np

        tiled = run.trace.vae_tiled
        total = group_count(latents, tiled=tiled)
        groups = decode_groups(self._components.vae, latents, tiled=tiled, cancel=cancel)
        for done, frames in enumerate(groups, start=1):
            if not np.isfinite(frames).all():
                raise BadOutput(
                    f"The decoded frames are not finite from group {done} of {total}; the latents "
                    "are kept.",
                    code="nan_frames",
                )
            out.write(frames)
            run.report("decode", done, total, None)


def _out_of_memory() -> DoesNotFit:
    return DoesNotFit(
        "Decoding ran out of memory, in tiles too; the latents are kept, decode them on a machine "
        "with more memory.",
        field="vae_tiling",
    )


class _Run:
    """Clock, trace and voice of one run."""

    def __init__(self, on: Callback | None, cuda: bool) -> None:
        self.on = on
        self.trace = Trace()
        self._cuda = cuda
        self._began = time.perf_counter()
        self._stage_began = self._began

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Time a stage and read its peak memory."""
        if self._cuda:
            torch.cuda.reset_peak_memory_stats()
        self._stage_began = time.perf_counter()
        try:
            yield
        finally:
            self.trace.seconds[name] = time.perf_counter() - self._stage_began
            self.trace.peak_bytes[name] = (
                torch.cuda.max_memory_allocated()
                if self._cuda
                else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            )

    def report(self, stage: Stage, done: int, total: int, plan: Plan | None) -> None:
        """Say that a step is done; the rest of the stage is judged by its own pace."""
        if self.on is None:
            return
        now = time.perf_counter()
        pace = (now - self._stage_began) / done
        after = plan.estimate.seconds["decode"].middle if plan and stage == "denoise" else 0.0
        eta = pace * (total - done) + after
        if plan is not None and stage == "encode":
            eta = plan.estimate.seconds["total"].middle
        self.on(Progress(stage, done, total, now - self._began, eta))

    def emit_preview(self, preview: Preview) -> None:
        """Pass a preview on."""
        assert self.on is not None
        self.on(preview)
