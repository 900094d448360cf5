"""ChainRun: one run of a chain, in which its missing clips are made one at a time."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from chaining.advice import Advice, after_clip
from chaining.assemble import assemble
from chaining.clip_plan import ClipPlan
from chaining.events import ClipFinished, OnChain
from chaining.files import write_json
from chaining.maker import ClipMaker
from chaining.making import Making
from chaining.manifest import Manifest
from chaining.metering import Metering
from chaining.recipe import chain_recipe
from chaining.schedule import Schedule
from chaining.story import Story
from chaining.takes import Take, open_take, takes_of
from chaining.voice import clip_voice
from vidgen.errors import BadMedia
from vidgen.events import CancelToken
from vidgen.media.disk import remove

if TYPE_CHECKING:
    from chaining.drift.drift import Drift
    from chaining.drift.verdict import Verdict

DRIFT = "drift.json"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a run left.

    state   finished, or stopped where drift_stop ended it
    video   the file, None where none was asked for or no clip is shown yet
    takes   in the order of the video, as far as it is whole
    """

    state: str
    video: Path | None
    num_frames: int
    takes: tuple[Take, ...]
    schedule: Schedule
    drift: "Drift | None"
    advice: tuple[Advice, ...]


class FileKind(TypedDict):
    """How the delivered file is written."""

    fps: Fraction
    export_size: tuple[int, int]
    profile: str
    crf: int | None


def file_kind(story: Story, maker: ClipMaker) -> FileKind:
    """Return what a story's request says of the file."""
    return {
        "fps": maker.fps,
        "export_size": maker.export_size,
        "profile": story.request.get("format", "mp4"),
        "crf": story.request.get("crf"),
    }


