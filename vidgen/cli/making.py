"""Making the clips of plans into files: weights loaded once, latents kept until a file is whole."""

import gc
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vidgen.cli.naming import latents_beside
from vidgen.cli.place import Device
from vidgen.cli.report import Reporter
from vidgen.cli.show import bytes_text
from vidgen.cli.stills import SheetFrames, save_preview
from vidgen.errors import Cancelled, DoesNotFit, VidgenError
from vidgen.events import CancelToken, Event, Preview
from vidgen.home import Home
from vidgen.plan import Plan
from vidgen.recipe import recipe_text

if TYPE_CHECKING:
    from vidgen.engine import Engine
    from vidgen.inputs import Inputs
    from vidgen.media import VideoWriter
    from vidgen.unfinished import Unfinished

TITLE_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Made:
    """One clip on disk.

    latents  where its latents are, None when they were dropped
    recipe   as it is in the file, and the decode's seconds
    """

    path: Path
    latents: Path | None
    recipe: dict[str, Any]
    sheet: SheetFrames | None

    def as_dict(self) -> dict[str, Any]:
        """Return what a program wants to know."""
        plan = self.recipe["plan"]
        return {
            "path": str(self.path),
            "latents": None if self.latents is None else str(self.latents),
            "seed": plan["seed"],
            "width": plan["export_width"],
            "height": plan["export_height"],
            "num_frames": plan["num_frames"],
            "fps": plan["fps"],
            "seconds": plan["seconds"],
            "adjustments": self.recipe["adjustments"],
            "latents_sha256": self.recipe["latents_sha256"],
            "trace": self.recipe["trace"],
        }

    def __str__(self) -> str:
        plan = self.recipe["plan"]
        took = sum(self.recipe["trace"]["seconds"].values())
        kept = "" if self.latents is None else f", latents {self.latents}"
        return (
            f"{self.path}  {plan['export_width']}x{plan['export_height']}, "
            f"{plan['num_frames']} frames at {plan['fps']} fps, seed {plan['seed']}, "
            f"{took:.1f} s{kept}"
        )


class Maker:
    """Makes clips one after the other on one device; keeps the newest engine."""

    def __init__(
        self, device: Device, home: Home, reporter: Reporter, cancel: CancelToken, *, offline: bool
    ) -> None:
        self._device = device
        self._home = home
        self._reporter = reporter
        self._cancel = cancel
        self._offline = offline
        self._key: tuple[str, str, str] | None = None
        self._engine: Engine | None = None

    def engine(self, plan: Plan) -> "Engine":
        """Return an engine for a plan; another model's weights are let go first."""
        key = (plan.model.name, plan.dtype, plan.offload)
        if self._engine is None or key != self._key:
            self._engine = None
            gc.collect()
            self._reporter.stage(f"load {plan.model.name}")
            quiet_libraries()
            from vidgen.engine import Engine

            self._engine = Engine.load(
                plan.model,
                device=self._device.torch_name,
                dtype=plan.dtype,
                offload=plan.offload,
                offline=self._offline,
                cache_folder=self._home.embeddings,
            )
            self._key = key
        return self._engine

    def make(
        self,
        plan: Plan,
        path: Path,
        *,
        index: int = 0,
        clip: int = 1,
        clips: int = 1,
        inputs: "Inputs | None" = None,
        with_sheet: bool = False,
        preview: Path | None = None,
        resume: "Unfinished | None" = None,
    ) -> Made:
        """Make clip `index` of a plan.

        path         no latents lie beside it yet
        clip, clips  what the progress line counts
        resume       an earlier run of the same plan, stopped while denoising
        Raises       VidgenError; if latents were kept, its message says how to finish them
        """
        keep = plan.request.keep_latents
        latents = None if keep == "never" else latents_beside(path)
        engine = self.engine(plan)
        self._cancel.check("before denoising")
        with ExitStack() as stack:
            output = ClipFile(stack, plan_facts(plan), path, with_sheet=with_sheet)
            try:
                made = engine.run(
                    plan,
                    inputs,
                    index=index,
                    on=self._listener(plan, clip, clips, preview),
                    cancel=self._cancel,
                    latents_path=latents,
                    open_sink=output.open,
                    previews=preview is not None,
                    resume=resume,
                )
                stack.close()
            except BaseException as error:
                _say_what_is_kept(error, latents, plan.seeds[index], self._reporter)
                raise
        if latents is not None and keep == "auto":
            latents.unlink(missing_ok=True)
            latents = None
        return Made(path, latents, made.recipe, output.sheet)

    def denoise_only(self, plan: Plan, on: Callable[[Event], None]) -> None:
        """Run a plan for what is seen on the way; its frames are thrown away."""
        engine = self.engine(plan)
        engine.run(plan, on=on, cancel=self._cancel, previews=False, open_sink=lambda _: _Nowhere())

    def _listener(
        self, plan: Plan, clip: int, clips: int, preview: Path | None
    ) -> Callable[[Event], None]:
        rate = plan.fps / plan.model.family.vae_temporal

        def listen(event: Event) -> None:
            if not isinstance(event, Preview):
                self._reporter.progress(event, clip, clips)
            elif preview is not None:
                save_preview(preview, event, rate)
                self._reporter.preview = f"preview {preview}"
                self._reporter.emit("preview", path=str(preview), step=event.step)

        return listen


