"""ClipSession: a job of one clip, made as `vidgen generate` makes it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from server.worker.attempts import attempt_fields, can_be_leaner, stage_seconds
from server.worker.segments import write_whole
from server.worker.session import Attempt, ClipMade, Finished, Frames
from server.worker.stills import write_stills
from server.worker.tries import Tries
from vidgen.cli.making import TITLE_LENGTH, new_writer, plan_facts
from vidgen.clip import Clip
from vidgen.errors import Unsupported
from vidgen.events import Callback, CancelToken
from vidgen.inputs import Inputs, load_inputs
from vidgen.latents import SavedLatents, load_latents
from vidgen.media import PROFILES, VideoWriter, read_frame, read_video
from vidgen.media.disk import remove
from vidgen.plan import Plan, plan
from vidgen.recipe import latents_recipe, parse_recipe, recipe_text
from vidgen.request import parse_request
from vidgen.unfinished import Unfinished, load_unfinished

if TYPE_CHECKING:
    from server.worker.engine_renderer import EngineRenderer

CLIP = 0
_RECORD = "clip.json"


class ClipSession:
    """One request in one folder, on the kind of device and numbers that the folder is named for."""

    num_clips = 1

    def __init__(
        self, renderer: "EngineRenderer", request: Mapping[str, Any], folder: Path
    ) -> None:
        """Plan the clip.

        Raises  BadRequest, BadMedia, Unsupported, NotFound, DoesNotFit
        """
        self._renderer = renderer
        self._request = dict(request)
        self._inputs: Inputs = load_inputs(parse_request(self._request))
        self._plan = self._planned(Attempt())
        if not PROFILES[self._plan.request.format].suffix:
            raise Unsupported(
                f"format={self._plan.request.format} is a folder of files; ask for one file, e.g. "
                "master, which holds the same frames.",
                field="format",
            )
        self._plan.check_fits()
        # What is half made can only be gone on with by the same arithmetic.
        self._folder = folder / f"clip-{self._plan.device.name}-{self._plan.dtype}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._done = self._folder / "made"
        self._tries = Tries(self._folder)
        new_writer(self._video, plan_facts(self._plan))

    @property
    def fps(self) -> Fraction:
        """Frames per second."""
        return self._plan.fps

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that are shown."""
        return self._plan.size.export_width, self._plan.size.export_height

    @property
    def costs(self) -> tuple[Mapping[str, float], ...]:
        """Predicted seconds by stage."""
        return (stage_seconds(self._plan),)

    @property
    def attention(self) -> str:
        """What was planned."""
        return self._plan.attention.name

    @property
    def _video(self) -> Path:
        return self._done / f"video{PROFILES[self._plan.request.format].suffix}"

    def made(self) -> set[int]:
        """Return whether the clip is on disk."""
        return {CLIP} if (self._done / _RECORD).is_file() else set()

    def make(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> ClipMade:
        """Make the clip: latents first, then the files of its frames."""
        assert idx == CLIP
        if not self.made():
            made = self._planned(attempt)
            part = self._folder / "made.part"
            remove(part)
            part.mkdir()
            clip = self._run(made, attempt, part, on, cancel)
            self._latents(attempt).rename(part / "latents.safetensors")
            write_whole(part / _RECORD, json.dumps(_record(clip)).encode())
            remove(self._done)
            part.rename(self._done)
        record = json.loads((self._done / _RECORD).read_text("utf-8"))
        return ClipMade(
            seed=record["seed"],
            num_frames=self._plan.num_frames,
            place=0,
            first=0,
            sha256=record["latents_sha256"],
            seconds=record["seconds"],
            peak_bytes=max(record["peak_bytes"].values(), default=0),
            metrics={"density": record["density"], "backend": record["attention_backend"]},
        )

    def frames(self, idx: int) -> Iterator[Frames]:
        """Yield the frames as they were made, from the lossless file."""
        assert idx == CLIP
        yield from read_video(self._done / "master.mkv")

    def discard(self, idx: int) -> None:
        """Throw the clip away, also what is half made of it."""
        self._tries.add(idx)
        remove(self._done)
        for path in self._folder.glob("latents-*"):
            remove(path)

    def discarded(self, idx: int) -> int:
        """Return how often it was thrown away."""
        return self._tries.of(idx)

    def leaner(self) -> bool:
        """Whether it can be made with less memory than was planned."""
        return can_be_leaner(self._plan)

    def finish(self, told: Callable[[int, int], None], cancel: CancelToken) -> Finished:
        """Return the files of the clip, and its stills."""
        record = json.loads((self._done / _RECORD).read_text("utf-8"))
        master = self._done / "master.mkv"
        told(1, 2)
        cancel.check("while the files were written")
        stills = write_stills(
            self._folder / "stills",
            lambda number: read_frame(master, number),
            self._plan.num_frames,
            self._plan.fps,
        )
        told(2, 2)
        files = {
            "video": self._video,
            "master": master,
            "latents": self._done / "latents.safetensors",
            **stills,
        }
        facts = {
            "width": self.size[0],
            "height": self.size[1],
            "fps": str(self._plan.fps),
            "num_frames": self._plan.num_frames,
            "seconds": float(self._plan.seconds),
            "seed": record["seed"],
            "fidelity": self._plan.fidelity,
            "adjustments": record["adjustments"],
            "latents_sha256": record["latents_sha256"],
        }
        return Finished(files, facts, {"trace": {name: record[name] for name in _TRACED}})

    def close(self) -> None:
        """There is nothing to let go of."""

    def _planned(self, attempt: Attempt) -> Plan:
        profile = self._renderer.profile
        offload = self._plan.offload if attempt.number or attempt.lean else "none"
        data = attempt_fields(self._request, attempt, offload, profile)
        made = plan(parse_request(data), profile, self._inputs)
        seed = attempt.seed(made.seeds[0])
        if seed == made.seeds[0]:
            return made
        return plan(parse_request({**data, "seed": seed}), profile, self._inputs)

    def _latents(self, attempt: Attempt) -> Path:
        lean = "-lean" if attempt.lean else ""
        return self._folder / f"latents-{attempt.number}{lean}.safetensors"

    def _run(
        self, made: Plan, attempt: Attempt, part: Path, on: Callback, cancel: CancelToken
    ) -> Clip:
        """Run the engine, or go on where an earlier run ended."""
        engine = self._renderer.engine(made)
        path = self._latents(attempt)
        kept = _kept(path)
        if kept is None and attempt.lean:
            plain = self._latents(Attempt(attempt.number))
            kept = _kept(plain)
            if isinstance(kept, SavedLatents):
                plain.rename(path)  # only the decode is left
        with ExitStack() as stack:
            files = _Files(stack, made, part, self._video.name)
            if isinstance(kept, SavedLatents):
                clip = engine.decode(
                    kept, tiling=made.vae_tiling, on=on, cancel=cancel, open_sink=files.open
                )
            else:
                resume = kept if isinstance(kept, Unfinished) and not attempt.lean else None
                clip = engine.run(
                    made,
                    self._inputs,
                    on=on,
                    cancel=cancel,
                    latents_path=path,
                    open_sink=files.open,
                    resume=resume,
                )
            stack.close()
        return clip


class _Files:
    """The delivered file and the lossless one, written in one pass."""

    def __init__(self, stack: ExitStack, made: Plan, folder: Path, name: str) -> None:
        self._stack = stack
        self._plan = made
        self._folder = folder
        self._name = name
        self._writers: tuple[VideoWriter, ...] = ()

    def open(self, recipe: dict[str, Any]) -> "_Files":
        """Open both for a recipe; called again when a decode begins anew."""
        facts = plan_facts(self._plan)
        texts = {
            "recipe": recipe_text(recipe),
            "title": recipe["request"]["prompt"][:TITLE_LENGTH],
        }
        lossless = {**facts, "profile": "master", "crf": None}
        self._writers = (
            new_writer(self._folder / self._name, facts, **texts),
            new_writer(self._folder / "master.mkv", lossless, **texts),
        )
        for writer in self._writers:
            self._stack.enter_context(writer)
        return self

    def write(self, frames: Frames) -> None:
        """Take the next frames."""
        for writer in self._writers:
            writer.write(frames)

    def abort(self) -> None:
        """Throw both away."""
        for writer in self._writers:
            writer.abort()


_TRACED = (
    "seconds", "peak_bytes", "forwards", "attention_backend", "attention_reason", "density",
    "vae_tiled",
)  # fmt: skip


def _record(clip: Clip) -> dict[str, Any]:
    trace = clip.trace.as_dict()
    return {
        "seed": clip.seed,
        "latents_sha256": clip.recipe["latents_sha256"],
        "adjustments": clip.recipe["adjustments"],
        **{name: clip.recipe["trace"].get(name, trace[name]) for name in _TRACED},
    }


def _kept(path: Path) -> SavedLatents | Unfinished | None:
    """Return what an earlier run left at a path."""
    if not path.is_file():
        return None
    if "unfinished" in parse_recipe(latents_recipe(path), str(path)):
        return load_unfinished(path)
    return load_latents(path)
