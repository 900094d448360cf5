"""ChainSession: a job of many clips, made one by one as chaining makes them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaining.chain import Chain, ChainRun
from chaining.cli.cost import chain_cost
from chaining.clip_plan import ClipPlan
from chaining.events import ChainEvent, ChainProgress, ClipFinished
from chaining.extend import Continuing, Original
from chaining.maker import ClipMaker
from chaining.manifest import NAME
from chaining.story import Story, parse_story
from chaining.takes import Take
from server.worker.attempts import can_be_leaner, stage_seconds
from server.worker.chain_files import chain_facts, video_name, write_chain
from server.worker.continuing import continued
from server.worker.retrying_maker import RetryingMaker
from server.worker.session import Attempt, ClipMade, Finished, Frames
from server.worker.taken_over import names_taken_over, take_over
from server.worker.tries import Tries
from vidgen.events import Callback, CancelToken, Preview

if TYPE_CHECKING:
    from server.worker.engine_renderer import EngineRenderer


class ChainSession:
    """One story in one folder, whose lock it has until it is closed.

    Of a story that goes on with a video, the video's end is a clip of the chain and none of the
    job: the job's clips are counted from the one after it, and their frames from its end.
    """

    def __init__(
        self, renderer: "EngineRenderer", payload: Mapping[str, Any], folder: Path
    ) -> None:
        """Decide every clip, and take up those that are made.

        payload  {"story": .., "extension": {video, size}, "takes": {folder, clips}}, the last two
                 where there is something to go on with
        Raises   BadRequest, BadMedia, Unsupported, NotFound, DoesNotFit, Busy
        """
        story = parse_story(payload["story"])
        self._original: Original | None = None
        if "extension" in payload:
            asked = payload["extension"]
            width, height = asked["size"]
            found = continued(story, Path(asked["video"]), (width, height))
            self._original, story = found.original, found.story
        self._maker = RetryingMaker(renderer, story)
        self._given = 0 if self._original is None else 1
        first = self._maker.first_plan
        # What is made can only be gone on with by the same kind of device and numbers.
        self._folder = folder / f"chain-{first.device.kind}-{first.dtype}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._tries = Tries(self._folder)
        self._drift: dict[int, Any] = {}
        self._held = contextlib.ExitStack()
        self._chain = self._opened(story, payload.get("takes"))
        self._run: ChainRun = self._held.enter_context(self._chain.opened(resume=True))
        self._others = names_taken_over(self._folder)
        for plan in self._run.missing:
            if plan.index < self._given:
                self._run.make(plan)
        self._costs = self._predicted(story)

    @property
    def num_clips(self) -> int:
        """Clips of the job."""
        return len(self._clips)

    @property
    def fps(self) -> Fraction:
        """Frames per second."""
        return self._maker.fps

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that are shown of a clip."""
        return self._maker.export_size

    @property
    def costs(self) -> tuple[Mapping[str, float], ...]:
        """Predicted seconds of each clip by stage; none for those of another job."""
        return tuple(
            {} if idx in self.made() and self._take(idx).name in self._others else cost
            for idx, cost in enumerate(self._costs)
        )

    @property
    def attention(self) -> str:
        """What was planned."""
        return self._maker.first_plan.attention.name

    @property
    def _clips(self) -> tuple[ClipPlan, ...]:
        return self._chain.schedule.clips[self._given :]

    def made(self) -> set[int]:
        """Return the clips that are on disk."""
        return {index - self._given for index in self._run.takes if index >= self._given}

    def make(self, idx: int, attempt: Attempt, on: Callback, cancel: CancelToken) -> ClipMade:
        """Make a clip, or return what is known of one that is on disk."""
        if idx not in self.made():
            self._maker.attempt = attempt
            try:
                self._run.make(
                    self._clips[idx], self._passing(idx, on), cancel, attempt=attempt.number
                )
            finally:
                self._maker.attempt = Attempt()
        return self._known(idx)

    def frames(self, idx: int) -> Iterator[Frames]:
        """Yield the frames that a clip adds to the video; of one that is not shown, all."""
        take = self._take(idx)
        yield from take.shown(take.plan.overlap if take.plan.place >= 0 else 0)

    def discard(self, idx: int) -> None:
        """Throw a clip away, also what is half made of it."""
        self._tries.add(idx)
        self._run.forget_unfinished()
        self._run.discard(idx + self._given)

    def discarded(self, idx: int) -> int:
        """Return how often a clip was thrown away."""
        return self._tries.of(idx)

    def leaner(self) -> bool:
        """Whether a clip can be made with less memory than was planned."""
        return can_be_leaner(self._maker.first_plan)

    def finish(self, told: Callable[[int, int], None], cancel: CancelToken) -> Finished:
        """Assemble the video and what goes with it."""
        folder = self._folder / "results"
        folder.mkdir(exist_ok=True)
        video = folder / video_name(self._chain, self._original)
        result = self._run.deliver(video if self._original is None else None)
        cancel.check("while the files were written")
        files = write_chain(self._chain, self._maker, result, self._original, folder, told)
        report: dict[str, Any] = {"advice": [asdict(item) for item in result.advice]}
        if result.drift is not None:
            report["drift"] = result.drift.as_dict()
        return Finished(files, chain_facts(self._chain, result, files["video"]), report)

    def close(self) -> None:
        """Let go of the folder."""
        self._held.close()

    def _opened(self, story: Story, takes: Mapping[str, Any] | None) -> Chain:
        """Return the chain, with a manifest in its folder."""
        maker: ClipMaker = self._maker
        if self._original is not None:
            maker = Continuing(maker, self._original)
        begun = (self._folder / NAME).is_file()
        chain = Chain(story, maker, self._folder)
        if begun:
            return chain
        with chain.opened():
            pass  # takes without a manifest would not be taken for a chain's
        if takes is not None and takes.get("folder") is not None:
            take_over(Path(takes["folder"]) / self._folder.name, self._folder, int(takes["clips"]))
        return chain

    def _predicted(self, story: Story) -> list[dict[str, float]]:
        """Return the cost of each clip, each kind of clip being planned once."""
        first, schedule = self._maker.first_plan, self._chain.schedule
        stages = stage_seconds(first)
        known: dict[tuple[Any, ...], float] = {}
        found = []
        for clip in self._clips:
            kind = (clip.num_frames, clip.overlap, clip.strategy, clip.start is None,
                    clip.end is None, clip.previous is None)  # fmt: skip
            if kind not in known:
                alone = replace(schedule, clips=(clip,))
                cost = chain_cost(story, alone, first, first.device)
                known[kind] = cost.seconds.middle / max(1e-9, sum(stages.values()))
            found.append({name: known[kind] * seconds for name, seconds in stages.items()})
        return found

    def _take(self, idx: int) -> Take:
        return self._run.takes[idx + self._given]

    def _passing(self, idx: int, on: Callback) -> Callable[[ChainEvent], None]:
        """Return what a chain calls: steps and previews pass, drift is noted."""

        def hear(event: ChainEvent) -> None:
            if isinstance(event, Preview):
                on(event)
            elif isinstance(event, ChainProgress):
                if event.step.stage in ("encode", "condition", "denoise", "decode"):
                    on(event.step)
            elif isinstance(event, ClipFinished) and event.drift is not None:
                self._drift[idx] = {
                    "verdict": event.drift.verdict.overall,
                    "reasons": list(event.drift.verdict.reasons),
                    "advice": event.drift.advice,
                    "why": event.drift.why,
                }

        return hear

    def _known(self, idx: int) -> ClipMade:
        take = self._take(idx)
        shown = take.plan.place >= 0
        before = self._run.takes[0].ends if self._given else 0
        recipe = take.record["recipe"]
        trace = recipe.get("trace", {})
        its_own = take.name not in self._others
        drift = self._drift.get(idx)
        ends = None
        if self._run.stopped and idx == max(self.made()):
            reasons = "; ".join(drift["reasons"]) if drift else "see the report"
            ends = f"drift_stop: the video has drifted too far at clip {idx} ({reasons})."
        return ClipMade(
            seed=take.seed,
            num_frames=take.ends - take.plan.overlap if shown else 0,
            place=take.plan.place - self._given if shown else -1,
            first=take.first + take.plan.overlap - before,
            sha256=recipe.get("latents_sha256") or take.record["pixels_sha256"],
            seconds=dict(trace.get("seconds", {})) if its_own else {},
            peak_bytes=max(trace.get("peak_bytes", {}).values(), default=0) if its_own else 0,
            metrics={"seam": take.seam, "drift": drift, "taken_over": not its_own},
            ends=ends,
        )