class _Nowhere:
    """A sink that keeps nothing."""

    def write(self, frames: Any) -> None:
        """Forget the frames."""

    def abort(self) -> None:
        """There is nothing to throw away."""


class ClipFile:
    """Opens the file of a clip when its recipe is known, anew when a decode begins again."""

    def __init__(
        self, stack: ExitStack, facts: dict[str, Any], path: Path, *, with_sheet: bool
    ) -> None:
        self._stack = stack
        self._facts = facts
        self._path = path
        self._with_sheet = with_sheet
        self.sheet: SheetFrames | None = None

    def open(self, recipe: dict[str, Any]) -> Any:
        """Return a sink that writes the file; it appears when the stack is closed without error."""
        title = recipe["request"]["prompt"][:TITLE_LENGTH]
        writer = new_writer(self._path, self._facts, recipe=recipe_text(recipe), title=title)
        self._stack.enter_context(writer)
        if not self._with_sheet:
            return writer
        plan = recipe["plan"]
        crop = (plan["export_width"], plan["export_height"])
        self.sheet = SheetFrames(writer, plan["num_frames"], crop)
        return self.sheet


def plan_facts(plan: Plan) -> dict[str, Any]:
    """Return what a file's writer needs to know of a plan."""
    size = plan.size
    return {
        "width": size.width,
        "height": size.height,
        "crop": (size.export_width, size.export_height),
        "fps": plan.fps,
        "profile": plan.request.format,
        "crf": plan.request.crf,
    }


def new_writer(path: Path, facts: dict[str, Any], **texts: Any) -> "VideoWriter":
    """Return a writer that has made no file yet, with everything checked that can be."""
    from vidgen.media import VideoWriter

    return VideoWriter(path, **facts, **texts)


def check_room(plans: list[Plan], folder: Path) -> None:
    """Raise DoesNotFit when the disk cannot hold what is planned."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    need = sum(plan.estimate.disk_bytes.low * len(plan.seeds) for plan in plans)
    if need > free:
        raise DoesNotFit(
            f"The disk of {folder} has {bytes_text(free)} free and at least "
            f"{bytes_text(need)} are needed; free space or choose another --out."
        )


def _say_what_is_kept(
    error: BaseException, latents: Path | None, seed: int, reporter: Reporter
) -> None:
    """Add to an error what the run has left on disk, or that there is nothing.

    latents  where they are if they were saved; None when they were not to be
    """
    if latents is not None and latents.exists():
        hint = f"Finish the clip with `vidgen decode {latents}`."
    elif isinstance(error, Cancelled):
        hint = f"Nothing of it is kept; --seed {seed} makes it anew."
    else:
        return
    if isinstance(error, VidgenError):
        error.message = f"{error.message} {hint}"
    else:
        reporter.warn(hint, "kept")


def quiet_libraries() -> None:
    """Keep the libraries' own bars and notices off the screen."""
    import diffusers.utils.logging
    import transformers.utils.logging

    for logging in (diffusers.utils.logging, transformers.utils.logging):
        logging.set_verbosity_error()
        logging.disable_progress_bar()
