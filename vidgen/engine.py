"""Engine: the loaded weights of one model on one device, and the run from a plan to a clip.

It has no threads of its own and makes no decisions: whatever can be chosen is in the plan.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from vidgen.adjustment import Adjustment
from vidgen.clip import Clip, Trace
from vidgen.components import Components, load_components, locate, release
from vidgen.decode_clip import Frames, decode_all, finished_clip
from vidgen.denoise import Watch, denoise
from vidgen.embeddings import EmbeddingCache, embed_texts
from vidgen.errors import BadRequest, Cancelled
from vidgen.events import Callback, CancelToken
from vidgen.inputs import Inputs, fitted, hashes, load_inputs
from vidgen.latents import SavedLatents, check_shape, check_writable, latents_hash, save_latents
from vidgen.loras import applied
from vidgen.models import Model
from vidgen.oom import explained_memory
from vidgen.plan import Plan
from vidgen.preview import PreviewMap
from vidgen.prompts import TokenCount, too_long
from vidgen.recipe import make_recipe
from vidgen.residency import Residency, find_device
from vidgen.running import Run
from vidgen.sink import OpenSink, Output
from vidgen.tasks import check_inputs
from vidgen.tracebacks import holding_no_memory
from vidgen.unfinished import Unfinished, save_unfinished
from vidgen.workload import Dtype, Offload, Tiling, check_word


class Engine:
    """One model on one device.

    Use one engine from one thread at a time, and the engines of one process in turn: while a model
    or a LoRA is read, diffusers and accelerate change torch for the whole process. After any run,
    also a failed or cancelled one, the weights are as they were before it, and the exception that
    it ended with holds none of its memory.
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
        check_word("dtype", dtype, Dtype)
        check_word("offload", offload, Offload)
        self.model = model
        self.device = find_device(device)
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
        check_word("dtype", dtype, Dtype)
        find_device(device)  # before the weights are read, which may take minutes
        components = load_components(
            locate(model, offline=offline),
            dtype,
            model.family.recipe.vae_dtype,
            decoder_only=decoder_only,
            trained=model.trained,
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

    @holding_no_memory
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
        resume: Unfinished | None = None,
        edit_latents: Callable[[torch.Tensor], torch.Tensor] | None = None,
        context: torch.Tensor | None = None,
    ) -> Clip:
        """Make clip `index` of a plan.

        inputs        pictures held in memory; read from the request's files when omitted
        on            called with Progress and Preview
        cancel        looked at between any two forwards and decode groups
        previews      make them, unless the request has preview=off
        latents_path  the final latents are written there before they are decoded; of a run that is
                      cancelled while denoising, what it takes to go on
        open_sink     called with the recipe at the first frames; all frames go to the sink that it
                      returns, instead of into the clip
        resume        such a run, read by `load_unfinished`: it goes on where it stopped
        edit_latents  changes the final latents before they are kept and decoded
        context       latents that come right before the clip's: decoded with it, so that its first
                      frames are not taken for a beginning, and left out; not kept with the latents
        Raises        Cancelled, BadOutput, DoesNotFit, BadRequest
        """
        self._check(plan, index)
        if resume is not None:
            resume.check(plan, index, self.weights)
        plan.check_fits()
        cancel = cancel or CancelToken()
        run = Run(on, self.device)
        run.trace.attention_backend = plan.attention.backend
        run.trace.attention_reason = plan.attention.reason
        run.trace.density = 1.0
        if latents_path is not None:
            check_writable(latents_path)
        inputs = load_inputs(plan.request) if inputs is None else inputs
        needed = plan.prefix_frames or plan.num_frames
        check_inputs(plan.request, inputs, plan.model, plan.task, needed)
        size, prefix = plan.size, plan.request.prefix_frames
        inputs = fitted(inputs, size.width, size.height, plan.fit, plan.num_frames, prefix)
        embeddings = self._encode(plan, run)
        cancel.check("before denoising")
        watch = self._watch(plan, inputs, run, cancel, previews=previews, resume=resume)
        try:
            latents = self._denoise(plan, inputs, embeddings, plan.seeds[index], run, watch, resume)
        except Cancelled as stop:
            if latents_path is not None and watch.unfinished is not None:
                recipe = self._recipe(plan, index, run, inputs, "")
                _keep(watch.unfinished, recipe, latents_path, stop)
            raise
        if edit_latents is not None:
            latents = edit_latents(latents)
        recipe = self._recipe(plan, index, run, inputs, latents_hash(latents))
        saved = SavedLatents(latents, recipe)
        run.latents_kept = latents_path is not None and _save(saved, latents_path, run.trace)
        out = Output(recipe, run.trace, open_sink)
        return self._decode(saved, plan.vae_tiling, run, cancel, out, context)

    @holding_no_memory
    def decode(
        self,
        saved: SavedLatents,
        *,
        tiling: Tiling = "whole_then_tiles",
        on: Callback | None = None,
        cancel: CancelToken | None = None,
        open_sink: OpenSink | None = None,
    ) -> Clip:
        """Decode latents that an earlier run left.

        tiling  tiles need less memory and change pixels at the seams
        Raises  BadRequest when the latents are another model's
        """
        check_word("tiling", tiling, Tiling)
        check_shape(saved, self._components.vae.config.z_dim, self.model)
        run = Run(on, self.device)
        run.latents_kept = True
        out = Output(saved.recipe, run.trace, open_sink)
        return self._decode(saved, tiling, run, cancel or CancelToken(), out)

    def _check(self, plan: Plan, index: int) -> None:
        if self._components.transformer is None:
            raise BadRequest("This engine was loaded with decoder_only; load it whole to run.")
        if index not in range(len(plan.seeds)):
            raise BadRequest(
                f"index={index} is not a clip of this plan; use 0 to {len(plan.seeds) - 1}.",
                field="n",
            )
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
        self._check_model(plan)

    def _check_model(self, plan: Plan) -> None:
        if plan.model.name != self.model.name:
            raise BadRequest(
                f"This engine holds {self.model.name}, the plan wants {plan.model.name}.",
                field="model",
            )
        if (plan.model.family, plan.model.configs) != (self.model.family, self.model.configs):
            raise BadRequest(
                f"The plan was made for another {self.model.name} than this engine holds; plan "
                "anew, or load the engine anew.",
                field="model",
            )
        plan.attention.check_weights(self.weights)

    def _encode(self, plan: Plan, run: Run) -> list[torch.Tensor]:
        texts = [plan.request.prompt, *([plan.negative_prompt] if plan.guided else [])]
        self._count_tokens(plan, run)
        with run.stage("encode"), explained_memory("Encoding the prompt", "try offload=model"):
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

    def _count_tokens(self, plan: Plan, run: Run) -> None:
        """Say what the model will not read of a text that planning could only bound."""
        from diffusers.pipelines.wan.pipeline_wan import prompt_clean

        for field, text in (
            ("prompt", plan.request.prompt),
            ("negative_prompt", plan.negative_prompt),
        ):
            count = len(self._components.tokenizer(prompt_clean(text)).input_ids)
            change = too_long(field, TokenCount(count, count), plan.model.family)
            if change is None or any(item.field == field for item in plan.adjustments):
                continue
            if plan.request.strict:
                raise BadRequest(f"strict: {change}.", field=field)
            run.trace.adjustments.append(change)

    def _recipe(
        self, plan: Plan, index: int, run: Run, inputs: Inputs, latents_sha256: str
    ) -> dict[str, Any]:
        recipe = make_recipe(plan, index, self.weights, latents_sha256, hashes(inputs))
        changes = (*plan.adjustments, *run.trace.adjustments)
        recipe["adjustments"] = [item.as_dict() for item in changes]
        recipe["trace"] = run.trace.as_dict()
        return recipe

    def _watch(
        self,
        plan: Plan,
        inputs: Inputs,
        run: Run,
        cancel: CancelToken,
        *,
        previews: bool,
        resume: Unfinished | None,
    ) -> Watch:
        previewed = previews and plan.request.preview != "off" and run.on is not None
        return Watch(
            plan,
            run.trace,
            cancel,
            on_step=lambda step, _: run.report("denoise", step, plan.steps, plan),
            previews=(self._previews(), run.emit_preview) if previewed else None,
            references=len(inputs.references) if plan.task == "vace" else 0,
            first_step=0 if resume is None else resume.step,
        )

    def _denoise(
        self,
        plan: Plan,
        inputs: Inputs,
        embeddings: list[torch.Tensor],
        seed: int,
        run: Run,
        watch: Watch,
        resume: Unfinished | None,
    ) -> torch.Tensor:
        experts = dict(zip(("high", "low"), self._components.transformers, strict=False))
        began = time.perf_counter()
        way_out = "try a smaller size, fewer frames or offload=group"
        with run.stage("denoise"), explained_memory("Denoising", way_out):
            latents = denoise(
                self._components,
                plan,
                inputs,
                embeddings,
                seed,
                self._residency,
                watch,
                lambda pipe: applied(
                    pipe,
                    experts,
                    plan.loras,
                    run.trace,
                    strict=plan.request.strict,
                    told=plan.adjustments,
                ),
                resume,
            )
        assert watch.first_forward is not None
        run.trace.seconds["condition"] = watch.first_forward - began
        run.trace.seconds["denoise"] -= run.trace.seconds["condition"]
        return latents

    def _decode(
        self,
        saved: SavedLatents,
        tiling: Tiling,
        run: Run,
        cancel: CancelToken,
        out: Output,
        context: torch.Tensor | None = None,
    ) -> Clip:
        with run.stage("decode"), self._residency.on_device(self._components.vae):
            frames = Frames(self._components.vae, saved.latents, context, self.model.family)
            decode_all(frames, tiling, run, cancel, out, self.device)
        return finished_clip(saved, run, out)

    def _previews(self) -> PreviewMap:
        if self._preview_map is None:
            with self._residency.on_device(self._components.vae):
                self._preview_map = PreviewMap(self._components.vae, self.model.family.vae_spatial)
        return self._preview_map


def _save(saved: SavedLatents, path: Path, trace: Trace) -> bool:
    """Save latents; if the disk will not have them, say so and let the decode try all the same."""
    try:
        save_latents(path, saved.latents, saved.recipe)
    except OSError as error:
        why = f"the latents could not be written to {path.parent}: {error.strerror}"
        asked = saved.recipe["request"].get("keep_latents", "auto")
        trace.adjustments.append(Adjustment("keep_latents", asked, "never", why))
        return False
    return True


def _keep(unfinished: Unfinished, recipe: dict[str, Any], path: Path, stop: Cancelled) -> None:
    """Save a stopped run; if the disk will not have it, say so in the stop."""
    try:
        save_unfinished(path, unfinished, recipe)
    except OSError as error:
        stop.message = f"{stop.message} It could not be kept in {path.parent}: {error.strerror}."