class ChainRun:
    """One run, made by `Chain.opened`; whoever holds it has the chain's folder to himself.

    stopped  drift_stop has ended the chain: no further clip shall be made
    """

    def __init__(
        self,
        story: Story,
        maker: ClipMaker,
        schedule: Schedule,
        folder: Path,
        manifest: Manifest,
        metering: Metering | None,
        advice: tuple[Advice, ...],
    ) -> None:
        self.stopped = False
        self._story = story
        self._maker = maker
        self._schedule = schedule
        self._folder = folder
        self._root = folder / "takes"
        self._making = Making(story, schedule, maker, self._root)
        self._manifest = manifest
        self._metering = metering
        self._takes: dict[int, Take] = {}
        self._advice = list(advice)
        self._began = time.perf_counter()

    @property
    def takes(self) -> Mapping[int, Take]:
        """Finished clips by number of making."""
        return self._takes

    @property
    def advice(self) -> tuple[Advice, ...]:
        """What a person should know by now."""
        return tuple(self._advice)

    def advise(self, items: Iterable[Advice]) -> None:
        """Add what a person should know."""
        self._advice.extend(items)

    @property
    def missing(self) -> tuple[ClipPlan, ...]:
        """Clips that are to be made, in that order."""
        return tuple(clip for clip in self._schedule.clips if clip.index not in self._takes)

    def find_takes(self, *, remake: bool) -> None:
        """Read the takes that are finished, also one that the manifest does not name yet.

        remake  make a take anew whose files are damaged
        Raises  BadMedia
        """
        for plan in self._schedule.clips:
            # A choice stands, also before a branch that makes another number of trials.
            chosen = self._chosen(plan, remake=remake)
            if chosen is not None:
                self._takes[plan.index] = chosen
                continue
            trials = self._trials(plan, remake=remake)
            if len(trials) == self._wanted(plan):
                self._choose(plan, trials)
        self._manifest.save(self._folder)
        self._measure_anew()

    def make(
        self,
        plan: ClipPlan,
        on: OnChain | None = None,
        cancel: CancelToken | None = None,
        *,
        attempt: int = 0,
    ) -> Take:
        """Make one clip of `missing`; all that it takes something over from is made.

        on       called with ChainProgress and Preview, and with ClipFinished at the end
        attempt  0, or how often the clip was discarded: each has seeds of its own
        Raises   Cancelled, BadOutput and what the maker raises
        """
        cancel = cancel or CancelToken()
        cancel.check(f"before clip {plan.index}")
        take = self._make(plan, on, cancel, attempt)
        drift = self._metering.advance(self._takes) if self._metering is not None else None
        found = after_clip(plan.index, take.correction, drift)
        self.advise(found)
        if drift is not None:
            self._judge(drift.verdict)
        if on is not None:
            on(ClipFinished(plan.index, len(self._schedule.clips), take, drift, found))
        return take

    def make_all(self, on: OnChain | None, cancel: CancelToken) -> None:
        """Make all clips that are missing, or as many as drift_stop allows."""
        for plan in self.missing:
            if self.stopped:
                return
            self.make(plan, on, cancel)

    def discard(self, index: int) -> None:
        """Let a clip's takes count no more; they stay on disk.

        Clips that took something over from it must not be made yet.
        """
        names = [path.name for path in takes_of(self._root, index)]
        self._takes.pop(index, None)
        self._manifest = self._manifest.without(names)
        self._manifest.save(self._folder)
        self._measure_anew()

    def forget_unfinished(self) -> None:
        """Throw away what the maker has done of a clip that is not finished."""
        remove(self._making.unfinished)

    def deliver(self, output: Path | None, state: str | None = None) -> Result:
        """Assemble the beginning of the video that is whole, and say so in the manifest.

        state  why the run ends where it does; finished, or stopped by drift, when omitted
        """
        state = state or ("stopped" if self.stopped else "finished")
        self._manifest = replace(self._manifest, state=state)
        self._manifest.save(self._folder)
        takes: list[Take] = []
        for clip in self._schedule.shown:
            if clip.index not in self._takes:
                break
            takes.append(self._takes[clip.index])
        num_frames = 0
        if takes and output is not None:
            recipe = chain_recipe(self._manifest, takes)
            how = self._story.handover.join
            kind = file_kind(self._story, self._maker)
            num_frames = assemble(takes, output, how=how, recipe=recipe, **kind)
        drift = None if self._metering is None else self._metering.report()
        if drift is not None:
            write_json(self._folder / DRIFT, drift.as_dict())
        return Result(
            state=state,
            video=output if num_frames else None,
            num_frames=num_frames,
            takes=tuple(takes),
            schedule=self._schedule,
            drift=drift,
            advice=self.advice,
        )

    def _measure_anew(self) -> None:
        """Let the meter hold what is finished, measure what a crash left unmeasured, and judge."""
        self.stopped = False
        if self._metering is None:
            return
        self._metering.take_up(self._takes)
        self._metering.advance(self._takes)
        drift = self._metering.report() if self._story.controls.drift_stop else None
        if drift is not None:
            self._judge(drift.verdict)

    def _judge(self, verdict: "Verdict") -> None:
        failed = verdict.overall == "fail"
        self.stopped = self.stopped or (failed and self._story.controls.drift_stop)

    def _chosen(self, plan: ClipPlan, *, remake: bool) -> Take | None:
        """Return the take that was chosen; None where there is none, or none that can be used."""
        name = self._manifest.chosen.get(str(plan.index))
        found = [path for path in takes_of(self._root, plan.index) if path.name == name]
        return self._usable(found[0], plan, remake=remake) if found else None

    def _trials(self, plan: ClipPlan, *, remake: bool) -> dict[int, Take]:
        found = {}
        for path in takes_of(self._root, plan.index):
            if path.name not in self._manifest.superseded:
                take = self._usable(path, plan, remake=remake)
                if take is not None:
                    found[take.trial] = take
        return found

    def _usable(self, path: Path, plan: ClipPlan, *, remake: bool) -> Take | None:
        """Open a take; one that is damaged, or of another plan, counts no more."""
        try:
            take = open_take(path)
        except BadMedia:
            if not remake:
                raise
        else:
            if take.plan == plan:
                return take
        self._manifest = self._manifest.without([path.name])
        return None

    def _wanted(self, plan: ClipPlan) -> int:
        return self._story.controls.best_of_seams if plan.previous is not None else 1

    def _choose(self, plan: ClipPlan, trials: dict[int, Take]) -> Take:
        """Let the take with the best seam count."""
        take = min(trials.values(), key=lambda item: (item.seam or 0.0, item.trial))
        self._takes[plan.index] = take
        self._manifest = self._manifest.with_take(plan.index, take.name)
        return take

    def _make(self, plan: ClipPlan, on: OnChain | None, cancel: CancelToken, attempt: int) -> Take:
        trials = self._trials(plan, remake=False)
        first = attempt * self._wanted(plan)
        for trial in range(first, first + self._wanted(plan)):
            if trial not in trials:
                done = tuple(self._takes.values())
                voice = (
                    None if on is None else clip_voice(self._schedule, plan, done, self._began, on)
                )
                trials[trial] = self._making.make(plan, trial, self._takes, voice, cancel)
        take = self._choose(plan, trials)
        self._manifest.save(self._folder)
        return take
